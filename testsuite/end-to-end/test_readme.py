"""What README.md says to do with trained weights, done."""

import contextlib
import io
import pathlib
import sys
import textwrap
import types

import numpy
import onnx
import torch
from onnx import numpy_helper

import export
import pipeline
import safetensors


class Network(torch.nn.Module):
    """The weight of its output is that of its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(19, 12)
        self.convolution = torch.nn.Conv1d(12, 12, 3, padding=1)
        self.normalisation = torch.nn.BatchNorm1d(12)
        self.dropout = torch.nn.Dropout(0.2)
        self.head = torch.nn.Linear(12, 19, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        y = self.normalisation(self.convolution(x.transpose(1, 2))).transpose(1, 2)
        return self.head(self.dropout(x + y)).transpose(1, 2)


def programs():
    """The Python of README.md's section, which reads a checkpoint named there."""
    text = (pathlib.Path(pipeline.SOURCE) / "README.md").read_text().split("## Trained weights\n")[1].split("\n## ")[0]
    blocks = [textwrap.dedent(block) for block in text.split("\n\n") if block.startswith("    import ")]
    assert len(blocks) == 2
    return blocks


def run_in(folder, program, monkeypatch, **names):
    """With a reader of our own in the place of the safetensors package, which Debian has not."""
    of_torch, of_numpy = types.ModuleType("safetensors.torch"), types.ModuleType("safetensors.numpy")
    of_numpy.load_file = lambda file: dict(safetensors.load(file))
    of_torch.load_file = lambda file: {name: torch.from_numpy(array.copy()) for name, array in of_numpy.load_file(file).items()}
    monkeypatch.setitem(sys.modules, "safetensors.torch", of_torch)
    monkeypatch.setitem(sys.modules, "safetensors.numpy", of_numpy)
    monkeypatch.setattr(safetensors, "__path__", [], raising=False)
    monkeypatch.chdir(folder)
    with contextlib.redirect_stdout(io.StringIO()) as told:
        exec(program, names)
    return told.getvalue()


def test_trained_weights(tmp_path, monkeypatch):
    torch.manual_seed(2)
    tokens, labels = torch.randint(19, (8, 6)), torch.randint(19, (8, 6))
    export.export_inputs(Network(), {"tokens": tokens}, {"output": True}, tmp_path / "model.onnx")
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--minibatch", 8, "--microbatches", 2, "--stages", "1-1",
                                     "--optimizer", "adamw,lr=0.01", workers=2)
    data = pipeline.save_inputs({"tokens": tokens, "labels": labels}, tmp_path)
    run = pipeline.train(project, tmp_path / "run", data=data, steps=3)
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "step-001000").symlink_to(run.checkpoint)
    weights = run.weights()
    to_module, to_onnx = programs()

    network = Network()
    told = run_in(tmp_path, to_module, monkeypatch, network=network)
    assert "missing_keys=['head.weight'], unexpected_keys=[]" in told or "missing_keys=['embedding.weight'], unexpected_keys=[]" in told, told
    assert network.head.weight is network.embedding.weight
    shared = weights.get("embedding.weight", weights.get("head.weight"))
    assert numpy.array_equal(network.head.weight.detach(), shared)
    assert numpy.array_equal(network.normalisation.running_mean, weights["normalisation.running_mean"])

    run_in(tmp_path, to_onnx, monkeypatch)
    model = onnx.load(str(tmp_path / "inference.onnx"))
    onnx.checker.check_model(model, full_check=True)
    for weight in model.graph.initializer:
        if weight.name in weights:
            assert numpy.array_equal(numpy_helper.to_array(weight), weights[weight.name])
    [dropout] = [node for node in model.graph.node if node.op_type == "Dropout"]
    [normalisation] = [node for node in model.graph.node if node.op_type == "BatchNormalization"]
    assert len(dropout.input) == 1 and len(normalisation.output) == 1
    assert not any(attribute.name == "training_mode" for attribute in normalisation.attribute)
