"""BatchNormalizations that are frozen, beside others that train, against PyTorch over some steps."""

import re

import numpy
import pytest
import torch
from torch.nn.functional import batch_norm, cross_entropy, relu

import pipeline

SAMPLES, SIZE, STEPS = 24, 8, 6


class Network(torch.nn.Module):
    """`frozen` is what a user calls eval() on; its statistics and what it normalises are far from zero and one."""

    def __init__(self):
        super().__init__()
        self.first, self.frozen = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
        self.second, self.active = torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4)
        self.last = torch.nn.Linear(64, 3)
        with torch.no_grad():
            for tensor, low, high in ((self.frozen.running_mean, 1, 3), (self.frozen.running_var, 0.5, 2), (self.first.bias, 1, 3),
                                      (self.frozen.weight, 0.5, 2)):
                tensor.uniform_(low, high)

    def forward(self, x):
        x = relu(self.frozen(self.first(x)))
        return self.last(relu(self.active(self.second(x))).flatten(1))


def draw(path, training):
    """Where training is said of none, as newer exporters and tools that fold nothing write it, nothing tells which is frozen."""
    torch.manual_seed(3)
    net = Network().train()
    net.frozen.eval()
    net.active.train(training)
    x, labels = torch.randn(SAMPLES, 1, 8, 8), torch.randint(0, 3, (SAMPLES,))
    torch.onnx.export(net, x[:SIZE], str(path), training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      opset_version=17, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})
    net.active.train()
    return net.double(), x, labels


def run_steps(net, optimizer, x, labels):
    losses = []
    for step in range(STEPS):
        part = slice(step * SIZE % SAMPLES, step * SIZE % SAMPLES + SIZE)
        optimizer.zero_grad()
        loss = cross_entropy(net(x[part].double()), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(net, x, labels):
    """Losses, and the statistics of the active one as ONNX defines them: of a population."""
    mean, variance = net.active.running_mean.clone(), net.active.running_var.clone()

    def keep(_, given):
        mean.mul_(0.9).add_(0.1 * given[0].detach().mean((0, 2, 3)))
        variance.mul_(0.9).add_(0.1 * given[0].detach().var((0, 2, 3), unbiased=False))

    net.active.register_forward_pre_hook(keep)
    losses = run_steps(net, torch.optim.SGD(net.parameters(), 0.1, momentum=0.9), x, labels)
    expected = {name: tensor.detach() for name, tensor in net.state_dict().items() if not name.endswith("tracked")}
    return losses, expected | {"active.running_mean": mean, "active.running_var": variance}


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("training", [True, False], ids=["told", "frozen_by_option"])
def test_against_pytorch(training, stages, tmp_path):
    net, x, labels = draw(tmp_path / "net.onnx", training)
    frozen = [] if training else ["--freeze", "frozen.running_mean"]
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--minibatch", SIZE, "--microbatches", 1,
                                     "--optimizer", "momentum,lr=0.1,momentum=0.9", "--stages", "-".join(["1"] * stages), *frozen,
                                     workers=stages)
    data = pipeline.save_inputs({"x": x, "labels": labels}, tmp_path / "data")
    run = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=STEPS)
    losses, expected = train(net, x, labels)
    assert run.losses == pytest.approx(losses, rel=1e-5)
    found = run.weights()
    for name, tensor in expected.items():
        numpy.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_statistics_of_frozen_scales_run(tmp_path):
    """As PyTorch's do where requires_grad is off and eval() was not called: only the scale and the bias keep their values."""
    net, x, labels = draw(tmp_path / "net.onnx", False)
    net.frozen.train()
    before = net.frozen.weight.detach().clone(), net.frozen.bias.detach().clone()
    net.frozen.requires_grad_(False)
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--minibatch", SIZE, "--microbatches", 1, "--optimizer",
                                     "momentum,lr=0.1,momentum=0.9", "--freeze", "frozen.weight", "--freeze", "frozen.bias")
    data = pipeline.save_inputs({"x": x, "labels": labels}, tmp_path / "data")
    run = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=STEPS)
    losses, expected = train(net, x, labels)
    assert run.losses == pytest.approx(losses, rel=1e-5)
    found = run.weights()
    for name in ("frozen.running_mean", "active.running_mean", "active.running_var", "last.weight"):
        numpy.testing.assert_allclose(found[name], expected[name].numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    for name, tensor in zip(("frozen.weight", "frozen.bias"), before):
        assert name not in found or numpy.array_equal(found[name], tensor.numpy().astype(numpy.float32)), name


def test_what_is_said(tmp_path):
    draw(tmp_path / "told.onnx", True)
    draw(tmp_path / "inference.onnx", False)

    def said(name, *options):
        return pipeline.run(pipeline.BIN / "pdc", tmp_path / name, "--gpus", 1, "--device", "cpu", "--minibatch", SIZE, *options,
                            "-o", tmp_path / "project").stdout

    assert "note: 1 of 2 BatchNormalization nodes are frozen: they train with their running statistics" in said("told.onnx")
    assert "training_mode" not in said("told.onnx")
    assert "(training_mode), and 2 of 2 nodes train with the statistics of each microbatch; --freeze PATTERN freezes those " \
           "whose running mean it matches, such as frozen.running_mean\n" in said("inference.onnx")
    assert "and 1 of 2 nodes train" in said("inference.onnx", "--freeze", "frozen.*")


class Computed(torch.nn.Module):
    """Normalised by statistics that the network computes: of what stands before, where they take no gradient, and of the very batch,
    as a module does that keeps none."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 4, 3), torch.nn.Conv2d(4, 4, 3, padding=1)
        self.own, self.scale = torch.nn.BatchNorm2d(4, track_running_stats=False), torch.nn.Parameter(torch.rand(4) + 0.5)
        self.last = torch.nn.Linear(144, 3)

    def forward(self, x):
        x = self.first(x)
        mean, variance = x.mean((0, 2, 3)).detach(), (x * x).mean((0, 2, 3)).detach() + 0.5
        x = relu(batch_norm(self.second(x), mean, variance, self.scale, self.first.bias, training=False))
        return self.last(self.own(x).flatten(1))


@pytest.mark.parametrize("opset", [13, 17])
def test_computed_statistics(opset, tmp_path):
    torch.manual_seed(5)
    net = Computed().train()
    x, labels = torch.randn(SAMPLES, 1, 8, 8) * 2 + 1, torch.randint(0, 3, (SAMPLES,))
    torch.onnx.export(net, x[:SIZE], str(tmp_path / "net.onnx"), training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                      opset_version=opset, input_names=["x"], output_names=["y"])
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--minibatch", SIZE, "--microbatches", 1,
                                     "--optimizer", "sgd,lr=0.1", "--freeze", "first.bias", "--stages", "1-1", workers=2)
    data = pipeline.save_inputs({"x": x, "labels": labels}, tmp_path / "data")
    run = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=STEPS)
    net.first.bias.requires_grad_(False)
    net.double()
    optimizer = torch.optim.SGD([parameter for parameter in net.parameters() if parameter.requires_grad], 0.1)
    assert run.losses == pytest.approx(run_steps(net, optimizer, x, labels), rel=2e-5)
    # Training has its own kernel for the batch's statistics.
    source = (project / "stage_1.cpp").read_text() + (project / "stage_0.cpp").read_text()
    assert "evaluate_own_ReduceMean" in source and not re.search("(?<!evaluate_)own_ReduceMean", source)
