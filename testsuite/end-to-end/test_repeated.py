"""What is repeated for other elements (an image upsampled, a mean's gradient, a vector's length) is read where it lies, and images with
bounds keep their layout, on both devices."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional

import emulation
import pipeline

BATCH, STEPS, RATE = 8, 3, 0.5


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 10)
        self.gain = nn.Parameter(torch.randn(16))

    def forward(self, x):
        x = functional.interpolate(torch.relu(self.first(x).clamp(max=2.0)), scale_factor=2, mode="nearest")
        x = (self.second(x) * functional.normalize(self.gain, dim=0)[:, None, None]).clamp(-0.5, 0.5)
        return self.last((x.exp() - 1).mean((2, 3)))


@pytest.fixture
def decoder(tmp_path):
    torch.manual_seed(3)
    net, images = Decoder().train(), torch.randn(BATCH, 3, 6, 5)
    torch.onnx.export(net, (images,), str(tmp_path / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x"], output_names=["y"],
                      dynamic_axes={name: {0: "batch"} for name in ("x", "y")})
    labels = torch.randint(0, 10, (BATCH,))
    data = pipeline.save_inputs({"x": images, "labels": labels}, tmp_path / "data")
    net.double()
    losses, optimizer = [], torch.optim.SGD(net.parameters(), RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(images.double()), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return tmp_path / "net.onnx", data, losses


OPTIONS = ["--minibatch", BATCH, "--microbatches", 2, "--optimizer", f"sgd,lr={RATE}", "--schedule", "1f1b"]


@pytest.mark.parametrize("stages", ["1", "1-1"])
def test_against_pytorch(stages, decoder, tmp_path):
    model, data, losses = decoder
    project = pipeline.compile_model(model, tmp_path / "project", *OPTIONS, "--stages", stages, workers=len(stages.split("-")))
    assert pipeline.train(project, tmp_path / "run", data=data, steps=STEPS).losses == pytest.approx(losses, rel=1e-5)


@emulation.on_host
@pytest.mark.parametrize("precision, rounding", [("fp32", 1e-5), ("bf16", 1e-2)])
def test_trains_on_gpus(precision, rounding, decoder, tmp_path):
    model, data, losses = decoder
    project = emulation.emit(model, tmp_path / "project", *OPTIONS, "--precision", precision, "--stages", "1-1", workers=2)
    assert emulation.train_on_host(project, tmp_path / "run", data=data, steps=STEPS).losses == pytest.approx(losses, rel=rounding)


def test_images_keep_their_layout_on_gpus(decoder):
    """One kernel upsamples, and nothing is brought to another order but the input and the gradient's smaller image."""
    program = pipeline.run(pipeline.BIN / "pdc", decoder[0], "--gpus", 1, *OPTIONS, "--precision", "bf16", "--stop-after",
                           "scheduled").stdout.split("evaluate microbatch")[0]
    kernels = [(unit, kernel) for unit, phase, kernel in
               re.findall(r'pdc\.unit "([^"]*)" .*?(forward|backward_\w+) microbatch .*?#pdc\.kernel<"(\w+)"', program)]
    names = [kernel for _, kernel in kernels]
    assert names.count("StridedCopy") == 1 and "Gather" not in names and "GatherGradient" not in names
    moved = [unit for unit, kernel in kernels if kernel == "Reorder"]
    assert len(moved) == 2 and moved[0].startswith("x/") and "/grad/" in moved[1], moved
