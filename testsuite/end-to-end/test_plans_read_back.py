"""What pdc writes as a plan is read back: by pdc, also for another device or precision, and by pdc-prove."""

import json
import re

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import pipeline
from emulation import build_for_host, emit, on_host
from test_refusals import refused


def shared_constants(path):
    """Two layers, each with two Unsqueezes by one and the same Constant, as torch.export writes them."""
    nodes = [helper.make_node("Constant", [], ["axis"], "axis", value=numpy_helper.from_array(numpy.array([1])))]
    value, weights = "x", []
    for layer in range(2):
        weights.append(numpy_helper.from_array(numpy.full((8, 8), 0.1, numpy.float32), f"w{layer}"))
        nodes += [helper.make_node("MatMul", [value, f"w{layer}"], [f"h{layer}"], f"product{layer}"),
                  helper.make_node("Sin", [f"h{layer}"], [f"s{layer}"], f"sine{layer}"),
                  helper.make_node("Unsqueeze", [f"h{layer}", "axis"], [f"a{layer}"], f"left{layer}"),
                  helper.make_node("Unsqueeze", [f"s{layer}", "axis"], [f"b{layer}"], f"right{layer}"),
                  helper.make_node("Concat", [f"a{layer}", f"b{layer}"], [f"c{layer}"], f"both{layer}", axis=1),
                  helper.make_node("ReduceMax", [f"c{layer}"], [f"y{layer}"], f"most{layer}", axes=[1], keepdims=0)]
        value = f"y{layer}"
    graph = helper.make_graph(nodes, "shared", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
                              [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["N", 8])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def stages_of(project):
    return {node: stage["id"] for stage in json.loads((project / "plan.json").read_text())["stages"] for node in stage["nodes"]}


def test_constants_that_layers_share(tmp_path):
    model, options = shared_constants(tmp_path / "shared.onnx"), ["--minibatch", 8, "--microbatches", 2]
    project = pipeline.compile_model(model, tmp_path / "project", "--stages", "1-1", *options, workers=2)
    (tmp_path / "rows.txt").write_text(pipeline.run(pipeline.BIN / "pdc-run", project, "--check").stdout)
    assert "proven" in pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", tmp_path / "rows.txt").stdout
    again = pipeline.compile_model(model, tmp_path / "again", "--stages", project / "plan.json", *options, workers=2)
    assert stages_of(again) == stages_of(project)


def test_plans_of_another_device_or_precision(models, tmp_path):
    """Each has nodes that pdc makes for it; those of the model keep their stages."""
    model, options = models("lenet5"), ["--minibatch", 8, "--microbatches", 2]
    first = emit(model, tmp_path / "bf16", "--precision", "bf16", "--stages", "1-1", *options, workers=2)
    plan = ["--stages", first / "plan.json", *options]
    others = [emit(model, tmp_path / "fp32", *plan, workers=2), pipeline.compile_model(model, tmp_path / "cpu", *plan, workers=2)]
    expected = stages_of(first)
    for other in others:
        found = stages_of(other)
        shared = found.keys() & expected.keys()
        assert len(shared) >= 8 and len(shared) < len(expected)
        assert all(found[node] == expected[node] for node in shared) and {found[node] for node in shared} == {0, 1}
    plan = json.loads((first / "plan.json").read_text())
    for stage in plan["stages"]:
        stage["nodes"] = [f"other/{node}" for node in stage["nodes"]]
    (tmp_path / "other.json").write_text(json.dumps(plan))
    refused(pipeline.BIN / "pdc", model, "--gpus", 2, "--stages", tmp_path / "other.json", *options, "-o", tmp_path / "none",
            says=["the model has no node 'other/"])


@on_host
def test_seconds_of_a_precision(models, tmp_path):
    """Units of 16 bits are measured as such, and planned with; for another precision or device seconds are refused."""
    model, profile, options = models("lenet5"), tmp_path / "profile.json", ["--minibatch", 8, "--microbatches", 2]
    measured = ["--device", "cuda", "--precision", "bf16"]
    told = pipeline.run(pipeline.BIN / "pdc-profile", model, *options, *measured, "--steps", 2, "--sources", tmp_path / "project").stdout
    command = re.search(r"PDC_UNIT_TIMES=(\S+) \S+/all_stages (.*)", told)
    pipeline.run("env", f"PDC_UNIT_TIMES={command[1]}", build_for_host(tmp_path / "project"), *command[2].split())
    pipeline.run(pipeline.BIN / "pdc-profile", model, *options, *measured, "--times", command[1], "-o", profile)
    project = emit(model, tmp_path / "planned", *options, *measured, "--stages", "1-1", "--profile", profile, workers=2)
    stages = json.loads((project / "plan.json").read_text())["stages"]
    units = json.loads(profile.read_text())["units"]
    assert sum(stage["forward_seconds"] for stage in stages) == pytest.approx(sum(unit["forward_seconds"] for unit in units))
    assert any(unit["name"].endswith("/bf16") for unit in units)
    for other in (["--device", "cuda", "--precision", "tf32"], ["--device", "cpu"]):
        refused(pipeline.BIN / "pdc", model, *options, *other, "--gpus", 2, "--profile", profile, "-o", tmp_path / "none",
                says=["was measured for --device cuda --precision bf16, expected one for"])
