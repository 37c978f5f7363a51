"""A convolution and its normalisation that a model uses twice: each use brings the running statistics forward, in its order."""

import copy
import re

import numpy
import onnx
import pytest
import torch

import export
import emulation
import pipeline
import safetensors

BATCH, RATE, MICROBATCHES = 8, 4.0, 2
OPTIONS = ["--minibatch", BATCH, "--microbatches", MICROBATCHES, "--optimizer", f"sgd,lr={RATE}"]


class Reused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.norm = torch.nn.Conv2d(3, 8, 3), torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.BatchNorm2d(8)
        self.last = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 10))

    def forward(self, x):
        x = torch.relu(self.first(x))
        for _ in range(2):
            x = torch.relu(self.norm(self.again(x)))
        return self.last(x.mean((2, 3)))


class Siamese(torch.nn.Module):
    """Nothing goes from one use of a layer to the other: stages hold both uses of some layers and none of others."""

    def __init__(self):
        super().__init__()
        self.first, self.second = (torch.nn.Sequential(torch.nn.Conv2d(channels, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU())
                                   for channels in (3, 8))
        self.last = torch.nn.Linear(16, 10)

    def forward(self, x):
        seen = [self.second(self.first(image)).mean((2, 3)) for image in (x, x * x - 1)]
        return self.last(torch.cat(seen, 1))


class Crossed(torch.nn.Module):
    """What could be one kernel with the first use stands behind the second one: a relu, and an image that is added."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.sum = torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8)
        self.second, self.last = torch.nn.Conv2d(8, 8, 1), torch.nn.Linear(8, 10)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        a, b = self.norm(x), self.norm(self.second(x))
        x = torch.relu(a) * torch.relu(b) + x
        a, b = self.sum(x), self.sum(torch.relu(self.second(x)))
        return self.last(torch.relu(a + b).mean((2, 3)))


@pytest.fixture(name="reused", scope="module", params=[Reused, Siamese, Crossed])
def exported(request, tmp_path_factory):
    """The network, its file and data. The exporter has run the network once: its statistics are the file's."""
    folder = tmp_path_factory.mktemp("reused")
    torch.manual_seed(2)
    net = request.param().train()
    export.export(net, (3, 8, 8), folder / "reused.onnx")
    inputs = {"input": torch.randn(BATCH, 3, 8, 8), "labels": torch.randint(0, 10, (BATCH,))}
    return net, folder / "reused.onnx", inputs, pipeline.save_inputs(inputs, folder)


def test_against_pytorch(reused, tmp_path):
    net, model, inputs, data = reused
    project = pipeline.compile_model(model, tmp_path / "project", *OPTIONS)
    found = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    net = copy.deepcopy(net).double()
    expected = {name: value.astype(float) for name, value in safetensors.load(project / "weights.safetensors").items() if "running" in name}

    def follow(name):
        def see(_, seen, __):
            # ONNX keeps the variance of the population, PyTorch that of a sample.
            for statistic, value in (("mean", seen[0].mean((0, 2, 3))), ("var", seen[0].var((0, 2, 3), unbiased=False))):
                key = f"{name}.running_{statistic}"
                expected[key] = 0.9 * expected[key] + 0.1 * value.detach().numpy()
        return see

    for name, module in net.named_modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.register_forward_hook(follow(name))
    halves = zip(inputs["input"].double().chunk(MICROBATCHES), inputs["labels"].chunk(MICROBATCHES))
    loss = sum(torch.nn.functional.cross_entropy(net(x), labels) for x, labels in halves) / MICROBATCHES
    loss.backward()
    assert found.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    after = found.weights()
    assert expected
    for name, value in expected.items():
        assert numpy.allclose(after[name], value, rtol=1e-5, atol=1e-6), name
    for name, parameter in net.named_parameters():
        # The normalisation takes away what a bias before it adds.
        scale = max(numpy.linalg.norm(parameter.grad), 1e-3)
        change = (parameter.detach().numpy() - after[name]) / RATE
        assert numpy.linalg.norm(change - parameter.grad.numpy()) <= 1e-4 * scale, name


def test_stages(reused, tmp_path):
    """All uses of a layer belong to one stage, however many the planner makes."""
    _, model, _, data = reused
    kept = {}
    for name, options in {"one": [], "1f1b": ["--schedule", "1f1b", "--stages", "1-1-1"],
                          "again": ["--schedule", "zb-h1", "--stages", "1-1", "--recompute", "all"]}.items():
        workers = options[3].count("-") + 1 if options else 1
        project = pipeline.compile_model(model, tmp_path / name, *OPTIONS, *options, "--exact", workers=workers)
        pipeline.expect_same_bits(pipeline.train(project, tmp_path / f"run-{name}", data=data, steps=1), kept, "reused")


@emulation.on_host
def test_on_gpus(reused, tmp_path):
    _, model, _, data = reused
    expected = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *OPTIONS), tmp_path / "expected", data=data, steps=1)
    project = emulation.emit(model, tmp_path / "gpu", *OPTIONS, "--precision", "fp16", "--stages", "1-1", workers=2)
    found = emulation.train_on_host(project, tmp_path / "found", data=data, steps=1)
    rounding = 2 * 2**-10
    assert numpy.allclose(found.losses, expected.losses, rtol=rounding)
    for name, value in expected.weights().items():
        if "running" in name:
            assert numpy.allclose(found.weights()[name], value, rtol=4 * rounding, atol=rounding), name


def as_the_newer_exporter_writes(model, path):
    """Normalisations with the operands of one that is frozen; the second use of a module reads an Identity of the first's statistics;
    metadata say which buffers the step changes."""
    network, left = onnx.load(model), {}
    for node in [node for node in network.graph.node if node.op_type == "BatchNormalization"]:
        at = list(network.graph.node).index(node)
        for number in (3, 4):
            name = node.input[number]
            if name in left:
                node.input[number] = f"{name}_left_{left[name]}"
                network.graph.node.insert(at, onnx.helper.make_node("Identity", [name], [node.input[number]]))
            left[name] = left.get(name, 0) + 1
        del node.output[1:]
        for attribute in [attribute for attribute in node.attribute if attribute.name == "training_mode"]:
            node.attribute.remove(attribute)
    changes = "".join(f"getitem_{number}: BUFFER_MUTATION target='{name}'\n" for number, name in enumerate(left))
    entry = onnx.StringStringEntryProto(key="pkg.torch.export.ExportedProgram.graph_signature", value=changes).SerializeToString()
    # Field 16 of the graph, its metadata, which the installed onnx does not know.
    assert len(entry) >= 1 << 7
    field = bytes([0x82, 1, len(entry) & 0x7f | 0x80, len(entry) >> 7])
    network.graph.MergeFromString(field + entry)
    onnx.save(network, path)


def test_as_the_newer_exporter_writes(reused, tmp_path):
    """The same bits over two steps, running statistics included."""
    _, model, _, data = reused
    as_the_newer_exporter_writes(model, tmp_path / "newer.onnx")
    kept = {}
    for name, file in {"older": model, "newer": tmp_path / "newer.onnx"}.items():
        project = pipeline.compile_model(file, tmp_path / name, *OPTIONS, "--exact")
        pipeline.expect_same_bits(pipeline.train(project, tmp_path / f"run-{name}", data=data, steps=2), kept, "reused")


def test_refusal(reused, tmp_path):
    """Of a user's cut between two uses."""
    _, model, _, _ = reused
    nodes = pipeline.nodes_of(pipeline.compile_model(model, tmp_path / "whole", *OPTIONS))
    first = next(number for number, node in enumerate(nodes) if node.endswith("/BatchNormalization"))
    cut = pipeline.write_cut(nodes, first + 1, tmp_path / "stages.json")
    refused = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", *OPTIONS, "--stages", cut, "-o", tmp_path / "none",
                           check=False)
    assert refused.returncode == 1
    assert re.search(r"use '\S+\.running_mean' or lie between its uses: running statistics belong to one stage", refused.stderr)
