"""Losses, gradients and free runs against PyTorch on the exported networks."""

import gzip
import importlib
import pathlib

import numpy
import onnx
import pytest
import torch
from torch.nn.functional import cross_entropy

import export
import pipeline
import safetensors
from decisions import expect_alike

NETWORKS = {"lenet5": ("LeNet5", (1, 28, 28), 16), "vgg11": ("network", (3, 32, 32), 8),
            "resnet18": ("network", (3, 32, 32), 8)}


def build(network):
    torch.manual_seed(1)
    return getattr(importlib.import_module(network), NETWORKS[network][0])().train()


def to_numpy(tensors):
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors}


def gradients(net, images, labels):
    net.zero_grad()
    loss = cross_entropy(net(images), labels)
    loss.backward()
    return loss.item(), {name: parameter.grad.double().numpy().copy() for name, parameter in net.named_parameters()}


def distance(found, expected):
    return numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected)


class Corners(torch.nn.Module):
    """Layers for which oneDNN has no fast kernel in the usual layouts, and pooling and products in their odd forms."""

    def __init__(self):
        super().__init__()
        self.far = torch.nn.Conv2d(3, 16, 3, padding=3)
        self.dilated = torch.nn.Conv2d(16, 16, 3, padding=2, dilation=2, groups=16)
        self.back = torch.nn.ConvTranspose2d(16, 16, 2, padding=1, dilation=2, output_padding=1, groups=4)
        self.maximum = torch.nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)
        self.uneven = torch.nn.Conv2d(16, 12, (2, 5), stride=2, padding=(1, 4), dilation=(2, 1), groups=4)
        self.mean = torch.nn.AvgPool2d(3, 2, padding=1, count_include_pad=True)
        self.line = torch.nn.Conv1d(12, 7, 3, padding=4, stride=2)
        self.matrix = torch.nn.Parameter(torch.randn(21, 77) / 6)
        self.norm = torch.nn.BatchNorm1d(21)
        self.last = torch.nn.Parameter(torch.randn(21, 10) / 4)
        self.shift = torch.nn.Parameter(torch.randn(10))
        self.signs = torch.nn.Parameter(torch.randn(2) / 4)

    def forward(self, x):
        x = torch.relu(self.dilated(self.far(x)))
        x = self.maximum(self.back(x)[:, :, 1:, :-1])
        x = x + self.signs[(x.detach() > 1e-3).long()]
        x = x + torch.nn.functional.pad(torch.nn.functional.max_pool2d(x, 3, 1, padding=1, dilation=2), (1, 1, 1, 1))
        y, places = torch.nn.functional.max_pool2d(x, 2, 1, return_indices=True)
        x = x + torch.nn.functional.pad(torch.where(places > 20, y, -y / 2), (0, 1, 1, 0))
        x = self.mean(torch.nn.functional.pad(self.uneven(x), (0, 1, 2, 0)))
        x = self.line(torch.softmax(x, 2).flatten(2)).flatten(1)
        x = torch.tanh(self.norm(x @ self.matrix.t()))
        return torch.addmm(self.shift, x + torch.pow(x, torch.tensor(3)), self.last, beta=0.5, alpha=2)


class Functions(torch.nn.Module):
    """Elementwise functions, each on some columns, extremes and running sums."""

    functions = [torch.nn.ELU(0.7), torch.nn.SELU(), torch.nn.CELU(1.3), torch.nn.Softplus(), torch.nn.Softsign(),
                 torch.sin, torch.cos, torch.atan, lambda x: torch.tan(x / 4), lambda x: torch.asin(torch.tanh(x) / 2),
                 lambda x: torch.acos(torch.tanh(x) / 2),
                 lambda x: torch.maximum(x, -x / 3), lambda x: torch.minimum(x, x * x), lambda x: torch.cumsum(x, 1),
                 lambda x: x.amax(1, keepdim=True) * x]

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(12, 4 * len(self.functions))
        self.slope = torch.nn.PReLU(4 * len(self.functions))
        self.last = torch.nn.Linear(4 * len(self.functions), 10)

    def forward(self, x):
        parts = torch.split(self.first(x), 4, 1)
        return self.last(self.slope(torch.cat([f(part) for f, part in zip(self.functions, parts)], 1)))


def test_functions(tmp_path):
    torch.manual_seed(1)
    net = Functions().train()
    export.export(net, (12,), tmp_path / "functions.onnx")
    check_gradients(net, tmp_path / "functions.onnx", (12,), 6, False, tmp_path, 2)


@pytest.mark.parametrize("network,exact,steps", [
    ("lenet5", False, 10), ("lenet5", True, 3), ("vgg11", False, 3), ("vgg11", True, 3), ("resnet18", False, 3), ("resnet18", True, 3),
    pytest.param("vgg11", False, 10, marks=pytest.mark.models), pytest.param("resnet18", False, 10, marks=pytest.mark.models)])
def test_gradients(network, exact, steps, models, tmp_path, record_property):
    _, shape, batch = NETWORKS[network]
    _, turned = check_gradients(build(network), models(network), shape, batch, exact, tmp_path, steps)
    record_property("summary", f"{network}: {len(turned)} decisions in {steps} steps that rounding made otherwise")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_corners(exact, threads, tmp_path):
    torch.manual_seed(1)
    net = Corners().train()
    export.export(net, (3, 12, 11), tmp_path / "corners.onnx")
    check_gradients(net, tmp_path / "corners.onnx", (3, 12, 11), 6, exact, tmp_path, 3, "--threads", threads)


def test_conditions(tmp_path):
    """The exporter writes each squeeze of a dimension that it does not know as an If."""
    torch.manual_seed(1)
    response = torch.nn.LocalResponseNorm
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), response(5, alpha=0.5), torch.nn.Conv2d(8, 8, 3, groups=2),
                              torch.nn.ReLU(), response(2, k=1.5), torch.nn.Flatten(), torch.nn.Linear(448, 10)).train()
    export.export(net, (3, 12, 11), tmp_path / "response.onnx")
    operators = [node.op_type for node in onnx.load(tmp_path / "response.onnx").graph.node]
    assert operators.count("If") == 2
    check_gradients(net, tmp_path / "response.onnx", (3, 12, 11), 4, False, tmp_path, 2)


class Repeated(torch.nn.Module):
    """The exporter writes out short loops of scripts, and others as Loops."""

    def __init__(self):
        super().__init__()
        self.first, self.cell, self.last = torch.nn.Linear(12, 16), torch.nn.Linear(16, 16), torch.nn.Linear(16, 10)

    def forward(self, x):
        state = self.first(x)
        total = torch.zeros_like(state)
        for i in range(11):
            state = torch.tanh(self.cell(state) + x[:, i:i + 1])
            for j in range(x.size(1)):
                total = total + state * j / (i + 4)
        return self.last(total)


def test_loops(tmp_path):
    torch.manual_seed(1)
    net = Repeated().train()
    export.export(torch.jit.script(net), (12,), tmp_path / "repeated.onnx")
    model = onnx.load(tmp_path / "repeated.onnx")
    assert "Loop" in [node.op_type for node in model.graph.node]
    check_gradients(net, tmp_path / "repeated.onnx", (12,), 6, False, tmp_path, 2)


class Forms(torch.nn.Module):
    """Operators whose inputs, attributes or outputs changed between opsets 9 and 17."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = torch.nn.BatchNorm2d(8)
        self.second = torch.nn.Conv2d(8, 12, 3, stride=2)
        self.last = torch.nn.Linear(12, 10)

    def forward(self, x):
        x = torch.nn.functional.relu6(self.norm(self.first(x)))
        x = torch.nn.functional.max_pool2d(torch.nn.functional.pad(x, (1, 0, 0, 1)), 2)
        left, right = torch.split(x, (3, 5), 1)
        x = self.second(torch.cat([right, left], 1)[:, :, 1:])
        x = (torch.softmax(x, 1) * x).mean(3).unsqueeze(1)
        return self.last(x.sum(3).squeeze(1))


@pytest.mark.parametrize("opset", [9, 11, 13, 15, 17])
def test_opsets(opset, tmp_path):
    torch.manual_seed(1)
    net, shape, batch = Forms().train(), (3, 12, 11), 6
    export.export(net, shape, tmp_path / "forms.onnx", opset)
    assert onnx.load(tmp_path / "forms.onnx").opset_import[0].version == opset
    net.norm.reset_running_stats()  # the export has run it
    after, _ = check_gradients(net, tmp_path / "forms.onnx", shape, batch, False, tmp_path, 1)
    count = batch * 12 * 11
    variance = 0.9 + (net.norm.running_var.numpy() - 0.9) * (count - 1) / count
    numpy.testing.assert_allclose(after["norm.running_mean"], net.norm.running_mean.numpy(), rtol=1e-4, atol=1e-6)
    numpy.testing.assert_allclose(after["norm.running_var"], variance, rtol=1e-4)


def check_gradients(net, model, shape, batch, exact, tmp_path, steps, *options):
    """Weights reloaded at each step; the gradient is what an update with lr 64 subtracts. Returns what the last one
    leaves, and the decisions of all steps that rounding made otherwise."""
    rate = 64.0
    project = pipeline.compile_model(model, tmp_path / "project", "--minibatch", batch, "--microbatches", 1,
                                     *(["--exact"] if exact else []), "--optimizer", f"sgd,lr={rate}", *options,
                                     "--stages", "1-1", workers=2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    stored = set(safetensors.load(project / "weights.safetensors"))
    turned = []
    for step in range(steps):
        images, labels = pipeline.draw_images(tmp_path, batch, shape, 10, seed=step)
        weights = to_numpy(net.named_parameters())
        assert set(weights) <= stored
        buffers = {name: value for name, value in to_numpy(net.named_buffers()).items() if name in stored}
        safetensors.save(project / "weights.safetensors", {**weights, **buffers})
        result = pipeline.train(project, tmp_path / f"step{step}", data=[f"input={images}", f"labels={labels}"], steps=1)
        after = result.weights()
        found = {name: (before.astype(numpy.float64) - after[name]) / rate for name, before in weights.items()}
        x, y = torch.from_numpy(numpy.load(images)), torch.from_numpy(numpy.load(labels))
        turned += expect_alike(found, net, lambda double: cross_entropy(double(x.double()), y), step,
                               winograd=not exact)
        loss, _ = gradients(net, x, y)
        assert result.losses[0] == pytest.approx(loss, rel=1e-4)
        optimizer.step()
    return after, turned


def draw_clothes(folder, count):
    """Fashion-MNIST's first images where it is installed, else noise around ten patterns; as NPY files."""
    source = pathlib.Path("/usr/share/datasets/fashion-mnist")
    if source.exists():
        read = lambda name, header, size: numpy.frombuffer(
            gzip.open(source / name).read(header + count * size)[header:], numpy.uint8)
        images = read("train-images-idx3-ubyte.gz", 16, 784).reshape(count, 1, 28, 28).astype(numpy.float32) / 255
        labels = read("train-labels-idx1-ubyte.gz", 8, 1).astype(numpy.int64)
    else:
        generator = numpy.random.default_rng(1)
        labels = generator.integers(0, 10, count)
        images = generator.standard_normal((10, 1, 28, 28))[labels] + generator.standard_normal((count, 1, 28, 28))
    numpy.save(folder / "images.npy", images.astype(numpy.float32))
    numpy.save(folder / "labels.npy", labels)
    return folder / "images.npy", folder / "labels.npy"


def test_lenet_runs_freely(models, tmp_path):
    """100 steps with momentum, each on the next batch of the file, and nothing reloaded."""
    batch, steps = 32, 100
    project = pipeline.compile_model(models("lenet5"), tmp_path / "project", "--minibatch", batch, "--microbatches", 1,
                                     "--optimizer", "momentum,lr=0.01,momentum=0.9", "--stages", "1-1", workers=2)
    images, labels = draw_clothes(tmp_path, batch * steps)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"input={images}", f"labels={labels}"], steps=steps)
    net = build("lenet5")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    batches = zip(*(torch.from_numpy(numpy.load(path)).split(batch) for path in (images, labels)))
    for step, (found, (x, y)) in enumerate(zip(result.losses, batches, strict=True)):
        loss, _ = gradients(net, x, y)
        assert found == pytest.approx(loss, rel=1e-3), step
        optimizer.step()
    expect_moved_alike(net, project, result)


class Lamb(torch.optim.Optimizer):
    """Algorithm 2 of You et al. (2020), phi being the identity; a weight of zeros moves by the rate alone."""

    def __init__(self, parameters, lr, weight_decay):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for x in group["params"]:
                t, m, v = self.state[x].get("kept", (0, 0, 0))
                t, m, v = self.state[x]["kept"] = (t + 1, 0.9 * m + 0.1 * x.grad, 0.999 * v + 0.001 * x.grad ** 2)
                m, v = m / (1 - 0.9 ** t), v / (1 - 0.999 ** t)
                direction = m / (v.sqrt() + 1e-6) + group["weight_decay"] * x
                x -= group["lr"] * (x.norm() / direction.norm() if x.norm() > 0 else 1) * direction


OPTIMIZERS = {
    "sgd,lr=0.1,weight_decay=0.01": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum,lr=0.05,momentum=0.9,weight_decay=0.01":
        lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01),
    "nesterov,lr=0.05,momentum=0.9": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    "adam,lr=0.002,weight_decay=0.01": lambda p: torch.optim.Adam(p, lr=0.002, weight_decay=0.01),
    "adamw,lr=0.002,weight_decay=0.01": lambda p: torch.optim.AdamW(p, lr=0.002, weight_decay=0.01),
    "adagrad,lr=0.02,lr_decay=0.1,weight_decay=0.01,initial_accumulator=0.2":
        lambda p: torch.optim.Adagrad(p, lr=0.02, lr_decay=0.1, weight_decay=0.01, initial_accumulator_value=0.2),
    "momentum,lr=0.05,momentum=0.9,dampening=0.3": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.3),
    "lamb,lr=0.01,weight_decay=0.02": lambda p: Lamb(p, lr=0.01, weight_decay=0.02),
}


def expect_moved_alike(net, project, result):
    """Each weight has gone where PyTorch's has, to a thousandth of the way."""
    before, after = safetensors.load(project / "weights.safetensors"), result.weights()
    for name, parameter in net.named_parameters():
        moved = parameter.detach().numpy() - before[name]
        difference = after[name] - parameter.detach().numpy()
        assert numpy.linalg.norm(difference) <= 1e-3 * numpy.linalg.norm(moved), name


def expect_training(model, tmp_path, optimizer, *options, stages="1-1", limit=None):
    """Ten steps on one minibatch; `limit` is of the norm of all gradients."""
    batch, steps = 16, 10
    project = pipeline.compile_model(model, tmp_path / "project", "--minibatch", batch, "--optimizer", optimizer,
                                     "--stages", stages, *options, workers=sum(map(int, stages.split("-"))))
    images, labels = pipeline.draw_images(tmp_path, batch, (784,), 10)
    clip = ["--clip-norm", limit] if limit else []
    result = pipeline.train(project, tmp_path / "run", *clip, data=[f"input={images}", f"labels={labels}"], steps=steps)
    torch.manual_seed(1)
    net = importlib.import_module("mlp").mlp([64, 32])
    theirs = OPTIMIZERS[optimizer](net.parameters())
    for _ in range(steps):
        theirs.zero_grad()
        cross_entropy(net(torch.from_numpy(numpy.load(images))), torch.from_numpy(numpy.load(labels))).backward()
        if limit:
            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
        theirs.step()
    expect_moved_alike(net, project, result)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer, models, tmp_path):
    expect_training(models("mlp"), tmp_path, optimizer, "--microbatches", 2)


@pytest.mark.parametrize("stages", ["1-1-1", "2-1", "1-2"])
def test_lamb_scales_whole_weights(stages, models, tmp_path):
    """Norms are of a weight's mean gradient over all replicas, clipped."""
    expect_training(models("mlp"), tmp_path, "lamb,lr=0.01,weight_decay=0.02", "--microbatches", 1, "--schedule", "1f1b",
                    stages=stages, limit=0.5)


def ends_in_logarithms(model, path):
    """The network with LogSoftmax behind its output."""
    model = onnx.load(model)
    model.graph.node.append(onnx.helper.make_node("LogSoftmax", ["output"], ["logarithms"], "/logarithms", axis=1))
    model.graph.output[0].name = "logarithms"
    onnx.save(model, path)
    return path


LOSSES = {
    "mse": torch.nn.functional.mse_loss,
    "l1:output": torch.nn.functional.l1_loss,
    "bce_with_logits:output:targets": torch.nn.functional.binary_cross_entropy_with_logits,
    "nll": lambda scores, labels: torch.nn.functional.nll_loss(torch.log_softmax(scores, 1), labels),
}


def draw_targets(loss, count):
    """Classes, some of them to be ignored and unevenly many per microbatch; probabilities; or any numbers."""
    generator = numpy.random.default_rng(1)
    if loss == "nll":
        return numpy.where(numpy.arange(count) % 7 < 2, -100, generator.integers(0, 10, count))
    if loss.startswith("bce"):
        return generator.random((count, 10)).astype(numpy.float32)
    return generator.standard_normal((count, 10)).astype(numpy.float32)


@pytest.mark.parametrize("loss", LOSSES)
def test_losses(loss, models, tmp_path):
    """Three steps of momentum, each on the next batch of the file."""
    batch, steps = 8, 3
    model = ends_in_logarithms(models("mlp"), tmp_path / "mlp.onnx") if loss == "nll" else models("mlp")
    project = pipeline.compile_model(model, tmp_path / "project", "--loss", loss, "--minibatch", batch, "--microbatches", 2,
                                     "--optimizer", "momentum,lr=0.1,momentum=0.9", "--stages", "1-1", workers=2)
    images, labels = pipeline.draw_images(tmp_path, batch * steps, (784,), 10)
    numpy.save(labels, draw_targets(loss, batch * steps))
    name = "targets" if loss.endswith("targets") else "labels"
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"input={images}", f"{name}={labels}"], steps=steps)
    torch.manual_seed(1)
    net = importlib.import_module("mlp").mlp([64, 32])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    batches = zip(*(torch.from_numpy(numpy.load(path)).split(batch) for path in (images, labels)))
    for found, (x, y) in zip(result.losses, batches, strict=True):
        optimizer.zero_grad()
        expected = LOSSES[loss](net(x), y)
        expected.backward()
        optimizer.step()
        assert found == pytest.approx(expected.item(), rel=1e-4)
    expect_moved_alike(net, project, result)
