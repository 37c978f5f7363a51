"""Language models of LSTM and GRU layers, written out step by step, against PyTorch."""

import copy

import numpy
import pytest
import torch

import lstm
import pipeline
import safetensors

BATCH, RATE, STEPS, SEQUENCE = 8, 64.0, 3, 4


def draw(folder, seed):
    tokens = numpy.random.default_rng(seed).integers(0, 256, (BATCH, SEQUENCE + 1))
    inputs = {"input": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    for name, values in inputs.items():
        numpy.save(folder / f"{name}-{seed}.npy", values)
    return inputs, [f"{name}={folder}/{name}-{seed}.npy" for name in inputs]


def build(cell):
    torch.manual_seed(1)
    return lstm.LSTMLanguageModel(cell=getattr(torch.nn, cell)).train()


def loss_of(net, inputs):
    scores = net(torch.from_numpy(inputs["input"]))
    return torch.nn.functional.cross_entropy(scores.reshape(-1, 256), torch.from_numpy(inputs["labels"]).reshape(-1))


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_gradients(cell, models, tmp_path):
    """Weights reloaded at each step; the gradient is what an update with lr 64 subtracts."""
    project = pipeline.compile_model(models("lstm", "--cell", cell, "--sequence", SEQUENCE), tmp_path / "project", "--minibatch", BATCH,
                                     "--microbatches", 2, "--optimizer", f"sgd,lr={RATE}")
    net = build(cell)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        inputs, data = draw(tmp_path, step)
        weights = {name: parameter.detach().numpy().copy() for name, parameter in net.named_parameters()}
        safetensors.save(project / "weights.safetensors", weights)
        result = pipeline.train(project, tmp_path / f"step{step}", data=data, steps=1)
        truth = copy.deepcopy(net).double()
        loss = loss_of(truth, inputs)
        loss.backward()
        assert result.losses[0] == pytest.approx(loss.item(), rel=1e-4)
        after = result.weights()
        for name, parameter in truth.named_parameters():
            found = (weights[name].astype(numpy.float64) - after[name]) / RATE
            expected = parameter.grad.numpy()
            assert numpy.linalg.norm(found - expected) <= 1e-3 * numpy.linalg.norm(expected) + 1e-9, (step, name)
        optimizer.zero_grad()
        loss_of(net, inputs).backward()
        optimizer.step()
