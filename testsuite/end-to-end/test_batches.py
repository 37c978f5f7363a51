"""How pdc cuts an update's samples into microbatches where that is open."""

import json
import subprocess

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline


def compiled(model, folder, *options):
    """The plan's seconds per update, and what pdc said meanwhile."""
    printed = pipeline.run(pipeline.BIN / "pdc", model, "-o", folder, *options)
    return json.loads((folder / "plan.json").read_text())["seconds_per_minibatch"], printed.stdout + printed.stderr


@pytest.mark.parametrize("device, schedule, workers, minibatch", [
    ("cuda", "auto", 8, 32), ("cpu", "1f1b", 4, 24), ("cuda", "interleaved", 4, 32)])
def test_large_graphs_plan_the_sizes_that_promise_most(device, schedule, workers, minibatch, models, tmp_path):
    """Of more than 500 units not all sizes are made, and none is more than 2 % faster than what is chosen."""
    model = models("mlp", "--hidden", *[24] * 520)
    options = ["--gpus", workers, "--device", device, "--schedule", schedule, "--minibatch", minibatch]
    chosen, said = compiled(model, tmp_path / "open", *options)
    step = workers if schedule == "interleaved" else 1
    sizes = [count for count in range(step, minibatch + 1, step) if minibatch % count == 0]
    assert "samples are not planned: for" in said
    assert 2 <= said.count("making the training graph") < len(sizes)
    for microbatches in sizes:
        given, _ = compiled(model, tmp_path / str(microbatches), *options, "--microbatches", microbatches)
        assert chosen <= 1.02 * given, microbatches


def test_sizes_that_cannot_be_made_are_tried_once(tmp_path):
    """int8 has no kernel for Slice."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 4]) for name in "xy")
    one, two = (numpy_helper.from_array(numpy.array([value]), name) for name, value in (("one", 1), ("two", 2)))
    w = numpy_helper.from_array(numpy.ones((4, 4), numpy.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Cast", ["h"], ["short"], to=TensorProto.INT8),
             helper.make_node("Slice", ["short", "one", "two", "one"], ["column"]),
             helper.make_node("Cast", ["column"], ["c"], to=TensorProto.FLOAT), helper.make_node("Add", ["h", "c"], ["y"])]
    graph = helper.make_graph(nodes, "net", [x], [y], [one, two, w])
    model = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    refused = subprocess.run([pipeline.BIN / "pdc", model, "--gpus", "4", "--minibatch", "32", "--loss", "mse:y", "-o",
                              tmp_path / "out"], capture_output=True, text=True)
    assert refused.returncode == 1 and refused.stderr.count("error: ") == 1
    begun = [line for line in refused.stderr.splitlines() if "making the training graph" in line]
    assert [line.split(" (")[1] for line in begun] == [f"{number} of 6 sizes)" for number in range(1, 7)]
