"""Numbers below the least normal one are zeros where programs run, and constants of a graph are none."""

import numpy
import torch
from torch import nn

import pipeline

SAMPLES, WIDTH, CLASSES = 4, 6, 4
ROWS = 8192  # enough for an update to be divided among threads
LEAST = numpy.finfo(numpy.float32).tiny


class Masked(nn.Module):
    """Scores of classes, some of which a sample's mask hides by the logarithm of a number that is almost zero."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(WIDTH, CLASSES)

    def forward(self, x, mask):
        return self.layer(x) + (mask + 1e-45).log()


class Looked(nn.Module):
    """Rows of a table, few of which are ever looked up."""

    def __init__(self):
        super().__init__()
        self.table, self.layer = nn.Embedding(ROWS, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, ids):
        return self.layer(self.table(ids))


def train(network, inputs, labels, folder, optimizer, steps, *options):
    names = list(inputs)
    torch.onnx.export(network, tuple(torch.from_numpy(inputs[name]) for name in names), str(folder / "model.onnx"),
                      input_names=names, output_names=["y"], dynamic_axes={name: {0: "N"} for name in [*names, "y"]},
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False)
    for name, values in (*inputs.items(), ("labels", labels)):
        numpy.save(folder / f"{name}.npy", values)
    project = pipeline.compile_model(folder / "model.onnx", folder / "project", "--stages", "1", "--minibatch", SAMPLES,
                                     "--optimizer", optimizer, *options)
    return pipeline.train(project, folder / "run", "--order", "file", steps=steps,
                          data=[f"{name}={folder / name}.npy" for name in (*names, "labels")])


def torch_training(network, inputs, labels, steps, **settings):
    optimizer = torch.optim.SGD(network.parameters(), **settings)
    losses = []
    for step in range(steps):
        at = slice(step * SAMPLES % len(labels), step * SAMPLES % len(labels) + SAMPLES)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(*(torch.from_numpy(values[at]) for values in inputs.values())),
                                           torch.from_numpy(labels[at]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, optimizer


def test_constants(tmp_path):
    """Of a sample of which all is hidden, too: its loss is that of its scores."""
    torch.manual_seed(1)
    network, random = Masked().train(), numpy.random.default_rng(2)
    inputs = {"x": random.standard_normal((SAMPLES, WIDTH), numpy.float32),
              "mask": numpy.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]], numpy.float32)}
    labels = numpy.array([2, 1, 0, 3])
    training = train(network, inputs, labels, tmp_path, "sgd,lr=0.1", 5)
    expected, _ = torch_training(network, inputs, labels, 5, lr=0.1)
    numpy.testing.assert_allclose(training.losses, expected, rtol=1e-6)


def test_fading_states(tmp_path):
    """The momentum of a row that nobody looks up any more ends at zero; PyTorch's goes on as subnormal numbers, which
    take an instruction some hundred times as long. Threads of an update are like the one that starts them."""
    torch.manual_seed(1)
    network, steps = Looked().train(), 1000
    ids, labels = numpy.zeros((SAMPLES * steps, 1), numpy.int64)[:, 0], numpy.arange(SAMPLES * steps) % CLASSES
    ids[:SAMPLES] = [1, 2, ROWS - 2, ROWS - 1]
    training = train(network, {"ids": ids}, labels, tmp_path, "momentum,lr=0.01,momentum=0.9", steps, "--threads", "2")
    expected, optimizer = torch_training(network, {"ids": ids}, labels, steps, lr=0.01, momentum=0.9)
    numpy.testing.assert_allclose(training.losses, expected, rtol=1e-4)

    def fading(momentum):
        return numpy.abs(momentum[[1, 2, -2, -1]])

    theirs = fading(optimizer.state[network.table.weight]["momentum_buffer"].numpy())
    assert ((theirs > 0) & (theirs < LEAST)).any(axis=1).all()
    states = {name: values for name, values in training.weights().items() if name.startswith("table.weight/")}
    assert len(states) == 1
    assert (fading(*states.values()) == 0).all()
