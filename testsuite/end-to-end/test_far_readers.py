"""Layers far apart that read one value, as a decoder's read what the encoder made: their gradients are added up where they lie."""

import json
import re

import numpy
import pytest
import torch

import pipeline

WIDTH, DEPTH, LAYERS, RATE = 12, 18, 5, 0.5


class Readers(torch.nn.Module):
    """Each layer reads the first value twice, and is as long as two readers must be apart."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(WIDTH, WIDTH)
        self.layers = torch.nn.ModuleList([torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH + 2)])
                                           for _ in range(LAYERS)])

    def forward(self, x):
        value = read = torch.tanh(self.first(x))
        for layer in self.layers:
            value = value + torch.tanh(layer[0](read)) + torch.sigmoid(layer[1](read))
            for step in layer[2:]:
                value = torch.tanh(step(value))
        return value


@pytest.fixture(scope="module")
def readers(tmp_path_factory):
    torch.manual_seed(7)
    folder, net = tmp_path_factory.mktemp("readers"), Readers()
    for name, parameter in net.named_parameters():  # gradients that reach the first layer
        torch.nn.init.orthogonal_(parameter, 1.2) if parameter.dim() == 2 else torch.nn.init.zeros_(parameter)
    x, labels = torch.randn(8, WIDTH), torch.randint(0, WIDTH, (8,))
    torch.onnx.export(net, x[:4], str(folder / "net.onnx"), training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=16, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    return folder, net.double(), x, labels


def train(folder, x, labels, *options, workers=1):
    name = "-".join(str(option).split("/")[-1] for option in options)
    project = pipeline.compile_model(folder / "net.onnx", folder / f"project{name}", "--exact", "--minibatch", 8, "--microbatches", 2,
                                     "--optimizer", f"sgd,lr={RATE}", *options, workers=workers)
    data = pipeline.save_inputs({"x": x, "labels": labels}, folder / "data")
    return project, pipeline.train(project, folder / f"run{name}", data=data, steps=1)


def test_gradients_and_bits(readers):
    """PyTorch's gradients, with the same bits on four stages."""
    folder, net, x, labels = readers
    _, whole = train(folder, x, labels)
    torch.nn.functional.cross_entropy(net(x.double()), labels).backward()
    pipeline.expect_gradients(whole, net, RATE)
    _, split = train(folder, x, labels, "--stages", "1-1-1-1", workers=4)
    weights = split.weights()
    assert split.losses == whole.losses and all(numpy.array_equal(value, weights[name]) for name, value in whole.weights().items())


def test_one_sum_goes_back(readers):
    """Between neighbours the gradient of the layers' own values, and a sum for the one that all of them read; nothing else."""
    folder, _, x, labels = readers
    project, _ = train(folder, x, labels)
    stage, stages = 0, {}
    for node in pipeline.nodes_of(project):
        if layer := re.match(r"/layers\.(\d)", node):
            stage = (0, 1, 1, 2, 3)[int(layer[1])]
        stages[node] = stage
    (folder / "stages.json").write_text(json.dumps(stages))
    project, _ = train(folder, x, labels, "--stages", folder / "stages.json", "--schedule", "1f1b", workers=4)
    edges = [(edge["from"], edge["to"]) for edge in json.loads((project / "plan.json").read_text())["edges"]]
    assert sorted(edge for edge in edges if edge[0] > edge[1]) == [(1, 0)] * 2 + [(2, 1)] * 2 + [(3, 2)] * 2
