"""Sources for GPUs. Without a GPU they run on the host's threads (testsuite/cuda), where a copy or a kernel that does not
wait for what it needs gives wrong losses, and nvcc compiles and links them."""

import json
import os
import pathlib
import re
import subprocess
import time

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline
import transformers
from emulation import NVCC, build_for_host, emit, on_host, train_on_host, with_nvcc

NETWORKS = {"lenet5": ((1, 28, 28), 2, 4), "fashion": ((1, 28, 28), 2, 4)}


@on_host
@pytest.mark.parametrize("network,stages,schedule,precision", [
    ("lenet5", "1-1-1", "1f1b", "fp32"), ("fashion", "1-1", "gpipe", "fp32"), ("lenet5", "1", "1f1b", "tf32"),
    ("lenet5", "3-1", "1f1b", "fp32"), ("fashion", "2", "1f1b", "fp32")])
def test_trains_like_the_processor(network, stages, schedule, precision, models, tmp_path):
    """The losses and weights of the CPU's kernels, to rounding (of TF32: 2^-11 per factor); streams of ranks meet by events
    alone. Replicas sum their gradients and average their running statistics: those of the CPU's own replicas."""
    shape, size, steps = NETWORKS[network]
    replicas = [int(count) for count in stages.split("-")]
    microbatches = 2 if max(replicas) > 1 else 4  # of each replica of the first stage
    options = ["--schedule", schedule, "--stages", stages, "--minibatch", size * microbatches * replicas[0], "--microbatches",
               microbatches, "--optimizer", "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3"]
    images, labels = pipeline.draw_images(tmp_path, size * 24, shape, 10)
    data = [f"input={images}", f"labels={labels}"]
    on_cpu = pipeline.compile_model(models(network), tmp_path / "cpu", *options, workers=sum(replicas))
    expected = pipeline.train(on_cpu, tmp_path / "expected", data=data, steps=steps)
    project = emit(models(network), tmp_path / "cuda", *options, "--precision", precision, workers=sum(replicas))
    found = train_on_host(project, tmp_path / "found", data=data, steps=steps)
    rounding = {"fp32": 1, "tf32": 50}[precision]
    assert numpy.allclose(found.losses, expected.losses, rtol=2e-5 * rounding)
    assert precision == "fp32" or not numpy.allclose(found.losses, expected.losses, rtol=1e-6)
    weights = found.weights()
    for name, value in expected.weights().items():
        assert numpy.allclose(weights[name], value, rtol=1e-3 * rounding, atol=2e-5 * rounding), name


@on_host
def test_graphs_train_bit_for_bit(models, tmp_path):
    """Recorded tasks find in memory what changes from run to run: slots, dropout's random numbers, learning rate, step. Ranks
    that are threads may also have a GPU each."""
    project = emit(models("fashion"), tmp_path / "cuda", "--stages", "1-1", "--schedule", "1f1b", "--minibatch", 8, "--microbatches",
                   4, "--optimizer", "adam,lr=0.01", workers=2)
    images, labels = pipeline.draw_images(tmp_path, 32, (1, 28, 28), 10)
    options = {"data": [f"input={images}", f"labels={labels}"], "steps": 4}
    graphs, kernels, spread = (
        train_on_host(project, tmp_path / name, "--lr-schedule", "linear,warmup=2", *switch, env=os.environ | place, **options)
        for name, switch, place in (("graphs", [], {}), ("kernels", ["--no-graphs"], {}), ("spread", [], {"HOST_CUDA_DEVICES": "2"})))
    assert len(set(graphs.losses)) == 4 and graphs.losses == kernels.losses == spread.losses
    weights = kernels.weights()
    for other in (graphs, spread):
        assert all(numpy.array_equal(value, weights[name]) for name, value in other.weights().items())


@on_host
@pytest.mark.parametrize("network,stages", [("gpt2", 2), ("seq2seq", 3)])
def test_transformers_train_like_the_processor(network, stages, models, tmp_path):
    """Embeddings, attention, layer normalisation and Adam; a weight that both stages hold; gradients that are clipped."""
    options = ["--minibatch", 4, "--microbatches", 2, "--optimizer", "adamw,lr=1e-3,weight_decay=0.1"]
    model = models(network)
    _, data = transformers.draw(network, tmp_path, 1, count=4)
    clip = ["--clip-norm", 0.5]
    expected = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *options), tmp_path / "expected", *clip, data=data,
                              steps=2)
    project = emit(model, tmp_path / "cuda", *options, "--stages", "-".join(["1"] * stages), workers=stages)
    found = train_on_host(project, tmp_path / "found", *clip, data=data, steps=2)
    assert numpy.allclose(found.losses, expected.losses, rtol=2e-5)
    norms, of_cpu = ([record["gradient_norm"] for record in training.records if "gradient_norm" in record]
                     for training in (found, expected))
    assert len(norms) == 2 and numpy.allclose(norms, of_cpu, rtol=2e-5)


@on_host
@pytest.mark.parametrize("network,precision", [("gpt2", "bf16"), ("fashion", "bf16"), ("lenet5", "fp16"), ("gpt2", "fp16")])
def test_stages_in_16_bits_train_bit_for_bit(network, precision, models, tmp_path):
    """What crosses has 16 bits on one stage too; losses are those of f32 to two steps of 16 bits (2^-8, 2^-10):
    each value on the way is rounded by half a step, and an average of many is off by less than one of them. Dropout's random
    numbers are the CPU's. Rows of 515 scores are padded."""
    # Adam's first step is lr in the direction of a gradient's sign, which rounding may turn where the gradient is small.
    optimizer = {"gpt2": "adamw,lr=1e-3", "fashion": "momentum,lr=0.01,momentum=0.9", "lenet5": "adam,lr=1e-3"}[network]
    options = ["--minibatch", 8, "--microbatches", 2, "--optimizer", optimizer, "--schedule", "1f1b"]
    if network == "gpt2":
        data = transformers.draw(network, tmp_path, 1, count=8)[1]
    else:
        images, labels = pipeline.draw_images(tmp_path, 24, NETWORKS[network][0], 10)
        data = [f"input={images}", f"labels={labels}"]
    model = models(network, *(["--dropout", 0.1, "--vocabulary", 515] if network == "gpt2" else []))
    evaluated = ["--metric", "accuracy", *(word for entry in data for word in ("--eval-data", entry))]
    expected = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *options, workers=1), tmp_path / "expected", *evaluated,
                              data=data, steps=3)
    one, two = (train_on_host(emit(model, tmp_path / stages, *options, "--exact", "--precision", precision, "--stages", stages,
                                   workers=workers), tmp_path / f"found-{stages}", *evaluated, data=data, steps=3)
                for workers, stages in ((1, "1"), (2, "1-1")))
    assert network != "gpt2" or (tmp_path / "1-1" / "stage_1.cpp").read_text().count(".pitchY = 520") == 1
    assert numpy.allclose(one.losses, expected.losses, rtol={"bf16": 2 * 2**-8, "fp16": 2 * 2**-10}[precision])
    assert one.losses == two.losses
    evaluations = [next(record for record in training.records if "evaluation_loss" in record) for training in (expected, one, two)]
    of_cpu, of_one, of_two = ([record[name] for name in ("evaluation_loss", "accuracy")] for record in evaluations)
    assert of_one == of_two and numpy.isclose(of_one[0], of_cpu[0], rtol={"bf16": 2 * 2**-8, "fp16": 2 * 2**-10}[precision])
    weights = one.weights()
    assert all(numpy.array_equal(value, weights[name]) for name, value in two.weights().items())
    if precision == "fp16":
        expect_scaled_loss(tmp_path / "1-1", tmp_path, data, two)


def expect_scaled_loss(project, folder, data, trained):
    """A scale at which gradients overflow leaves updates out on all stages, and halves each time, as PyTorch's GradScaler does."""
    state = next((folder / "found-1-1" / "checkpoints").glob("step-000003")) / "state.json"
    before = json.loads(state.read_text())
    assert before["loss_scale"] == 65536 and before["loss_scale_steps"] == 3 and before["steps_left_out"] == 0
    state.write_text(json.dumps(before | {"loss_scale": 2.0 ** 60}))
    left_out = train_on_host(project, folder / "left-out", "--clip-norm", "1", "--resume", state.parent, data=data, steps=5)
    after = json.loads(next((folder / "left-out" / "checkpoints").glob("step-000005")).joinpath("state.json").read_text())
    assert after["loss_scale"] == 2.0 ** 58 and after["loss_scale_steps"] == 0 and after["steps_left_out"] == 2
    assert "gradient_norm" not in (folder / "left-out" / "log.jsonl").read_text()
    weights = trained.weights()
    assert all(numpy.array_equal(value, weights[name]) for name, value in left_out.weights().items())


def two_linear_layers(path):
    """Of one tied weight, each with a bias; an upper and a lower limit between them, which are weights."""
    generator = numpy.random.default_rng(1)
    weights = {"w": generator.normal(0, 0.4, (16, 16)), "b": generator.normal(0, 0.1, 16), "c": generator.normal(0, 0.1, 16),
               "low": generator.normal(-0.5, 0.1, 16), "high": generator.normal(0.5, 0.1, 16)}
    nodes = [helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]),
             helper.make_node("MatMul", ["input", "wt"], ["p"]), helper.make_node("Add", ["p", "b"], ["h"]),
             helper.make_node("Max", ["h", "low"], ["m"]), helper.make_node("Min", ["m", "high"], ["n"]),
             helper.make_node("Transpose", ["w"], ["wt2"], perm=[1, 0]),
             helper.make_node("MatMul", ["n", "wt2"], ["q"]), helper.make_node("Add", ["q", "c"], ["r"]),
             helper.make_node("Flatten", ["r"], ["output"])]
    graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 3, 16])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 48])],
                              [numpy_helper.from_array(value.astype(numpy.float32), name) for name, value in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@on_host
@pytest.mark.parametrize("stages,schedule", [("1", "1f1b"), ("1-1", "pipedream")])
def test_extremes_and_tied_weights_in_16_bits(stages, schedule, tmp_path):
    """An operand of 16 bits and one of f32: exactly one of them is the larger, and has the gradient. Biases are added by the
    products' kernels. A tied weight of an asynchronous schedule crosses."""
    model, batch = two_linear_layers(tmp_path / "model.onnx"), 1 if schedule == "pipedream" else 2
    options = ["--minibatch", 8 * batch, "--microbatches", batch, "--optimizer", "momentum,lr=0.1,momentum=0.9",
               "--schedule", schedule, "--stages", stages]
    images, labels = pipeline.draw_images(tmp_path, 48, (3, 16), 48)
    data, workers = [f"input={images}", f"labels={labels}"], len(stages.split("-"))
    expected = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *options, workers=workers), tmp_path / "expected",
                              data=data, steps=4)
    project = emit(model, tmp_path / "cuda", *options, "--precision", "bf16", workers=workers)
    found = train_on_host(project, tmp_path / "found", data=data, steps=4)
    assert numpy.allclose(found.losses, expected.losses, rtol=2 * 2**-8)


@on_host
def test_padded_rows_cross_stages(tmp_path):
    """Rows of 61 scores in 16 bits, and of their gradient, cross with their padding, which nobody reads."""
    weights = {"w": (16, 16), "v": (16, 61), "b": (61,)}
    generator = numpy.random.default_rng(1)
    nodes = [helper.make_node("MatMul", ["input", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]),
             helper.make_node("MatMul", ["t", "v"], ["p"], name="/head"), helper.make_node("Add", ["p", "b"], ["r"], name="/bias"),
             helper.make_node("Flatten", ["r"], ["output"], name="/flat")]
    graph = helper.make_graph(nodes, "scores", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 1, 16])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 61])],
                              [numpy_helper.from_array(generator.normal(0, 0.3, shape).astype(numpy.float32), name)
                               for name, shape in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "model.onnx")
    (tmp_path / "stages.json").write_text(json.dumps({"/head": 0, "/bias": 0, "/flat": 1, "loss": 1}))
    options = ["--minibatch", 16, "--microbatches", 2, "--optimizer", "momentum,lr=0.1,momentum=0.9"]
    images, labels = pipeline.draw_images(tmp_path, 48, (1, 16), 61)
    data = [f"input={images}", f"labels={labels}"]
    expected = pipeline.train(pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "cpu", *options, workers=1), tmp_path / "expected",
                              data=data, steps=3)
    one, two = (train_on_host(emit(tmp_path / "model.onnx", tmp_path / f"on-{workers}", *options, "--exact", "--precision", "bf16", "--stages",
                                   stages, workers=workers), tmp_path / f"found-{workers}", data=data, steps=3)
                for workers, stages in ((1, "1"), (2, tmp_path / "stages.json")))
    assert ".bytes = 1024}" in re.search("kTransfers.*?;", (tmp_path / "on-2" / "stage_0.cpp").read_text(), re.DOTALL)[0]  # 8 rows of 64
    assert numpy.allclose(one.losses, expected.losses, rtol=2 * 2**-8)
    assert one.losses == two.losses
    found = two.weights()
    assert all(numpy.array_equal(value, found[name]) for name, value in one.weights().items())


@on_host
def test_profiles(models, tmp_path):
    """pdc-profile writes a program whose times of units, by events of the device, become a profile that pdc plans with."""
    batch = ["--minibatch", 8, "--microbatches", 2, "--optimizer", "momentum,lr=0.1"]
    model, profile = models("lenet5"), tmp_path / "profile.json"
    told = pipeline.run(pipeline.BIN / "pdc-profile", model, "--device", "cuda", *batch, "--steps", 4, "--sources", tmp_path / "project")
    command = re.search(r"PDC_UNIT_TIMES=(\S+) \S+/all_stages (.*)", told.stdout)
    program, times = build_for_host(tmp_path / "project"), pathlib.Path(command[1])
    begin = time.monotonic()
    pipeline.run("env", f"PDC_UNIT_TIMES={times}", program, *command[2].split())
    taken = time.monotonic() - begin
    runs = json.loads(times.read_text())["units"]
    assert {len(seconds) for seconds in runs} == {4, 10}  # of updates but the last, and of microbatches
    assert 0 < sum(map(sum, runs)) < taken
    pipeline.run(pipeline.BIN / "pdc-profile", model, "--device", "cuda", *batch, "--times", times, "-o", profile)
    units = {unit["name"]: unit for unit in json.loads(profile.read_text())["units"]}
    assert json.loads(profile.read_text())["device"] == "cuda"
    assert all(unit["forward_seconds"] > 0 for unit in units.values() if unit["gradient_bytes"])
    # Updates share a kernel, and its time by their elements.
    shared = [unit["update_seconds"] / unit["gradient_bytes"] for unit in units.values() if unit["gradient_bytes"]]
    assert min(shared) > 0 and max(shared) < 1.01 * min(shared)
    plan = emit(model, tmp_path / "planned", *batch, "--stages", "1-1", "--profile", profile, workers=2)
    stages = json.loads((plan / "plan.json").read_text())["stages"]
    for field in ("forward_seconds", "update_seconds"):
        assert sum(stage[field] for stage in stages) == pytest.approx(sum(unit[field] for unit in units.values()))
    # The second microbatch of an update adds its gradients to the first one's.
    times.write_text(json.dumps({"units": [[1e-3, 3e-3] * 5 if len(seconds) == 10 else seconds for seconds in runs]}))
    pipeline.run(pipeline.BIN / "pdc-profile", model, "--device", "cuda", *batch, "--times", times, "-o", profile)
    added = {unit["accumulation_slowdown"] for unit in json.loads(profile.read_text())["units"] if unit["gradient_bytes"]}
    assert [*added] == pytest.approx([3] * len(added))
    other = pipeline.run(pipeline.BIN / "pdc-profile", models("mlp"), "--device", "cuda", *batch, "--times", times, "-o", profile,
                         check=False)
    assert other.returncode == 1 and "give the options that the measuring program was written with" in other.stderr
    for kept in (1, 3):  # of an update of two microbatches, and not of whole updates
        times.write_text(json.dumps({"units": [seconds[:kept] for seconds in runs]}))
        short = pipeline.run(pipeline.BIN / "pdc-profile", model, "--device", "cuda", *batch, "--times", times, "-o", profile, check=False)
        assert short.returncode == 1 and f"found {kept} runs of a unit" in short.stderr


def measuring_project(model, folder):
    """Of pdc-profile, and the command for its links."""
    told = pipeline.run(pipeline.BIN / "pdc-profile", model, "--device", "cuda", "--minibatch", 8, "--microbatches", 2, "--sources", folder)
    [command] = re.findall(r"mpirun -n GPUS \S+/build/(links) topology.json", told.stdout)
    return command


@on_host
def test_measures_links(models, tmp_path):
    """The program of pdc-profile that measures between GPUs, by processes on the emulation of NCCL: a topology as that of --links."""
    name = measuring_project(models("lenet5"), tmp_path / "project")
    program, path, ranks = build_for_host(tmp_path / "project", name), tmp_path / "topology.json", 3
    place = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(pipeline.free_port())}

    def start(rank, path=path):
        here = os.environ | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        return subprocess.Popen([program, path], env=here, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    begin = time.monotonic()
    processes = [start(rank) for rank in range(ranks)]
    told = [process.communicate(timeout=120) for process in processes]
    taken = time.monotonic() - begin
    assert [process.returncode for process in processes] == [0] * ranks, told
    assert re.findall(r"rank (\d) to rank (\d): \S+ bytes per second, latency \S+ [um]?s\n", told[0][0]) == [("0", "1"), ("0", "2"), ("1", "2")]
    assert told[1][0] == told[2][0] == ""
    topology = json.loads(path.read_text())
    [level] = topology["levels"]
    assert set(level) == {"workers", "bandwidth", "latency"} and level["workers"] == ranks and topology["device"] == "cuda"
    # 3 trips of 16 MiB there and back are the least that each pair makes.
    assert 3 * 2 * (16 << 20) * 3 / taken < level["bandwidth"] < 1e12 and 0 <= level["latency"] < 0.1
    assert 1e-6 < topology["sum_seconds"] < 0.1
    plan = emit(models("lenet5"), tmp_path / "planned", "--topology", path, "--minibatch", 8, "--microbatches", 2, "--schedule", "1f1b",
                workers=ranks)
    assert json.loads((plan / "plan.json").read_text())["topology"]["levels"][0]["bandwidth"] == level["bandwidth"]
    unwritten = [start(rank, tmp_path / "none" / "topology.json") for rank in range(ranks)]
    told = [process.communicate(timeout=120) for process in unwritten]
    assert [process.returncode for process in unwritten] == [1] * ranks, told
    assert ["cannot be written" in errors for _, errors in told] == [True, False, False], told
    alone = subprocess.run([program, path], capture_output=True, text=True)
    assert alone.returncode == 1 and "start one per GPU with RANK" in alone.stderr


@on_host
@pytest.mark.parametrize("width,dropout,text", [(64, 0, ""), (64, 0.1, ""), (48, 0.1, "\nwarning: attention has heads of 12 and 12 numbers")],
                         ids=["whole", "dropped", "narrow"])
def test_plans_say_which_attention_is_slow(width, dropout, text, tmp_path):
    model = pipeline.export("gpt2", tmp_path / "gpt2.onnx", "--dropout", dropout, "--width", width)
    project = emit(model, tmp_path / "cuda", "--precision", "bf16", "--minibatch", 4, "--microbatches", 1)
    plan, source = (project / "plan.txt").read_text(), (project / "stage_0.cpp").read_text()
    assert text in plan and bool(text) == ("warning: attention" in plan), plan
    # What all layers share, forward and for the gradients.
    fused = re.sub(r"\s+", " ", source).count('.causal = 1, .compute = "bf16"')
    assert fused == 0 if text else fused >= 2


def attention_of_as_many_numbers_as_samples(path):
    """Heads whose width is the microbatch's size."""
    weight = numpy.random.default_rng(2).normal(0, 0.3, (16, 16)).astype(numpy.float32)
    nodes = [helper.make_node("MatMul", ["input", "w"], ["h"]), helper.make_node("Transpose", ["h"], ["t"], perm=[1, 2, 0]),
             helper.make_node("Unsqueeze", ["t", "first"], ["q"]), helper.make_node("Attention", ["q", "q", "q"], ["a"]),
             helper.make_node("Squeeze", ["a", "first"], ["s"]), helper.make_node("Transpose", ["s"], ["b"], perm=[2, 0, 1]),
             helper.make_node("Flatten", ["b"], ["output"])]
    graph = helper.make_graph(nodes, "samples", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 2, 16])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 32])],
                              [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(numpy.array([0]), "first")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), path)
    return path


def test_attention_of_many_samples(tmp_path):
    """cuDNN has kernels for 65,535 at most (pytorch#181235)."""
    nodes = [helper.make_node("MatMul", ["input", "w"], ["h"]),
             helper.make_node("Attention", ["h", "h", "h"], ["a"], q_num_heads=1, kv_num_heads=1), helper.make_node("Flatten", ["a"], ["output"])]
    graph = helper.make_graph(nodes, "samples", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["N", 2, 8])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 16])],
                              [numpy_helper.from_array(numpy.ones((8, 8), numpy.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11), tmp_path / "model.onnx")
    for samples, together in ((65535, None), (65536, {"32768"}), (131074, {"2"})):
        project = emit(tmp_path / "model.onnx", tmp_path / f"{samples}", "--precision", "bf16", "--minibatch", samples, "--microbatches", 1,
                       "--loss", "cross_entropy")
        source = (project / "stage_0.cpp").read_text()
        assert source.count('.compute = "bf16"') >= 2
        found = {int(number) for number in re.findall(r"batchTogether = (\d+)", source)}
        assert all(number < 65536 and samples % number == 0 for number in found) and (max(found, default=0) == 32768) == (samples == 65536)


def test_plans_name_no_warnings_of_other_sizes(tmp_path):
    """All are shown while sizes are tried; behind the plan stand those of the size that was chosen."""
    model = attention_of_as_many_numbers_as_samples(tmp_path / "samples.onnx")
    project, command = tmp_path / "cuda", [pipeline.BIN / "pdc", model, "--gpus", 2, "--precision", "bf16", "--minibatch", 16]
    shown = pipeline.run(*command, "--stages", "1-1", "-o", project).stderr
    assert all(f"warning: attention has heads of {size} and {size} numbers" in shown for size in (1, 2, 4)), shown
    assert json.loads((project / "plan.json").read_text())["microbatch_size"] in (8, 16)
    assert "warning" not in (project / "plan.txt").read_text()
    pipeline.run(*command, "--stages", "1-1", "--microbatches", 4, "-o", tmp_path / "fours")
    warned = re.findall(r"warning: attention(.*) has heads of (\d+)", (tmp_path / "fours" / "plan.txt").read_text())
    assert warned == [("", "4"), ("'s gradient", "4")]


@pytest.mark.parametrize("schedule,ahead", [("1f1b", 4 * (4 * 28 * 28 + 8)), ("pipedream", 8 * (4 * 28 * 28 + 8))])
def test_plans_count_inputs_on_their_way(schedule, ahead, models, tmp_path):
    """Beside the arena: the images and labels of a microbatch. What libraries hold of the host's memory is not the device's."""
    split = ["--microbatches", 2] if schedule == "1f1b" else []
    project = emit(models("lenet5"), tmp_path / "cuda", "--minibatch", 8, "--schedule", schedule, *split)
    arena = int(re.search(r"arenaBytes = (\d+)", (project / "stage_0.cpp").read_text())[1])
    plan = json.loads((project / "plan.json").read_text())
    assert plan["stages"][0]["memory_bytes"] == arena + ahead
    assert not plan.get("library_bytes") and not plan["stages"][0]["library_bytes"]


def compile_loops(source, folder):
    pipeline.run(NVCC, "-std=c++20", "--extended-lambda", "--expt-relaxed-constexpr", "-gencode", "arch=compute_90,code=sm_90", "-I",
                 pipeline.SOURCE, "-c", source, "-o", folder / f"{source.stem}.o")


@with_nvcc
def test_long_sums_compile(tmp_path):
    """As a weight's gradients of 150 steps: nvcc follows fewer instances of templates than the host's compiler."""
    names = [f"w{i}" for i in range(150)]
    nodes = [helper.make_node("Sum", names, ["sum"]), helper.make_node("Add", ["x", "sum"], ["output"])]
    graph = helper.make_graph(nodes, "sums", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])],
                              [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["N", 16])],
                              [numpy_helper.from_array(numpy.ones(16, numpy.float32), name) for name in names])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "model.onnx")
    project = emit(tmp_path / "model.onnx", tmp_path / "cuda", "--minibatch", 8, "--microbatches", 1, "--precision", "fp32")
    assert "float x149) -> float" in re.sub(r"\s+", " ", (project / "stage_0.cu").read_text())
    compile_loops(project / "stage_0.cu", tmp_path)


@with_nvcc
def test_compiles(models, tmp_path):
    """nvcc takes the loops, the host's compiler the rest. (tools/check --cuda also compiles the runtime, and links.)"""
    project = emit(models("lenet5"), tmp_path / "cuda", "--minibatch", 8, "--microbatches", 2, "--stages", "1-1",
                   workers=2)
    assert (loops := list(project.glob("stage_?.cu")))
    for source in loops:
        compile_loops(source, tmp_path)
    for number in (0, 1):
        pipeline.run("g++", "-std=c++20", "-fsyntax-only", "-I", pipeline.SOURCE, project / f"stage_{number}.cpp")


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("network", [("resnet18",), ("gpt2", "--dropout", 0.1), ("lstm", "--cell", "GRU")], ids=lambda network: network[0])
def test_sources_give_no_warnings(network, device, models, tmp_path):
    """Of those that a reader's compiler may be asked for."""
    project = tmp_path / "project"
    pipeline.run(pipeline.BIN / "pdc", models(*network), "--gpus", 2, "--device", device, "-o", project, "--minibatch", 8, "--microbatches", 2)
    for source in [*project.glob("stage_?.cpp"), project / "all_stages_main.cpp"]:
        pipeline.run("g++", "-std=c++20", "-fopenmp", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", pipeline.SOURCE, source)


@on_host
@with_nvcc
def test_measuring_program_compiles(models, tmp_path):
    """(tools/check --cuda links it, and its program for links.)"""
    project = tmp_path / "project"
    name = measuring_project(models("lenet5"), project)
    compile_loops(project / "stage_0.cu", tmp_path)
    includes = [pipeline.SOURCE, pathlib.Path(NVCC).resolve().parents[1] / "include"]
    for source in ("stage_0.cpp", f"{name}_main.cpp"):
        pipeline.run("g++", "-std=c++20", "-fsyntax-only", *[f"-I{folder}" for folder in includes], project / source)
