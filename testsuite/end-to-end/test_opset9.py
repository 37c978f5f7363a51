"""Files of opset 9 as the model zoo holds them: Sum, LRN, and weights as ConstantOfShape."""

import json
import math

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import pipeline
from test_pytorch import distance, gradients

RATE = 64.0


def beside_the_repository(name):
    """The models there are not part of it."""
    path = pipeline.SOURCE.parent / "shared" / "data" / "models" / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    return path


def compile_for_stages(name, folder, stages):
    return pipeline.compile_model(beside_the_repository(name), folder, "--exact", "--minibatch", 2, "--microbatches", 2,
                                  "--stages", "-".join("1" * stages), workers=stages)


@pytest.mark.parametrize("name", ["light_bvlc_alexnet.onnx", "light_resnet50.onnx"])
def test_compiles(name, tmp_path):
    project = compile_for_stages(name, tmp_path / "project", 2)
    stages = json.loads((project / "plan.json").read_text())["stages"]
    assert len(stages) == 2 and all((project / f"stage_{stage['id']}.cpp").exists() for stage in stages)


def test_squeezenet_trains(tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 2, (3, 224, 224), 1000)
    unsplit = {}
    for stages in (1, 2):
        project = compile_for_stages("light_squeezenet.onnx", tmp_path / f"{stages}", stages)
        result = pipeline.train(project, tmp_path / f"run-{stages}", data=[f"data_0={images}", f"labels={labels}"], steps=1)
        assert len(result.losses) == 1 and math.isfinite(result.losses[0])
        pipeline.expect_same_bits(result, unsplit, "squeezenet")


class Responses(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.main = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.side = torch.nn.Conv2d(3, 8, 1, bias=False)
        self.side.weight.data.fill_(0.05)
        self.last = torch.nn.Linear(8, 10)

    def forward(self, x):
        main = self.main(x)
        normalised = torch.nn.functional.local_response_norm(main, 3, alpha=0.6, beta=0.75, k=1.5)
        return self.last(torch.relu(normalised + self.side(x) + main).mean((2, 3)))


def write(net, path):
    """The same by hand: initializers are inputs too, as IR 3 wants it, and side.weight is a shape to be filled."""
    tensors = {name: value.detach().numpy() for name, value in net.named_parameters() if name != "side.weight"}
    tensors["side.shape"] = numpy.array([8, 3, 1, 1])
    initializers = [numpy_helper.from_array(value, name) for name, value in tensors.items()]
    nodes = [
        helper.make_node("ConstantOfShape", ["side.shape"], ["side.weight"], "fill",
                         value=numpy_helper.from_array(numpy.array([0.05], numpy.float32))),
        helper.make_node("Conv", ["input", "main.weight", "main.bias"], ["main"], "main", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Conv", ["input", "side.weight"], ["side"], "side", kernel_shape=[1, 1]),
        helper.make_node("LRN", ["main"], ["normalised"], "lrn", size=3, alpha=0.6, beta=0.75, bias=1.5),
        helper.make_node("Sum", ["normalised", "side", "main"], ["sum"], "sum"),
        helper.make_node("Relu", ["sum"], ["rectified"], "relu"),
        helper.make_node("GlobalAveragePool", ["rectified"], ["mean"], "pool"),
        helper.make_node("Flatten", ["mean"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "last.weight", "last.bias"], ["output"], "last", transB=1)]
    inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, 6, 5])]
    inputs += [helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in initializers]
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 10])]
    graph = helper.make_graph(nodes, "responses", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=3)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def test_gradients(tmp_path):
    """ONNX and PyTorch mean the same by alpha: it is divided by the size of the window."""
    torch.manual_seed(1)
    net, batch = Responses(), 6
    write(net, tmp_path / "responses.onnx")
    project = pipeline.compile_model(tmp_path / "responses.onnx", tmp_path / "project", "--minibatch", batch, "--microbatches", 2,
                                     "--stages", "1-1", "--optimizer", f"sgd,lr={RATE}", workers=2)
    images, labels = pipeline.draw_images(tmp_path, batch, (3, 6, 5), 10)
    result = pipeline.train(project, tmp_path / "run", data=[f"input={images}", f"labels={labels}"], steps=1)
    before = {name: value.detach().double().numpy().copy() for name, value in net.named_parameters()}
    loss, expected = gradients(net.double(), torch.from_numpy(numpy.load(images)).double(), torch.from_numpy(numpy.load(labels)))
    assert result.losses == [pytest.approx(loss, rel=1e-4)]
    after = result.weights()
    for name, gradient in expected.items():
        assert distance((before[name] - after[name]) / RATE, gradient) <= 1e-3, name
