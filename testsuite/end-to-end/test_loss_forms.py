"""Losses that networks compute in forms of their own, against PyTorch; and what pdc says of files that hold less than the network."""

import re

import pytest
import torch
from torch.nn import functional

import pipeline

SAMPLES, WIDTH, CLASSES, RATE = 8, 6, 5, 32.0


class Network(torch.nn.Module):
    def __init__(self, loss):
        super().__init__()
        self.hidden, self.scores = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, CLASSES)
        self.register_buffer("kernel", torch.linspace(0.5, 1.5, WIDTH))
        self.loss = loss

    def forward(self, x, labels):
        return self.loss(self, self.scores(torch.tanh(self.hidden(x)) * self.kernel), labels)


def mixed(net, scores, labels):
    """As mixup has them: shares of two classes, and weights of classes."""
    shares = 0.3 * functional.one_hot(labels, CLASSES).to(scores) + 0.7 * functional.one_hot(labels.flip(0), CLASSES).to(scores)
    return functional.cross_entropy(scores, shares, weight=torch.linspace(0.5, 1.5, CLASSES).to(scores))


def taught(net, scores, labels):
    """Shares that have a gradient."""
    return functional.cross_entropy(scores, torch.softmax(scores * net.kernel[:CLASSES], 1)) + functional.cross_entropy(
        scores, torch.softmax(scores.detach() / 2, 1), reduction="sum") / SAMPLES


def of_one_element(net, scores, labels):
    return functional.cross_entropy(scores, labels, reduction="none").mean(0, keepdim=True)


def summed(net, scores, labels):
    return functional.cross_entropy(scores, labels, reduction="sum")


def of_means(net, scores, labels):
    """Means of what is one number already, as a habit of averaging over devices leaves them."""
    return (functional.cross_entropy(scores, labels).mean() + 0.1 * (scores * scores).sum().mean()).mean()


@pytest.mark.parametrize("loss", [mixed, taught, of_one_element, summed, of_means], ids=lambda loss: loss.__name__)
def test_losses(loss, tmp_path):
    torch.manual_seed(5)
    net = Network(loss).train()
    inputs = {"x": torch.randn(SAMPLES, WIDTH), "labels": torch.randint(0, CLASSES, (SAMPLES,))}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=list(inputs), output_names=["loss"],
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    if loss is taught:
        del inputs["labels"]
    data = pipeline.save_inputs(inputs, tmp_path / "data")
    said = pipeline.run(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 2, "--device", "cpu", "--minibatch", SAMPLES,
                        "--microbatches", 1, "--stages", "1-1", "--optimizer", f"sgd,lr={RATE}", "--loss", "output", "-o",
                        tmp_path / "project", "--freeze", "kernel")
    assert "does not tell parameters from buffers" not in said.stdout
    result = pipeline.train(tmp_path / "project", tmp_path / "run", "--order", "file", data=data, steps=1)
    net = net.double()
    expected = net(inputs["x"].double(), inputs.get("labels"))
    # The older exporter drops `detach`.
    if loss is not taught:
        expected.sum().backward()
        pipeline.expect_gradients(result, net, RATE)
    assert result.losses[0] == pytest.approx(expected.item(), rel=1e-5)


def test_buffers_that_are_trained_are_named(tmp_path):
    """Files of the older exporter do not tell them from parameters."""
    net = Network(of_one_element).train()
    inputs = (torch.randn(SAMPLES, WIDTH), torch.randint(0, CLASSES, (SAMPLES,)))
    torch.onnx.export(net, inputs, str(tmp_path / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x", "labels"], output_names=["loss"],
                      dynamic_axes={name: {0: "batch"} for name in ("x", "labels")})
    said = pipeline.run(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", SAMPLES, "--loss",
                        "output", "-o", tmp_path / "project").stdout
    assert "note: the file does not tell parameters from buffers, and trained are, too: kernel; --freeze PATTERN leaves" in said


class Judge(torch.nn.Module):
    """A sigmoid that is 0 or 1 to the last bit for some samples, as a GAN's discriminator has it."""

    def __init__(self, forward):
        super().__init__()
        self.score, self.of = torch.nn.Linear(WIDTH, 1), forward
        torch.nn.init.constant_(self.score.weight, 30.0)

    def forward(self, x, labels):
        return self.of(self.score(x).squeeze(1), labels)


def bounded(scores, labels):
    """nn.BCELoss as PyTorch's newer exporter writes it."""
    p, least = torch.sigmoid(scores), torch.full((), -100.0)
    return -(labels * torch.maximum(torch.log(p), least) + (1 - labels) * torch.maximum(torch.log(1 - p), least)).mean()


def judged(scores, labels):
    return functional.binary_cross_entropy(torch.sigmoid(scores), labels)


def rooted(scores, labels):
    """The root of what is 0 where the other is more: its slope is infinite."""
    return (torch.sqrt(torch.maximum(scores, torch.zeros_like(scores) - labels + labels)) - labels).square().mean()


@pytest.mark.parametrize("exported, expected", [(bounded, judged), (rooted, rooted)], ids=["bce", "root"])
def test_infinite_slopes_that_do_not_count(exported, expected, tmp_path):
    torch.manual_seed(3)
    net = Judge(exported).train()
    x = torch.randn(SAMPLES, WIDTH)
    inputs = {"x": x, "labels": torch.randint(0, 2, (SAMPLES,)).float()}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=list(inputs), output_names=["loss"],
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    data = pipeline.save_inputs(inputs, tmp_path / "data")
    pipeline.run(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", SAMPLES,
                 "--microbatches", 1, "--optimizer", f"sgd,lr={RATE}", "--loss", "output", "-o", tmp_path / "project")
    result = pipeline.train(tmp_path / "project", tmp_path / "run", "--order", "file", data=data, steps=1)
    net.of = expected
    loss = net(**inputs)
    loss.backward()
    assert torch.isfinite(net.score.weight.grad).all()
    pipeline.expect_gradients(result, net, RATE)
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)


def exported_with(net, inputs, outputs, folder):
    torch.onnx.export(net.train(), tuple(inputs.values()), str(folder / "net.onnx"), opset_version=16, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=list(inputs), output_names=outputs,
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    return folder / "net.onnx", pipeline.save_inputs(inputs, folder / "data")


def without_slope(net, scores, labels):
    """The root of zeros, which are the same whatever the scores are: PyTorch's gradient is no number either."""
    return functional.cross_entropy(scores + torch.sqrt(scores * 0), labels)


def test_gradients_that_are_no_numbers_are_told(tmp_path):
    """Whose they are, and that no learning rate has made them so."""
    inputs = {"x": torch.randn(SAMPLES, WIDTH), "labels": torch.randint(0, CLASSES, (SAMPLES,))}
    model, data = exported_with(Network(without_slope), inputs, ["loss"], tmp_path)
    project = pipeline.compile_model(model, tmp_path / "project", "--minibatch", SAMPLES, "--loss", "output", "--freeze", "kernel",
                                     "--stages", "1-1", workers=2)
    refused = pipeline.train(project, tmp_path / "run", "--clip-norm", 1, data=data, steps=3, check=False)
    assert refused.returncode == 1
    assert re.search(r"step 1: the 2-norm of the gradient is nan, that of 'hidden.bias' and of 3 others, over .*; before any update", refused.stderr)
    late = pipeline.train(project, tmp_path / "late", data=data, steps=3, check=False)
    assert "--clip-norm, which tells whose it is where it is none" in late.stderr


class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.scores, self.value = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, CLASSES), torch.nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.scores(x), self.value(x)


def test_layers_that_the_loss_does_not_read_are_told(tmp_path):
    model, _ = exported_with(TwoHeads(), {"x": torch.randn(SAMPLES, WIDTH)}, ["scores", "value"], tmp_path)
    compiled = [pipeline.BIN / "pdc", model, "--gpus", 1, "--device", "cpu", "--minibatch", SAMPLES, "-o", tmp_path / "project"]
    for loss, unread in ((["--loss", "cross_entropy:scores:classes"], "value"), (["--loss", "mse:value"], "scores")):
        said = pipeline.run(*compiled, *loss).stdout
        assert (f"note: the loss does not depend on 2 of the network's tensors: {unread}.bias, {unread}.weight; they are not trained, and no "
                "checkpoint has them") in said
