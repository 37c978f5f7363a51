"""Losses with terms of weights alone, whose gradients are the same for every microbatch, against PyTorch."""

import numpy
import pytest
import torch

import export
import pipeline


class Uncertain(torch.nn.Module):
    """Two losses, each weighed by a trained number that is added, too, and a penalty on the weights."""

    def __init__(self):
        super().__init__()
        self.scale, self.first, self.second = torch.nn.Parameter(torch.randn(12) / 3), torch.nn.Linear(12, 10), torch.nn.Linear(12, 10)
        self.sigma = torch.nn.Parameter(torch.tensor([0.2]))
        self.shift = torch.nn.Parameter(torch.tensor(0.3))

    def forward(self, x, target, other):
        x = x * torch.exp(self.scale)
        first, second = (self.first(x) - target).pow(2).mean(), (self.second(x) - other).abs().mean()
        penalty = self.first.weight.pow(2).sum() / 8 - self.scale.sum()
        return first * torch.exp(-self.sigma).sum() + second * torch.exp(-self.shift) + self.sigma.sum() + self.shift + penalty


@pytest.mark.parametrize("stages", [1, 3])
def test_gradients_of_penalties(stages, tmp_path):
    torch.manual_seed(1)
    net = Uncertain().train()
    examples = {"x": torch.randn(8, 12), "target": torch.randn(8, 10), "other": torch.randn(8, 10)}
    export.export_inputs(net, examples, {"loss": False}, tmp_path / "uncertain.onnx")
    rate = 64.0
    project = pipeline.compile_model(tmp_path / "uncertain.onnx", tmp_path / "project", "--minibatch", 8, "--microbatches", 2, "--loss",
                                     "output", "--optimizer", f"sgd,lr={rate}", "--train", "*", "--stages", "-".join(["1"] * stages),
                                     workers=stages)
    data = pipeline.save_inputs(examples, tmp_path)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    loss = net.double()(*(value.double() for value in examples.values()))
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-6)
    for name, parameter in net.named_parameters():
        found = (parameter.detach().numpy() - result.weights()[name]) / rate
        numpy.testing.assert_allclose(found, parameter.grad.numpy(), rtol=1e-5, atol=1e-6, err_msg=name)
