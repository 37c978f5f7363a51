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


@pytest.mark.parametrize("stages", ["1", "1-1"])
def test_hidden_by_a_relu(stages, tmp_path):
    """An infinite number in the second minibatch: its zeros' gradients are NaN, and its other ones too large for any loss to tell."""
    network, random = make_network(), numpy.random.default_rng(5)
    data, labels = random.standard_normal((SAMPLES, WIDTH), numpy.float32), random.integers(0, CLASSES, SAMPLES)
    data[BATCH + 1, 2] = numpy.inf
    torch.onnx.export(network, torch.zeros(BATCH, WIDTH), str(tmp_path / "model.onnx"), input_names=["x"], output_names=["y"],
                      dynamic_axes={"x": {0: "N"}, "y": {0: "N"}}, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False)
    for name, values in (("x", data), ("labels", labels)):
        numpy.save(tmp_path / f"{name}.npy", values)
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--stages", stages, "--minibatch", BATCH,
                                     "--optimizer", "sgd,lr=0.05", workers=len(stages.split("-")))
    result = pipeline.train(project, tmp_path / "run", "--order", "file", steps=10, check=False,
                            data=[f"{name}={tmp_path / name}.npy" for name in ("x", "labels")])
    lost = first_lost_step(network, torch.from_numpy(data), torch.from_numpy(labels), 10, 0.05)
    assert lost == 2
    assert result.returncode == 1
    assert re.search(rf"error: step {lost}: (the loss is nan|the update of stage \d on rank \d makes numbers that are nan)", result.stderr)
