"""Weights that learn at another rate (--lr-scale): against PyTorch's parameter groups."""

import math

import numpy
import pytest
import torch

import export
import pipeline

BATCH, MICROBATCHES, STEPS, WORDS, CLASSES = 12, 3, 5, 7, 11
# The last pattern that matches counts; the table of words is the output's matrix, too, and so in two stages.
SCALES = ["table*=0.25", "layers.*=0.5", "layers.2.bias=4", "layers.2.*=2", "norm.*=0"]
FACTORS = {"table.weight": 0.25, "layers.0": 0.5, "layers.1": 0.5, "layers.2": 2, "norm": 0, "first": 1}
OPTIMIZERS = {
    "adamw,lr=0.01,weight_decay=0.1": lambda groups: torch.optim.AdamW(groups, weight_decay=0.1),
    "momentum,lr=0.1,momentum=0.8,weight_decay=0.01": lambda groups: torch.optim.SGD(groups, 1, momentum=0.8, weight_decay=0.01),
}


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(CLASSES, 16)
        self.first = torch.nn.Linear(16, 16)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(16, 16) for _ in range(3)])
        self.norm = torch.nn.LayerNorm(16)

    def forward(self, words):
        x = self.first(self.table(words)).mean(1)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.norm(x) @ self.table.weight.T


def export_tagger(net, path):
    export.export_inputs(net, {"input": torch.zeros(2, WORDS, dtype=torch.int64)}, {"output": True}, path)


def rate_of(name, step, base):
    """--lr-schedule cosine: of the updates 1 to STEPS."""
    factor = next(factor for prefix, factor in FACTORS.items() if name.startswith(prefix))
    return base * factor * (1 + math.cos(math.pi * (step - 1) / STEPS)) / 2


def train_by_pytorch(net, optimizer, words, labels):
    base = float(optimizer.split("lr=")[1].split(",")[0])
    theirs = OPTIMIZERS[optimizer]([{"params": [p], "name": name, "lr": base} for name, p in net.named_parameters()])
    losses = []
    for step in range(1, STEPS + 1):
        for group in theirs.param_groups:
            group["lr"] = rate_of(group["name"], step, base)
        theirs.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(words), labels)
        loss.backward()
        theirs.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_groups(optimizer, stages, tmp_path):
    torch.manual_seed(7)
    net = Tagger()
    words, labels = torch.randint(0, CLASSES, (BATCH, WORDS)), torch.randint(0, CLASSES, (BATCH,))
    export_tagger(net, tmp_path / "tagger.onnx")
    data = pipeline.save_inputs({"input": words, "labels": labels}, tmp_path)
    project = pipeline.compile_model(
        tmp_path / "tagger.onnx", tmp_path / "project", "--minibatch", BATCH, "--microbatches", MICROBATCHES, "--stages",
        "-".join("1" * stages), "--optimizer", optimizer, *(word for scale in SCALES for word in ("--lr-scale", scale)),
        workers=stages)
    training = pipeline.train(project, tmp_path / "run", "--order", "file", "--lr-schedule", "cosine", data=data, steps=STEPS)

    losses = train_by_pytorch(net.double(), optimizer, words, labels)
    assert numpy.allclose(training.losses, losses, rtol=1e-5)
    weights = training.weights()
    for name, expected in net.named_parameters():
        assert numpy.allclose(weights[name], expected.detach().numpy(), rtol=1e-4, atol=1e-6), name


def test_refusals(tmp_path):
    torch.manual_seed(7)
    export_tagger(Tagger(), tmp_path / "tagger.onnx")

    def refused(scale):
        command = [pipeline.BIN / "pdc", tmp_path / "tagger.onnx", "--gpus", 1, "--minibatch", 4, "--lr-scale", scale]
        result = pipeline.run(*command, check=False)
        return result.returncode, result.stderr

    for scale in ("layers.0.weight", "=2", "norm.*=fast", "norm.*=-1", "norm.*=inf"):
        code, says = refused(scale)
        assert code == 2 and f"error: --lr-scale: '{scale}' is no scale of a learning rate; expected PATTERN=F" in says
    code, says = refused("layer.*=2")
    assert code == 1 and "pattern 'layer.*' of lr-scale matches no trained weight" in says
