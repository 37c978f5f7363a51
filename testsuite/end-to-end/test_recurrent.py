"""Language models of LSTM and GRU layers, written out step by step, against PyTorch."""

import copy

import numpy
import pytest
import torch

import lstm
import pipeline
import safetensors

BATCH, RATE, STEPS, SEQUENCE = 8, 64.0, 3, 4


def draw(folder, seed):
    tokens = numpy.random.default_rng(seed).integers(0, 256, (BATCH, SEQUENCE + 1))
    inputs = {"input": tokens[:, :-1].copy(), "labels": tokens[:, 1:].copy()}
    for name, values in inputs.items():
        numpy.save(folder / f"{name}-{seed}.npy", values)
    return inputs, [f"{name}={folder}/{name}-{seed}.npy" for name in inputs]


def build(cell):
    torch.manual_seed(1)
    return lstm.LSTMLanguageModel(cell=getattr(torch.nn, cell)).train()


def loss_of(net, inputs):
    scores = net(torch.from_numpy(inputs["input"]))
    return torch.nn.functional.cross_entropy(scores.reshape(-1, 256), torch.from_numpy(inputs["labels"]).reshape(-1))


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_gradients(cell, models, tmp_path):
    """Weights reloaded at each step; the gradient is what an update with lr 64 subtracts."""
    project = pipeline.compile_model(models("lstm", "--cell", cell, "--sequence", SEQUENCE), tmp_path / "project", "--minibatch", BATCH,
                                     "--microbatches", 2, "--optimizer", f"sgd,lr={RATE}")
    net = build(cell)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(STEPS):
        inputs, data = draw(tmp_path, step)
        weights = {name: parameter.detach().numpy().copy() for name, parameter in net.named_parameters()}
        safetensors.save(project / "weights.safetensors", weights)
        result = pipeline.train(project, tmp_path / f"step{step}", data=data, steps=1)
        truth = copy.deepcopy(net).double()
        loss = loss_of(truth, inputs)
        loss.backward()
        assert result.losses[0] == pytest.approx(loss.item(), rel=1e-4)
        after = result.weights()
        for name, parameter in truth.named_parameters():
            found = (weights[name].astype(numpy.float64) - after[name]) / RATE
            expected = parameter.grad.numpy()
            assert numpy.linalg.norm(found - expected) <= 1e-3 * numpy.linalg.norm(expected) + 1e-9, (step, name)
        optimizer.zero_grad()
        loss_of(net, inputs).backward()
        optimizer.step()


class Classifier(torch.nn.Module):
    """Of sequences of different lengths, as PyTorch packs them; its exporter writes the number of samples down."""

    def __init__(self, cell):
        super().__init__()
        self.embedding, self.cell = torch.nn.Embedding(20, 6), getattr(torch.nn, cell)(6, 5, batch_first=True, bidirectional=True)
        self.last = torch.nn.Linear(20, 10)

    def forward(self, tokens, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True)
        states, last = self.cell(packed)
        states, _ = torch.nn.utils.rnn.pad_packed_sequence(states, batch_first=True, total_length=7)
        hidden, *cell = last if isinstance(last, tuple) else (last,)
        return self.last(torch.cat([states.sum(1), *(cell[0] if cell else hidden)], 1))


@pytest.mark.parametrize("cell", ["LSTM", "GRU"])
def test_lengths(cell, tmp_path):
    torch.manual_seed(1)
    net = Classifier(cell).train()
    inputs = {"tokens": torch.randint(0, 20, (BATCH, 7)), "lengths": torch.tensor([7, 5, 3, 1, 7, 6, 6, 2])}
    torch.onnx.export(net, tuple(value[:BATCH // 2] for value in inputs.values()), str(tmp_path / "lengths.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=list(inputs),
                      output_names=["scores"])
    labels = torch.randint(0, 10, (BATCH,))
    for name, value in {**inputs, "labels": labels}.items():
        numpy.save(tmp_path / f"{name}.npy", value.numpy())
    project = pipeline.compile_model(tmp_path / "lengths.onnx", tmp_path / "project", "--minibatch", BATCH, "--microbatches", 2,
                                     "--optimizer", f"sgd,lr={RATE}")
    data = [f"{name}={tmp_path}/{name}.npy" for name in (*inputs, "labels")]
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    net = net.double()
    scores = [net(*halves) for halves in zip(*(value.chunk(2) for value in inputs.values()))]
    loss = torch.nn.functional.cross_entropy(torch.cat(scores), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    after = result.weights()
    for name, parameter in net.named_parameters():
        found = (parameter.detach().numpy() - after[name]) / RATE
        assert numpy.linalg.norm(found - parameter.grad.numpy()) <= 1e-5 * numpy.linalg.norm(parameter.grad.numpy()), name
