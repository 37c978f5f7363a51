"""Training whose numbers are lost ends where PyTorch's are, even where a relu hides it from the loss."""

import re

import numpy
import pytest
import torch
from torch import nn

import pipeline

SAMPLES, WIDTH, CLASSES, BATCH = 8, 6, 4, 4


def make_network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(WIDTH, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, CLASSES)).train()


def first_lost_step(network, data, labels, steps, lr):
    """The step whose update makes the first weight NaN."""
    optimizer = torch.optim.SGD(network.parameters(), lr=lr)
    for step in range(1, steps + 1):
        at = (step - 1) * BATCH % SAMPLES
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(data[at:at + BATCH]), labels[at:at + BATCH]).backward()
        optimizer.step()
        if any(torch.isnan(parameter).any() for parameter in network.parameters()):
            return step
    return None


def train(network, data, labels, folder, *options, steps):
    """By pdc, to an end that is an error."""
    torch.onnx.export(network, torch.zeros(BATCH, WIDTH), str(folder / "model.onnx"), input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False)
    for name, values in (("x", data), ("labels", labels)):
        numpy.save(folder / f"{name}.npy", values)
    stages = options[options.index("--stages") + 1]
    project = pipeline.compile_model(folder / "model.onnx", folder / "project", *options, "--minibatch", BATCH,
                                     "--optimizer", "sgd,lr=0.05", workers=len(stages.split("-")))
    result = pipeline.train(project, folder / "run", "--order", "file", steps=steps, check=False,
                            data=[f"{name}={folder / name}.npy" for name in ("x", "labels")])
    assert result.returncode == 1
    assert not list(folder.glob("run/checkpoints/step-*"))
    return result.stderr


@pytest.mark.parametrize("stages", ["1", "1-1"])
def test_hidden_by_a_relu(stages, tmp_path):
    """An infinite number in the second minibatch: its zeros' gradients are NaN, and its other ones too large for any loss to tell."""
    network, random = make_network(), numpy.random.default_rng(5)
    data, labels = random.standard_normal((SAMPLES, WIDTH), numpy.float32), random.integers(0, CLASSES, SAMPLES)
    data[BATCH + 1, 2] = numpy.inf
    error = train(network, data, labels, tmp_path, "--stages", stages, steps=10)
    lost = first_lost_step(network, torch.from_numpy(data), torch.from_numpy(labels), 10, 0.05)
    assert lost == 2
    assert re.search(rf"error: step {lost}: (the loss is nan|the update of stage \d on rank \d makes numbers that are nan)", error)


class Gated(nn.Module):
    """The gradient of the root of 0 is infinite, and that of the square none: PyTorch has NaN for their product."""

    def __init__(self):
        super().__init__()
        self.linear, self.gate = nn.Linear(WIDTH, CLASSES), nn.Parameter(torch.zeros(CLASSES))

    def forward(self, x):
        return self.linear(x) * torch.sqrt(self.gate * self.gate)


@pytest.mark.parametrize("schedule", ["1f1b", "pipedream"])
def test_is_not_saved(schedule, tmp_path):
    """The only step's loss is finite, and its update loses a weight."""
    torch.manual_seed(4)
    network, random = Gated().train(), numpy.random.default_rng(6)
    data, labels = random.standard_normal((SAMPLES, WIDTH), numpy.float32), random.integers(0, CLASSES, SAMPLES)
    error = train(network, data, labels, tmp_path, "--stages", "1-1", "--schedule", schedule, steps=1)
    assert first_lost_step(network, torch.from_numpy(data), torch.from_numpy(labels), 1, 0.05) == 1
    assert re.search(r"error: step 1( or shortly before)?: the update of stage 1 on rank 1 makes numbers that are nan, .*'gate'", error)
