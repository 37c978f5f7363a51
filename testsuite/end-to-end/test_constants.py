"""What is made of constants alone: labels of a loss, windows that meet weights, and views in 16 bits, against PyTorch."""

import numpy
import onnx
import pytest
import torch
from onnx import numpy_helper

import export
import emulation
import pipeline


class InBatch(torch.nn.Module):
    """A sample is told from the others of its microbatch (CLIP, SimCLR): the labels are 0, 1, ..."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 6), torch.nn.Linear(9, 6)

    def forward(self, x, other):
        scores = self.first(x) @ self.second(other).t()
        return torch.nn.functional.cross_entropy(scores, torch.arange(x.shape[0]))


class Window(torch.nn.Module):
    """What weights and constants make together is prepared; what constants make alone, evaluation needs there, too."""

    def __init__(self):
        super().__init__()
        self.decay = torch.nn.Parameter(torch.rand(12, 1))
        self.register_buffer("times", torch.linspace(-1, 1, 9))

    def forward(self, x, other):
        return (x @ torch.exp(-self.decay * self.times.abs()) - other).pow(2).mean()


class Stacked(torch.nn.Module):
    """The view of a word's row is of 16 bits where what it is put beside is; its gradient has its name."""

    def __init__(self):
        super().__init__()
        self.rows, self.second, self.last = torch.nn.Embedding(12, 8), torch.nn.Linear(9, 8), torch.nn.Linear(8, 8)

    def forward(self, words, other):
        return self.last(torch.stack([self.rows(words), self.second(other)], 1)).pow(2).mean()


class Padded(torch.nn.Module):
    """What pads is one constant with what a node reads when it runs."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 6), torch.nn.Linear(9, 8)

    def forward(self, x, other):
        padded = torch.nn.functional.pad(self.first(x), (1, 1), value=0.25)
        return torch.maximum(padded, torch.tensor(0.25)).mul(self.second(other)).pow(2).mean()


NETWORKS = [InBatch, Window, Stacked, Padded]


def share_constant(path):
    """As PyTorch's newer exporter does, whose optimizer makes equal constants one."""
    model = onnx.load(path)
    graph, padding = model.graph, numpy_helper.from_array(numpy.float32(0.25), "quarter")
    readers = [(node, 2 if node.op_type == "Pad" else 1) for node in graph.node if node.op_type in ("Pad", "Max")]
    assert len(readers) == 2
    for node, operand in readers:
        node.input[operand] = padding.name
    graph.initializer.append(padding)
    onnx.save(model, path)


def write(network, folder):
    """The network, its samples, and options of pdc."""
    torch.manual_seed(1)
    net = network().train()
    first = {"words": torch.randint(12, (8,))} if network is Stacked else {"x": torch.randn(8, 12)}
    examples = {**first, "other": torch.randn(8, 9)}
    export.export_inputs(net, examples, {"loss": False}, folder / "model.onnx")
    if network is Padded:
        share_constant(folder / "model.onnx")
    frozen = ["--freeze", "times"] if network is Window else []
    return net, examples, ["--minibatch", 8, "--microbatches", 2, "--loss", "output", *frozen]


def gradients(net, examples):
    """Of two microbatches, in double."""
    net.double()
    parts = zip(*((value.double() if value.is_floating_point() else value).chunk(2) for value in examples.values()))
    loss = sum(net(*part) for part in parts) / 2
    loss.backward()
    return loss.item(), {name: parameter.grad.numpy() for name, parameter in net.named_parameters()}


@pytest.mark.parametrize("stages", ["1", "1-1"])
@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_are_pytorchs(network, stages, tmp_path):
    rate = 64.0
    net, examples, options = write(network, tmp_path)
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", *options, "--optimizer", f"sgd,lr={rate}",
                                     "--stages", stages, workers=stages.count("-") + 1)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=pipeline.save_inputs(examples, tmp_path), steps=1)
    before = {name: parameter.detach().numpy().copy() for name, parameter in net.named_parameters()}
    loss, expected = gradients(net, examples)
    assert result.losses[0] == pytest.approx(loss, rel=1e-6)
    for name, gradient in expected.items():
        found = (before[name] - result.weights()[name]) / rate
        numpy.testing.assert_allclose(found, gradient, rtol=1e-5, atol=1e-6, err_msg=name)


@emulation.on_host
@pytest.mark.parametrize("network", NETWORKS)
def test_trains_in_16_bits(network, tmp_path):
    net, examples, options = write(network, tmp_path)
    project = emulation.emit(tmp_path / "model.onnx", tmp_path / "project", *options, "--optimizer", "sgd,lr=0.05", "--precision", "bf16")
    result = emulation.train_on_host(project, tmp_path / "run", "--order", "file", data=pipeline.save_inputs(examples, tmp_path), steps=1)
    assert result.losses[0] == pytest.approx(gradients(net, examples)[0], rel=2**-6)


def test_evaluation_prepares_nothing(tmp_path):
    """What evaluation makes of weights alone, it makes where it reads it."""
    _, _, options = write(Window, tmp_path)
    program = pipeline.run(pipeline.BIN / "pdc", tmp_path / "model.onnx", "--gpus", 1, "--device", "cpu", *options, "--stop-after", "scheduled").stdout
    prepared = program.split("pdc.task prepare")[1].split("pdc.task")[0]
    assert " prepare version " in prepared and " evaluate version " not in prepared
