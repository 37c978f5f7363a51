"""Transformers against PyTorch, whole and in three stages, and bit for bit under --exact. The embedding of GPT-2 and
BERT is the matrix of their output too: split, the first and the last stage hold it."""

import copy

import numpy
import pytest
import torch

import pipeline
import safetensors
import transformers

STEPS, RATE = 10, 64.0


def gradients(net, inputs):
    net.zero_grad()
    loss = transformers.loss_of(net, inputs)
    loss.backward()
    return loss.item(), {name: parameter.grad.double().numpy().copy() for name, parameter in net.named_parameters()}


def in_double(inputs):
    return {name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in inputs.items()}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("network", transformers.NETWORKS)
def test_gradients(network, stages, models, tmp_path):
    """Weights reloaded at each of 10 steps; the gradient is what an update with lr 64 subtracts."""
    project = pipeline.compile_model(
        models(network), tmp_path / "project", "--minibatch", transformers.BATCH, "--microbatches", 2,
        "--stages", "-".join("1" * stages), "--optimizer", f"sgd,lr={RATE}", workers=stages)
    net = transformers.build(network)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        inputs, data = transformers.draw(network, tmp_path, step)
        weights = {name: parameter.detach().numpy().copy() for name, parameter in net.named_parameters()}
        stored = safetensors.load(project / "weights.safetensors")
        safetensors.save(project / "weights.safetensors", {**stored, **weights})
        result = pipeline.train(project, tmp_path / f"step{step}", data=data, steps=1)
        loss, truth = gradients(copy.deepcopy(net).double(), in_double(inputs))
        assert result.losses[0] == pytest.approx(loss, rel=1e-4)
        after = result.weights()
        for name, expected in truth.items():
            found = (weights[name].astype(numpy.float64) - after[name]) / RATE
            assert numpy.linalg.norm(found - expected) <= 1e-3 * numpy.linalg.norm(expected) + 1e-9, (step, name)
        gradients(net, inputs)
        optimizer.step()


@pytest.fixture(scope="module")
def unsplit():
    return {}


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("network", transformers.NETWORKS)
def test_same_bits(network, stages, models, unsplit, tmp_path):
    project = pipeline.compile_model(
        models(network), tmp_path / "project", "--exact", "--minibatch", 2 * transformers.BATCH, "--microbatches", 4,
        "--stages", "-".join("1" * stages), "--optimizer", "adamw,lr=0.001", workers=stages)
    _, data = transformers.draw(network, tmp_path, 0, 4 * transformers.BATCH)
    for transport in ("local", "mpi"):
        result = pipeline.train(project, tmp_path / transport, "--clip-norm", 0.5, data=data, steps=4, transport=transport)
        pipeline.expect_same_bits(result, unsplit, network)


def test_norm_of_a_tied_weight(models, tmp_path):
    """Uses of one weight in several stages have one norm: that of the sum of their gradients, as PyTorch has it."""
    project = pipeline.compile_model(models("gpt2"), tmp_path / "project", "--minibatch", transformers.BATCH,
                                     "--microbatches", 2, "--stages", "1-1", "--optimizer", "sgd,lr=0", workers=2)
    net = transformers.build("gpt2")
    inputs, data = transformers.draw("gpt2", tmp_path, 0)
    safetensors.save(project / "weights.safetensors",
                     {name: parameter.detach().numpy() for name, parameter in net.named_parameters()})
    result = pipeline.train(project, tmp_path / "run", "--clip-norm", 1000, data=data, steps=1)
    _, truth = gradients(net.double(), inputs)
    expected = numpy.sqrt(sum((gradient ** 2).sum() for gradient in truth.values()))
    assert next(record["gradient_norm"] for record in result.records if "gradient_norm" in record) == pytest.approx(expected, rel=1e-4)


def test_tied_weight_and_replicas(models, tmp_path):
    """Both stages that hold the embedding have replicas, and not as many: all end with the same weights."""
    unsplit = {}
    for stages, workers in (("2-1", 3), ("1-2", 3), ("1-1", 2)):
        project = pipeline.compile_model(
            models("gpt2"), tmp_path / stages, "--minibatch", 2 * transformers.BATCH, "--microbatches",
            2 if stages == "2-1" else 4, "--stages", stages, "--optimizer", "momentum,lr=0.05,momentum=0.9",
            workers=workers)
        _, data = transformers.draw("gpt2", tmp_path, 0, 4 * transformers.BATCH)
        weights = pipeline.train(project, tmp_path / f"run-{stages}", data=data, steps=4).weights()
        for name, value in unsplit.setdefault("gpt2", weights).items():
            assert numpy.allclose(weights[name], value, rtol=1e-3, atol=1e-6), (stages, name)
