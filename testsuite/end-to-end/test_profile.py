"""pdc-profile measures every unit, and pdc plans with exactly what it measured."""

import collections
import csv
import json
import os
import pathlib
import signal
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline

SECONDS = ("forward_seconds", "backward_input_seconds", "backward_weight_seconds", "update_seconds")


def measure(model, path, *options):
    result = pipeline.run(pipeline.BIN / "pdc-profile", model, "-o", path, *options)
    return json.loads(path.read_text()), result.stdout


@pytest.mark.parametrize("network", ["mlp", "lenet5"])
def test_measured_seconds_reach_the_plan(network, models, tmp_path):
    batch = ["--minibatch", 64, "--microbatches", 4, "--optimizer", "momentum,lr=0.1"]
    profile, table = measure(models(network), tmp_path / "profile.json", *batch, "--steps", 5,
                             "--kernels", tmp_path / "kernels.csv")
    # 1. The profile.
    units = {unit["name"]: unit for unit in profile["units"]}
    views = [name for name, unit in units.items() if all("latten" in node for node in unit["nodes"])]
    assert profile["microbatch_size"] == 16
    assert all(unit["forward_seconds"] > 0 for name, unit in units.items() if name not in views)
    assert sum(unit["backward_weight_seconds"] > 0 for unit in units.values()) >= 3
    assert all(unit["update_seconds"] > 0 for unit in units.values() if unit["gradient_bytes"])
    assert "error" in table and "all units" in table
    assert all(unit[f"{what}slowdown"] >= 1 for unit in units.values() for what in ("", "update_", "version_"))
    assert ("while 1 more did the same" in table) == (len(os.sched_getaffinity(0)) == 2)
    # 2. What its table sums up by kernel.
    with open(tmp_path / "kernels.csv", newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    counts = collections.Counter(row["kernel"] for row in rows)
    lines = table.partition("\nkernels")[2].split("\n\n")[0].splitlines()[1:]
    listed = {line.split()[0]: int(line.split()[1]) for line in lines}
    assert listed and listed.items() <= counts.items()
    assert all(float(row["estimated_seconds"]) > 0 for row in rows)
    # 3. The plan made from it.
    project = pipeline.compile_model(models(network), tmp_path / "project", *batch, "--schedule", "1f1b",
                                     "--profile", tmp_path / "profile.json", workers=2)
    plan = json.loads((project / "plan.json").read_text())
    assert len(plan["stages"]) == 2
    assert sum(len(stage["units"]) for stage in plan["stages"]) == len(units)
    for stage in plan["stages"]:
        total = lambda *fields: sum(units[name][field] for name in stage["units"] for field in fields)
        assert stage["forward_seconds"] == pytest.approx(total(SECONDS[0]), rel=1e-9)
        # The first of four microbatches writes the gradients of weights, three add theirs.
        added = sum((units[name]["accumulation_slowdown"] - 1) * units[name][SECONDS[2]] for name in stage["units"])
        assert stage["backward_seconds"] == pytest.approx(total(*SECONDS[1:3]) + 3 / 4 * added, rel=1e-9)


def test_views_of_weights_are_planned_with_their_readers(models, tmp_path):
    """An exported LSTM puts its weights in ONNX's order of gates, and a view makes them what the operator reads."""
    model = models("lstm", "--layers", 1, "--width", 16, "--sequence", 4)
    batch = ["--minibatch", 16, "--microbatches", 4]
    profile, _ = measure(model, tmp_path / "profile.json", *batch, "--steps", 2)
    project = pipeline.compile_model(model, tmp_path / "project", *batch, "--schedule", "1f1b", "--profile",
                                     tmp_path / "profile.json", workers=2)
    stages = json.loads((project / "plan.json").read_text())["stages"]
    assert sum(len(stage["units"]) for stage in stages) == len(profile["units"])


def test_mean_of_squares_as_the_loss(tmp_path):
    """Its gradient begins as a number that is made once; where stages keep several versions it is made for each
    microbatch, by another unit."""
    tensors = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
               for name, shape in (("x", ["batch", 6]), ("target", ["batch", 3]), ("loss", []))}
    weight = numpy_helper.from_array(numpy.linspace(-1, 1, 18, dtype=numpy.float32).reshape(6, 3), "weight")
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["y"], "product"), helper.make_node("Sub", ["y", "target"], ["off"], "off"),
             helper.make_node("Mul", ["off", "off"], ["square"], "square"),
             helper.make_node("ReduceMean", ["square"], ["loss"], "mean", keepdims=0)]
    graph = helper.make_graph(nodes, "net", [tensors["x"], tensors["target"]], [tensors["loss"]], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    profile, _ = measure(tmp_path / "model.onnx", tmp_path / "profile.json", "--loss", "output:loss", "--minibatch", 16,
                         "--microbatches", 2, "--steps", 2, "--kernels", tmp_path / "kernels.csv")
    with open(tmp_path / "kernels.csv", newline="", encoding="utf-8") as lines:
        assert "mean/grad/Mul" in {row["unit"] for row in csv.DictReader(lines)}
    units = {unit["name"]: unit for unit in profile["units"]}
    assert units["product"]["update_seconds"] > 0 and units["product"]["version_slowdown"] >= 1


def processes_with(text):
    """The ids of processes with this in their command line."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            pass  # it ended meanwhile
    return found


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="copies need a second core")
@pytest.mark.parametrize("killed", ["pdc-profile", "copy"])
def test_copies(killed, models, tmp_path):
    """None outlives pdc-profile, which does not take what it measured beside one that ended for a measurement."""
    words = [pipeline.BIN / "pdc-profile", models("mlp"), "-o", tmp_path / "profile.json", "--minibatch", 64,
             "--sources", tmp_path / "project", "--steps", 5000]
    copy = "\0".join([f"{tmp_path}/project/build/all_stages", "--transport", "local", "--progress", "none"])
    with subprocess.Popen([str(word) for word in words], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          text=True) as profile:
        pipeline.await_true(lambda: processes_with(copy))
        for process in processes_with(copy) if killed == "copy" else [profile.pid]:
            os.kill(process, signal.SIGKILL)
        errors = profile.communicate(timeout=120)[1]
    pipeline.await_true(lambda: not processes_with(str(tmp_path)), 5)
    assert profile.returncode == (1 if killed == "copy" else -signal.SIGKILL)
    assert ("a copy of the measuring program" in errors and "with code 137" in errors) == (killed == "copy")
    assert not (tmp_path / "profile.json").exists()


def test_on_one_core(models, tmp_path):
    path = tmp_path / "profile.json"
    core = str(min(os.sched_getaffinity(0)))
    result = pipeline.run("taskset", "-c", core, pipeline.BIN / "pdc-profile", models("mlp"), "-o", path,
                          "--minibatch", 16, "--steps", 2)
    assert "did the same" not in result.stdout
    assert all(unit["slowdown"] == unit["update_slowdown"] == 1 for unit in json.loads(path.read_text())["units"])


def test_links_between_ranks(tmp_path):
    path = tmp_path / "topology.json"
    result = pipeline.run("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", 3,
                          pipeline.BIN / "pdc-profile", "--links", path)
    assert result.stdout.count(" bytes per second, latency ") == 3
    topology = json.loads(path.read_text())
    [level] = topology["levels"]
    assert level["workers"] == 3
    # Between walking memory once and a slow network; between a call and a turn of the scheduler.
    assert 1e7 < level["bandwidth"] < 1e12 and 1e-8 < level["latency"] < 0.1
    assert level["send_bandwidth"] > 1e7 and level["receive_bandwidth"] > 1e7
    assert 1e-6 < topology["sum_seconds"] < 0.1
    profile = tmp_path / "graph.txt"
    profile.write_text("".join(f"node{i} -- Relu -- forward_compute_time=1, backward_compute_time=2, activation_size=4, "
                               "parameter_size=4\n" for i in (1, 2, 3)) + "\tnode1 -- node2\n\tnode2 -- node3\n")
    planned = pipeline.run(pipeline.BIN / "pdc-plan", profile, "--topology", path, "--cost-model", "ring-max")
    assert "for 3 x" in planned.stdout


def test_profile_of_another_microbatch_size(models, tmp_path):
    path = tmp_path / "profile.json"
    profile, _ = measure(models("mlp"), path, "--minibatch", 16, "--steps", 2)
    result = pipeline.run(pipeline.BIN / "pdc", models("mlp"), "--gpus", 2, "--device", "cpu", "--minibatch", 64,
                          "--microbatches", 2, "--stages", "1-1", "--optimizer", "adam", "--profile", path, "-o", tmp_path / "project")
    assert "measured with microbatches of 16 samples; its seconds are scaled to 32" in result.stderr
    assert "measured with sgd, and its seconds of updates stand for those of adam" in result.stderr
    plan = json.loads((tmp_path / "project" / "plan.json").read_text())
    for field, times in (("forward_seconds", 2), ("update_seconds", 1)):
        measured = sum(unit[field] for unit in profile["units"])
        assert sum(stage[field] for stage in plan["stages"]) == pytest.approx(times * measured, rel=1e-9)


def test_data_parallelism_where_no_measured_microbatches_can_be_shared(models, tmp_path):
    """One microbatch of the measured size is the whole minibatch: two replicas take a half each."""
    path = tmp_path / "profile.json"
    profile, _ = measure(models("lenet5"), path, "--minibatch", 64, "--steps", 2)
    for unit in profile["units"]:  # so that no noise decides
        unit.update({"forward_seconds": 1e-3, "backward_input_seconds": 1e-3, "backward_weight_seconds": 1e-3,
                     "update_seconds": 1e-6, "slowdown": 1, "update_slowdown": 1})
    path.write_text(json.dumps(profile))
    pipeline.run(pipeline.BIN / "pdc", models("lenet5"), "--gpus", 2, "--device", "cpu", "--minibatch", 64,
                 "--profile", path, "-o", tmp_path / "project")
    plan = json.loads((tmp_path / "project" / "plan.json").read_text())
    assert [stage["replicas"] for stage in plan["stages"]] == [2]
    assert (plan["microbatch_size"], plan["microbatches"]) == (32, 1)


@pytest.mark.parametrize("options,status,says", [
    (["--minibatch", "8", "--times", "times.json"], 2, "--times: expected with --device cuda"),
    (["--minibatch", "8", "--device", "cuda", "--times", "/nowhere/times.json"], 1, "/nowhere/times.json: no such file"),
    (["--minibatch", "8", "--steps", "0"], 2, "--steps"),
    ([], 1, "--minibatch"),
    (["--no-such-option"], 2, "--no-such-option"),
    (["--links", "topology.json"], 2, "mpirun -n 2"),
])
def test_refusals(options, status, says, models, tmp_path):
    path = tmp_path / "profile.json"
    result = pipeline.run(pipeline.BIN / "pdc-profile", models("mlp"), "-o", path, *options, check=False)
    assert result.returncode == status
    assert says in result.stderr
    assert not path.exists()
