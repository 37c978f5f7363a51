"""A network with nodes of any operator between its hidden layer and its scores, and what PyTorch says of it."""

import dataclasses
import math
import typing

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import pipeline
import safetensors
from test_pytorch import distance

BATCH, WIDTH, CLASSES, RATE = 4, 24, 5, 64.0


@dataclasses.dataclass
class Form:
    """One node of the hidden layer, and what PyTorch says it computes. Its operands are columns of the hidden layer under
    another shape (a list), a trained weight (a tuple, its shape), a constant, or absent."""

    op: str
    operands: list
    twin: typing.Callable
    attributes: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1


class Network:
    """x -> hidden layer -> each form -> scores of the classes: as an ONNX file, and as PyTorch computes it."""

    def __init__(self, forms):
        self.forms, self.random = forms, numpy.random.default_rng(1)
        self.nodes, self.weights, self.constants = [], {}, {}
        self.hidden = self.node("MatMul", ["x", self.weight("first", (WIDTH, WIDTH))])
        scores = self.node("MatMul", [self.hidden, self.weight("direct", (WIDTH, CLASSES))])
        with torch.no_grad():
            made = self.compute(torch.zeros(BATCH, WIDTH))
        for number, form in enumerate(forms):
            operands = [self.operand(name, operand) for name, operand in self.named(number)]
            outputs = [f"{number}.output{i}" for i in range(form.outputs)]
            self.nodes.append(helper.make_node(form.op, operands, outputs, f"{number}.{form.op}", **form.attributes))
            for name, value in zip(outputs, made[number], strict=True):
                shape = self.constant(f"{name}.shape", numpy.array([BATCH, -1]))
                readout = self.weight(f"{name}.readout", (value.numel() // BATCH, CLASSES))
                part = self.node("MatMul", [self.node("Reshape", [name, shape]), readout])
                scores = self.node("Add", [scores, part])
        self.nodes[-1].output[0] = "scores"

    def node(self, op, inputs):
        self.nodes.append(helper.make_node(op, inputs, [f"value{len(self.nodes)}"], f"node{len(self.nodes)}"))
        return self.nodes[-1].output[0]

    def weight(self, name, shape):
        if name not in self.weights:
            self.weights[name] = (self.random.standard_normal(shape) / 3).astype(numpy.float32)
        return name

    def constant(self, name, value):
        self.constants[name] = value
        return name

    def named(self, number):
        return [(f"{number}.{i}", operand) for i, operand in enumerate(self.forms[number].operands)]

    def operand(self, name, operand):
        if operand is None:
            return ""
        if isinstance(operand, tuple):
            return self.weight(name, operand)
        if not isinstance(operand, list):
            return self.constant(name, operand)
        numbers = {"from": [WIDTH - math.prod(operand) // BATCH], "to": [WIDTH], "axis": [1], "shape": operand}
        start, end, axis, shape = (self.constant(f"{name}.{key}", numpy.array(value)) for key, value in numbers.items())
        return self.node("Reshape", [self.node("Slice", [self.hidden, start, end, axis]), shape])

    def save(self, path):
        tensors = [numpy_helper.from_array(value, name) for name, value in (self.weights | self.constants).items()]
        graph = helper.make_graph(self.nodes, "forms", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, WIDTH])],
                                  [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [BATCH, CLASSES])], tensors)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=8), path)

    def trained(self):
        return {name: torch.from_numpy(value).double().requires_grad_() for name, value in self.weights.items()}

    def compute(self, hidden, weights=None):
        """What each form makes of the hidden layer, by PyTorch."""
        def value(name, operand):
            if isinstance(operand, list):
                return hidden[:, WIDTH - math.prod(operand) // BATCH:].reshape(operand)
            if isinstance(operand, tuple):
                return weights[name] if weights else torch.zeros(operand)
            return operand if operand is None else torch.from_numpy(operand)
        results = [form.twin(*(value(*named) for named in self.named(number))) for number, form in enumerate(self.forms)]
        return [result if isinstance(result, tuple) else (result,) for result in results]

    def scores(self, x, weights):
        hidden = x @ weights["first"]
        scores = hidden @ weights["direct"]
        for number, outputs in enumerate(self.compute(hidden, weights)):
            for i, output in enumerate(outputs):
                scores = scores + output.reshape(BATCH, -1) @ weights[f"{number}.output{i}.readout"]
        return scores


def expect_gradients(forms, tmp_path):
    """The gradient is what an update with lr 64 subtracts."""
    network = Network(forms)
    network.save(tmp_path / "forms.onnx")
    project = pipeline.compile_model(tmp_path / "forms.onnx", tmp_path / "project", "--minibatch", 2 * BATCH,
                                     "--stages", "1-1", "--optimizer", f"sgd,lr={RATE}", "--train", "*", workers=2)
    images, labels = pipeline.draw_images(tmp_path, 2 * BATCH, (WIDTH,), CLASSES)
    data = [f"x={images}", f"labels={labels}"]
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    weights = network.trained()
    halves = zip(*(torch.from_numpy(numpy.load(path)).split(BATCH) for path in (images, labels)), strict=True)
    loss = sum(functional.cross_entropy(network.scores(x.double(), weights), y) for x, y in halves) / 2
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-4)]
    before, after = safetensors.load(project / "weights.safetensors"), result.weights()
    for name, weight in weights.items():
        found = (before[name].astype(numpy.float64) - after[name]) / RATE
        assert distance(found, weight.grad.numpy()) <= 1e-3, name
