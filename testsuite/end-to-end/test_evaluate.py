"""Evaluation uses running statistics, no dropout, and counts each sample of a padded last batch once."""

import math
import re

import numpy
import pytest
import torch

import export
import pipeline


@pytest.mark.parametrize("stages,transport", [(1, "local"), (2, "local"), (3, "mpi")])
def test_matches_pytorch(stages, transport, models, tmp_path):
    project = pipeline.compile_model(models("fashion"), tmp_path / "project", "--minibatch", 16, "--microbatches", 2,
                                     "--stages", "-".join(["1"] * stages), "--optimizer", "sgd,lr=0.05", workers=stages)
    images, labels = pipeline.draw_images(tmp_path, 64, (1, 28, 28), 10)
    test_images, test_labels = pipeline.draw_images(tmp_path / "test", 37, (1, 28, 28), 10, seed=5)
    run = pipeline.train(project, tmp_path / "run", "--eval-data", f"input={test_images}", "--eval-data",
                         f"labels={test_labels}", "--metric", "accuracy", transport=transport,
                         data=[f"input={images}", f"labels={labels}"], steps=4)
    evaluation = [record for record in run.records if "evaluation_loss" in record][-1]

    import fashion
    net = fashion.Fashion().eval()
    weights = run.weights()
    state = {name: torch.from_numpy(weights[name].copy()) for name in net.state_dict() if name in weights}
    missing = net.load_state_dict(state, strict=False).missing_keys
    assert all(name.endswith("num_batches_tracked") for name in missing)
    with torch.no_grad():
        logits = net(torch.from_numpy(numpy.load(test_images)))
    expected = torch.from_numpy(numpy.load(test_labels))
    accuracy = (logits.argmax(1) == expected).double().mean().item()
    loss = torch.nn.functional.cross_entropy(logits, expected).item()
    assert evaluation["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert evaluation["evaluation_loss"] == pytest.approx(loss, rel=1e-4)
    assert re.search(r"accuracy", run.output)


class Error(torch.nn.Module):
    """A loss of its own, which has no classes."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(12, 9)

    def forward(self, x, other):
        return (self.layer(x) - other).pow(2).mean()


class Told(Error):
    """A loss that names its labels."""

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.layer(x), labels)


def test_own_loss_has_no_accuracy(tmp_path):
    """And a log that cannot be written is told, at the end by the exit code; what there is to save is saved."""
    examples = {"x": torch.randn(8, 12), "other": torch.randn(8, 9)}
    export.export_inputs(Error(), examples, {"loss": False}, tmp_path / "model.onnx")
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--minibatch", 4, "--loss", "output")
    data = pipeline.save_inputs(examples, tmp_path)
    evaluated = [word for entry in data for word in ("--eval-data", entry)]
    result = pipeline.train(project, tmp_path / "run", *evaluated, data=data, steps=2)
    assert "accuracy " not in result.output and "evaluation: loss " in result.output
    assert all("accuracy" not in record for record in pipeline.read_log(tmp_path / "run" / "log.jsonl"))
    told = pipeline.run(pipeline.BIN / "pdc-run", project, *(word for entry in data for word in ("--data", entry)), "--steps", 2, "--log", "/dev/full",
                        "--save", tmp_path / "saved", check=False)
    assert told.returncode == 1 and told.stderr == "error: --log /dev/full: cannot be written: No space left on device; all else is done\n"
    assert "log: " not in told.stdout and list((tmp_path / "saved").glob("step-*"))


class Tokens(torch.nn.Module):
    """The next token of each, five of a sample."""

    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 6)
        self.layer = torch.nn.Linear(6, 7)

    def forward(self, tokens):
        return self.layer(self.embedding(tokens)).transpose(1, 2)


def test_perplexity_is_of_predictions(tmp_path):
    torch.manual_seed(1)
    network, tokens, labels = Tokens(), torch.randint(7, (11, 5)), torch.randint(7, (11, 5))
    export.export_inputs(network, {"tokens": tokens}, {"output": True}, tmp_path / "model.onnx")
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--minibatch", 4)
    data = pipeline.save_inputs({"tokens": tokens, "labels": labels}, tmp_path)
    run = pipeline.train(project, tmp_path / "run", *(word for entry in data for word in ("--eval-data", entry)), "--metric", "perplexity",
                         "--lr", 0, data=data, steps=2)
    loss = torch.nn.functional.cross_entropy(network(tokens), labels).item()
    accuracy = (network(tokens).argmax(1) == labels).double().mean().item()
    found, summary = ([record for record in run.records if name in record][-1] for name in ("evaluation_loss", "summary"))
    for record in found, summary:
        assert record["perplexity"] == pytest.approx(math.exp(loss), rel=1e-5)
        assert record["accuracy"] == pytest.approx(accuracy, abs=1e-6)
        assert record["samples"] == 11 and record["predictions"] == 55
    assert re.search(rf"^evaluation: perplexity {math.exp(loss):.3f} over 55 predictions, loss {loss:.4f}$", run.output, re.M), run.output


def test_a_loss_of_the_file_is_no_other(tmp_path):
    export.export_inputs(Told(), {"x": torch.randn(8, 12), "labels": torch.randint(9, (8,))}, {"loss": False}, tmp_path / "model.onnx")
    for option in ("mse", "cross_entropy:loss:others"):
        refused = pipeline.run(pipeline.BIN / "pdc", tmp_path / "model.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", 4, "--loss", option, "-o",
                               tmp_path / "project", check=False)
        assert refused.returncode == 1 and f"--loss {option}: 'loss' is a loss already" in refused.stderr


class Convolved(torch.nn.Module):
    """Images from images, as tall as there are samples in a microbatch; zeros give what is far from zero."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 3, 3, padding=1), torch.nn.Conv2d(3, 1, 1)
        with torch.no_grad():
            self.second.bias.fill_(5)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


@pytest.mark.parametrize("stages,replicas", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("kind,criterion", [("mse", torch.nn.functional.mse_loss), ("l1", torch.nn.functional.l1_loss),
                                            ("bce_with_logits", torch.nn.functional.binary_cross_entropy_with_logits)])
def test_samples_of_a_partial_batch_count(kind, criterion, stages, replicas, tmp_path):
    """Ten samples in microbatches of four, of a loss that ignores no label."""
    torch.manual_seed(2)
    network, x, target = Convolved(), torch.randn(10, 1, 4, 5), torch.rand(10, 1, 4, 5)
    export.export_inputs(network, {"x": x}, {"output": True}, tmp_path / "model.onnx")
    shape = "-".join([str(replicas)] * stages)
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--minibatch", 4 * replicas, "--microbatches", 1,
                                     "--stages", shape, "--loss", f"{kind}:output:target", workers=stages * replicas)
    data = pipeline.save_inputs({"x": x, "target": target}, tmp_path)
    run = pipeline.train(project, tmp_path / "run", *(word for entry in data for word in ("--eval-data", entry)), "--lr", 0, data=data, steps=1)
    found = [record for record in run.records if "evaluation_loss" in record][-1]
    assert found["evaluation_loss"] == pytest.approx(criterion(network(x), target).item(), rel=1e-5)
    refused = pipeline.train(project, tmp_path / "run", "--metric", "perplexity", data=data, steps=1, check=False)
    assert refused.returncode == 1 and "--metric perplexity: is of predicted classes" in refused.stderr
    assert found["samples"] == 10 and found["predictions"] == 200
    assert "leaves out" not in run.output


class Weighted(torch.nn.Module):
    """Classes of unlike weights, and a label that does not count."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 3)
        self.register_buffer("classes", torch.tensor([0.1, 2.0, 7.0]))

    def forward(self, x, labels):
        return torch.nn.functional.cross_entropy(self.layer(x), labels, weight=self.classes, ignore_index=-1)


@pytest.mark.parametrize("replicas", [1, 2])
def test_classes_with_weights_count_once(replicas, tmp_path):
    torch.manual_seed(4)
    network, x, labels = Weighted(), torch.randn(10, 6), torch.randint(3, (10,))
    labels[3] = -1
    torch.onnx.export(network, (x, labels), str(tmp_path / "model.onnx"), opset_version=16, input_names=["x", "labels"],
                      output_names=["loss"], dynamic_axes={name: {0: "batch"} for name in ("x", "labels")})
    project = pipeline.compile_model(tmp_path / "model.onnx", tmp_path / "project", "--minibatch", 4 * replicas, "--microbatches", 1,
                                     "--stages", replicas, workers=replicas)
    data = pipeline.save_inputs({"x": x, "labels": labels}, tmp_path)
    run = pipeline.train(project, tmp_path / "run", *(word for entry in data for word in ("--eval-data", entry)), "--lr", 0, data=data, steps=1)
    found = [record for record in run.records if "evaluation_loss" in record][-1]
    correct = (network.layer(x).argmax(1) == labels).sum().item()
    assert 0 < correct < 9 and found["accuracy"] == pytest.approx(correct / 9)
    assert found["predictions"] == 9 and found["samples"] == 10
    assert found["evaluation_loss"] == pytest.approx(network(x, labels).item(), rel=1e-5)
