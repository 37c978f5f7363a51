"""A rank's process never holds more than its plan, and the plan is not far above: peak less what an empty program holds."""

import gzip
import json
import pathlib
import statistics

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline

SHAPE, MICROBATCHES = (1, 28, 28), 4


def compress(path):
    packed = pathlib.Path(f"{path}.gz")
    packed.write_bytes(gzip.compress(path.read_bytes(), compresslevel=1))
    return packed


# With compressed data and a trace, which are named apart, or without.
COMPRESSED = [("fashion", "interleaved"), ("lenet5", "pipedream")]


@pytest.mark.parametrize("network,schedule,stages,size,options", [
    ("fashion", "1f1b", "1-1", 128, ()), ("fashion", "gpipe", "1-1", 128, ("--recompute", "all")),
    ("lenet5", "pipedream", "1-1", 512, ()), ("fashion", "interleaved", "1-1", 128, ()), ("fashion", "zb-v", "1-1", 128, ()),
    ("fashion", "2bw", "1-1", 128, ()), ("fashion", "1f1b", "2-1", 128, ()),
    ("fashion", "pipedream", "1-1-1", 128, ("--vertical-sync",)), ("fashion", "zb-h1", "1-1", 128, ("--recompute", "0"))])
def test_process_against_plan(network, schedule, stages, size, options, models, tmp_path):
    replicas = [int(count) for count in stages.split("-")]
    ranks = sum(replicas)
    batch = [size * replicas[0]]
    if schedule != "pipedream":
        batch = [size * MICROBATCHES, "--microbatches", MICROBATCHES // replicas[0]]
    project = pipeline.compile_model(models(network), tmp_path / "project", "--schedule", schedule, "--optimizer", "momentum",
                                     "--stages", stages, "--minibatch", *batch, *options, workers=ranks)
    images, labels = pipeline.draw_images(tmp_path, size * MICROBATCHES, SHAPE, 10)
    compressed = (network, schedule) in COMPRESSED
    trace = ["--trace", tmp_path / "trace.json"] if compressed else []
    if compressed:
        images, labels = compress(images), compress(labels)
    # Evaluation and a checkpoint are part of what is planned.
    result = pipeline.train(project, tmp_path / "run", *trace, "--eval-data", f"input={images}", "--eval-data", f"labels={labels}",
                            data=[f"input={images}", f"labels={labels}"], steps=4, transport="mpi")
    plan = json.loads((project / "plan.json").read_text())
    processes = result.records[-1]["memory"]
    assert [process["ranks"] for process in processes] == [[rank, rank] for rank in range(ranks)]
    for rank, process in enumerate(processes):
        planned = sum(stage["memory_bytes"] for stage in plan["stages"] if rank in stage["ranks"])
        assert process["planned"] == planned > 15e6
        assert 0.9 * process["planned"] <= process["bytes"] <= process["planned"], process
    assert ("of data" in result.output) == ("for the trace" in result.output) == compressed


# Beside a tenth, what a plan holds ready for: chance of addresses, and buffers of MPI for messages that wait for a slow rank; for
# each thread of one process, a stack and a step of its heap, which some kernels and runs take and others do not.
LESS, LESS_OF_THREAD = 130e3, 100e3
TINY_MLP = ["--hidden", "20", "16", "12"]
TINY_LLAMA = "--layers 2 --width 32 --heads 4 --groups 2 --hidden 64 --vocabulary 64 --sequence 16".split()
TINY_LSTM = "--layers 1 --width 32 --vocabulary 64 --sequence 7".split()


@pytest.mark.parametrize("network,sizes,tokens,stages", [
    ("llama", TINY_LLAMA, (64, 16), "1-1-1"), ("gpt2", [], (512, 32), "1-1"), ("mlp", [], None, "1-1-1"),
    ("mlp", TINY_MLP, None, "1-1-1-1"), ("mlp", TINY_MLP, None, "8-1"), ("mlp", ["--hidden", 8], None, "1-1"),
    ("lenet5", [], None, "1-1-1"), ("lstm", TINY_LSTM, (64, 7), "1-1")],
    ids=["llama", "gpt2", "mlp", "tiny-mlp", "many-replicas", "no-arena", "lenet5", "lstm"])
def test_small_processes_against_plan(network, sizes, tokens, stages, models, tmp_path):
    """Where libraries take more than arenas: as processes of a rank each, and as threads that share them."""
    size = 8 if tokens else 64
    replicas = [int(count) for count in stages.split("-")]
    microbatches = max(1, 4 // replicas[0])
    project = pipeline.compile_model(models(network, *sizes), tmp_path / "project", "--optimizer", "momentum", "--schedule", "1f1b",
                                     "--stages", stages, "--minibatch", replicas[0] * microbatches * size, "--microbatches",
                                     microbatches, workers=sum(replicas))
    if tokens:
        generator = numpy.random.default_rng(0)
        inputs, labels = tmp_path / "input.npy", tmp_path / "labels.npy"
        for path in (inputs, labels):
            numpy.save(path, generator.integers(0, tokens[0], (8 * size, tokens[1])))
    else:
        inputs, labels = pipeline.draw_images(tmp_path, 8 * size, {"mlp": (784,)}.get(network, SHAPE), 10)
    for transport in ("mpi", "local"):
        processes = measure(project, tmp_path / transport, images=(inputs, labels), transport=transport)
        assert len(processes) == (sum(replicas) if transport == "mpi" else 1)
        less = LESS if transport == "mpi" else (1 + sum(replicas)) * LESS_OF_THREAD
        for planned, held in processes:
            assert 0.9 * planned - less <= statistics.median(held) <= max(held) <= planned, (transport, planned, held)


def measure(project, folder, images, transport):
    """What is planned for each process, and what it held in each of three runs."""
    given = [f"{name}={path}" for name, path in zip(("input", "labels"), images)]
    runs = []
    for attempt in range(3):
        result = pipeline.train(project, folder / str(attempt), *(word for each in given for word in ("--eval-data", each)), data=given,
                                steps=4, transport=transport)
        runs.append(result.records[-1]["memory"])
    return [(same[0]["planned"], [process["bytes"] for process in same]) for same in zip(*runs)]


def test_limit_of_what_is_laid_out(models, tmp_path):
    """What the planner allowed and the layout does not is refused too."""
    model = models("lenet5")
    options = ["--schedule", "1f1b", "--minibatch", 64, "--microbatches", 4]
    project = pipeline.compile_model(model, tmp_path / "free", *options, workers=2)
    needed = max(stage["memory_bytes"] for stage in json.loads((project / "plan.json").read_text())["stages"])
    pipeline.compile_model(model, tmp_path / "enough", *options, "--memory", 2 * needed, workers=2)
    refused = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "-o", tmp_path / "none", *options,
                           "--memory", needed // 2, check=False)
    assert refused.returncode == 1
    assert "too few" in refused.stderr and "what would help" in refused.stderr


def was_planned_right(result):
    """Whether nothing was larger as it was laid out than the planner's sums."""
    again = [line for line in result.stderr.splitlines() if "planning with" in line]
    return not again or "the layout needs more" not in again[0]


@pytest.mark.parametrize("network,sizes,stages,frozen", [
    ("mlp", ["--hidden", 2048, 2048], "1", []), ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", []),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", ["--freeze", "tokens.weight"]),
    ("vgg11", [], "1", []), ("vgg11", [], "1-1", [])], ids=["mlp", "tied", "frozen", "blocked", "blocked-1-1"])
def test_planner_knows_what_lamb_takes(network, sizes, stages, frozen, models, tmp_path):
    """Directions and their squares, in blocks, too, beside the workspace of another unit, the moments of a tied weight, and one that
    both stages hold and nothing trains: what cannot be laid out is refused before it is."""
    options = ["--optimizer", "lamb,lr=0.01", "--schedule", "1f1b", "--stages", stages, "--minibatch", 8, "--microbatches", 4,
               "--recompute", "none", *frozen]
    model, workers = models(network, *sizes), len(stages.split("-"))
    project = pipeline.compile_model(model, tmp_path / "free", *options, workers=workers)
    needed = max(stage["memory_bytes"] for stage in json.loads((project / "plan.json").read_text())["stages"])
    for share in (0.99, 0.9, 0.8, 0.7):
        result = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", workers, "--device", "cpu", "-o", tmp_path / "less", *options,
                              "--memory", int(share * needed), check=False)
        assert was_planned_right(result)
    assert result.returncode == 1 and "too few" in result.stderr


@pytest.mark.parametrize("network,sizes,stages,schedule,recompute,more", [
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1", "1f1b", "none", 1.02),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "1f1b", "none", 1.1),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "1f1b", "all", 1.1),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "zb-h1", "none", 1.1),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "zb-h1", "all", 1.1),
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "2bw", "none", 1.3),
    ("unet", ["--size", 64, "--width", 16], "1-1", "1f1b", "none", 1.1), ("vgg11", [], "1", "1f1b", "none", 1.02)])
def test_planner_refuses_little_that_could_be_laid_out(network, sizes, stages, schedule, recompute, more, models, tmp_path):
    """What lives in a task alone is counted as it lives there; views, what is kept for the backward pass or sent, what lies over
    something else, what input gradients have done with and weights that are sent not again."""
    options = ["--optimizer", "adam", "--schedule", schedule, "--stages", stages, "--minibatch", 64, "--microbatches", 4,
               "--recompute", recompute]
    model, workers = models(network, *sizes), len(stages.split("-"))
    project = pipeline.compile_model(model, tmp_path / "free", *options, workers=workers)
    needed = max(stage["memory_bytes"] for stage in json.loads((project / "plan.json").read_text())["stages"])
    enough = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", workers, "--device", "cpu", "-o", tmp_path / "enough", *options,
                          "--memory", int(more * needed))
    assert "by the planner's sums" not in enough.stderr
    for share in (0.98, 0.8, 0.6, 0.4, 0.2):
        result = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", workers, "--device", "cpu", "-o", tmp_path / "less", *options,
                              "--memory", int(share * needed), check=False)
        assert was_planned_right(result)
    assert result.returncode == 1 and "too few" in result.stderr


def by_rank(project):
    """Bytes as they are laid out for the rank that has most, the seconds of the plan, and whether it recomputes."""
    plan = json.loads((project / "plan.json").read_text())
    ranks = {rank: 0 for stage in plan["stages"] for rank in stage["ranks"]}
    for stage in plan["stages"]:
        for rank in stage["ranks"]:
            ranks[rank] += stage["memory_bytes"]
    return max(ranks.values()), plan["seconds_per_minibatch"], any(stage["recompute"] for stage in plan["stages"])


@pytest.mark.parametrize("network,sizes,stages,schedule,optimizer", [
    ("gpt2", ["--vocabulary", 8192, "--width", 64], "1-1", "zb-v", "adam"), ("lenet5", [], "1-1", "gpipe", "sgd"),
    ("mlp", ["--hidden", 128, 128], "2-1", "gpipe", "momentum,lr=0.01,momentum=0.9")])
def test_layout_decides(network, sizes, stages, schedule, optimizer, models, tmp_path):
    """A plan that fits as it is laid out is made whatever the planner's sums say; where one does not by a byte, another is."""
    options = ["--optimizer", optimizer, "--schedule", schedule, "--stages", stages, "--minibatch", 32, "--microbatches", 2]
    model, workers = models(network, *sizes), sum(map(int, stages.split("-")))
    needed, seconds, recomputes = by_rank(pipeline.compile_model(model, tmp_path / "free", *options, workers=workers))
    assert not recomputes
    exact = by_rank(pipeline.compile_model(model, tmp_path / "exact", *options, "--memory", needed, workers=workers))
    assert exact[0] <= needed and exact[1] <= 1.001 * seconds and not exact[2]
    less = by_rank(pipeline.compile_model(model, tmp_path / "less", *options, "--memory", needed - 1, workers=workers))
    assert less[0] < needed


def test_more_memory_never_refuses_what_less_allows(models, tmp_path):
    """And every text is of the memory that the devices have."""
    options = ["--optimizer", "adam", "--schedule", "1f1b", "--stages", "1-1-1", "--minibatch", 32, "--microbatches", 4]
    model = models("gpt2", "--vocabulary", 512, "--width", 64)
    needed = by_rank(pipeline.compile_model(model, tmp_path / "free", *options, workers=3))[0]
    accepted = []
    for share in (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        limit = int(share * needed)
        result = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 3, "--device", "cpu", "-o", tmp_path / f"{limit}", *options,
                              "--memory", limit, check=False)
        accepted.append(result.returncode == 0)
        assert not accepted[-1] or by_rank(tmp_path / f"{limit}")[0] <= limit
        assert accepted[-1] or f"a device has {limit} bytes" in result.stderr
    assert accepted == sorted(accepted) and accepted[-1] and not accepted[0]


def export_long_skip(path, width=64, layers=9):
    """Layers of which the last adds what the first computed."""
    draw, nodes, weights = numpy.random.default_rng(0), [], []

    def product(x, y, inner, outer):
        weights.append(numpy_helper.from_array(draw.normal(scale=0.1, size=(inner, outer)).astype("f"), f"{y}.weight"))
        nodes.append(helper.make_node("MatMul", [x, f"{y}.weight"], [y]))

    product("x", "first", 8, width)
    names = ["first"] + [f"layer{i}" for i in range(layers)]
    for x, y in zip(names, names[1:]):
        product(x, y, width, width)
    nodes.append(helper.make_node("Add", [names[-1], "first"], ["sum"]))
    product("sum", "y", width, 4)
    rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name, size in (("x", 8), ("y", 4))]
    graph = helper.make_graph(nodes, "skip", rows[:1], rows[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_all_stages_recompute_where_some_are_not_enough(tmp_path):
    """Stages that keep their activations hold more than the planner's sums say, here by a quarter."""
    model = export_long_skip(tmp_path / "skip.onnx")
    options = ["--loss", "mse", "--schedule", "zb-h1", "--stages", "1-1-1-1", "--minibatch", 4096, "--microbatches", 8]
    needed = by_rank(pipeline.compile_model(model, tmp_path / "all", *options, "--recompute", "all", workers=4))[0]
    project = pipeline.compile_model(model, tmp_path / "auto", *options, "--memory", needed, workers=4)
    assert by_rank(project)[0] <= needed


def test_memory_of_closed_forms_and_levels(models, tmp_path):
    model = models("lenet5")
    project = pipeline.compile_model(model, tmp_path / "closed", "--minibatch", 32, "--cost-model", "pipedream-code", "--memory", "300M",
                                     workers=2)
    assert json.loads((project / "plan.json").read_text())["topology"]["memory"] == 300 << 20
    # A plan that the layout alone allows is printed at each level.
    options = ["--schedule", "gpipe", "--stages", "1-1", "--minibatch", 32, "--microbatches", 2]
    needed = by_rank(pipeline.compile_model(model, tmp_path / "free", *options, workers=2))[0]
    for level in ("graph", "cut", "staged", "scheduled"):
        printed = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", *options, "--memory", needed, "--stop-after", level)
        assert "pdc.unit" in printed.stdout
