"""Language models of LSTM and GRU layers, written out step by step, against PyTorch."""

import copy
import json
import re

import numpy
import pytest
import torch

import export
import lstm
import emulation
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
    # One sum for each weight, of which the exporter has cut the gates.
    summed = sum(stage["gradient_bytes"] for stage in json.loads((project / "plan.json").read_text())["stages"])
    assert summed == 4 * sum(parameter.numel() for parameter in net.parameters())
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
    project = pipeline.compile_model(tmp_path / "lengths.onnx", tmp_path / "project", "--minibatch", BATCH, "--microbatches", 2,
                                     "--optimizer", f"sgd,lr={RATE}")
    data = pipeline.save_inputs({**inputs, "labels": labels}, tmp_path)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    net = net.double()
    scores = [net(*halves) for halves in zip(*(value.chunk(2) for value in inputs.values()))]
    loss = torch.nn.functional.cross_entropy(torch.cat(scores), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


class BothDirections(torch.nn.Module):
    """Nothing goes from one direction of a layer to the other but the sums of their weights' gradients: those are slices."""

    def __init__(self):
        super().__init__()
        self.cell, self.last = torch.nn.GRU(16, 5, 2, batch_first=True, bidirectional=True), torch.nn.Linear(10, 10)

    def forward(self, x):
        return self.last(self.cell(x)[0][:, -1])


def test_directions(tmp_path):
    torch.manual_seed(1)
    net = BothDirections().train()
    export.export(net, (2, 16), tmp_path / "both.onnx")
    data = pipeline.save_inputs({"input": torch.randn(60, 2, 16), "labels": torch.randint(0, 10, (60,))}, tmp_path)
    unsplit = {}
    for schedule in (None, "1f1b", "gpipe", "zb-h1", "interleaved"):
        split = ["--schedule", schedule] if schedule else []
        project = pipeline.compile_model(tmp_path / "both.onnx", tmp_path / f"{schedule}", "--minibatch", 60, "--microbatches", 2, "--exact",
                                         *split, workers=2 if schedule else 1)
        pipeline.expect_same_bits(pipeline.train(project, project / "run", data=data, steps=1), unsplit, "both")


class Learned(torch.nn.Module):
    """The states from which all sequences begin are trained, too."""

    def __init__(self):
        super().__init__()
        self.state, self.memory = (torch.nn.Parameter(torch.randn(1, 1, 12)) for _ in range(2))
        self.cell, self.last = torch.nn.LSTM(8, 12, batch_first=True), torch.nn.Linear(12, 10)

    def forward(self, x):
        begin = tuple(state.expand(-1, x.shape[0], -1).contiguous() for state in (self.state, self.memory))
        return self.last(self.cell(x, begin)[0][:, -1])


def test_learned_states(tmp_path):
    torch.manual_seed(1)
    net = Learned().train()
    export.export(net, (4, 8), tmp_path / "learned.onnx")
    x, labels = torch.randn(BATCH, 4, 8), torch.randint(0, 10, (BATCH,))
    project = pipeline.compile_model(tmp_path / "learned.onnx", tmp_path / "project", "--minibatch", BATCH, "--microbatches", 2,
                                     "--optimizer", f"sgd,lr={RATE}")
    result = pipeline.train(project, tmp_path / "run", data=pipeline.save_inputs({"input": x, "labels": labels}, tmp_path), steps=1)
    loss = torch.nn.functional.cross_entropy(net.double()(x.double()), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


class Loop(torch.nn.Module):
    """A cell that the model itself runs step by step; PyTorch's exporter writes each step down, and the number of samples."""

    def __init__(self, cell, samples):
        super().__init__()
        self.embedding, self.cell, self.head = torch.nn.Embedding(256, 24), getattr(torch.nn, cell)(24, 48), torch.nn.Linear(48, 256)
        self.samples = samples

    def forward(self, tokens):
        state, cell, states = torch.zeros(self.samples, 48), torch.zeros(self.samples, 48), []
        for step in self.embedding(tokens).unbind(1):
            if isinstance(self.cell, torch.nn.LSTMCell):
                state, cell = self.cell(step, (state, cell))
            else:
                state = self.cell(step, state)
            states.append(state)
        return self.head(torch.stack(states, 1))


@pytest.mark.parametrize("cell", ["LSTMCell", "GRUCell", "RNNCell"])
def test_loops(cell, tmp_path):
    """The weights of a loop have one sum of gradients, and the same bits where stages cut it."""
    torch.manual_seed(1)
    net = Loop(cell, 2).train()
    torch.onnx.export(net, torch.zeros(2, SEQUENCE, dtype=torch.int64), str(tmp_path / "loop.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["input"])
    inputs, data = draw(tmp_path, 0)
    results = []
    for stages in ("1", "1-1-1"):
        project = pipeline.compile_model(tmp_path / "loop.onnx", tmp_path / stages, "--minibatch", BATCH, "--stages", stages, "--exact",
                                         "--schedule", "1f1b", "--optimizer", f"sgd,lr={RATE}", workers=len(stages.split("-")))
        assert not any("/gradient.1" in source.read_text() for source in project.glob("stage_*.cpp"))
        results.append(pipeline.train(project, tmp_path / f"run-{stages}", data=data, steps=1))
    one, three = results
    net = net.double()
    net.samples = BATCH
    torch.set_default_dtype(torch.float64)
    loss = loss_of(net, inputs)
    torch.set_default_dtype(torch.float32)
    loss.backward()
    assert one.losses[0] == pytest.approx(loss.item(), rel=1e-5) and one.losses == three.losses
    pipeline.expect_gradients(one, net, RATE)
    after, again = one.weights(), three.weights()
    for name, _ in net.named_parameters():
        assert numpy.array_equal(after[name], again[name]), name


@emulation.on_host
@pytest.mark.parametrize("cell,precision", [("LSTM", "bf16"), ("GRU", "fp16")])
def test_steps_on_gpus(cell, precision, models, tmp_path):
    """A step is a product and a kernel forward, backward and where the model is evaluated: what a longer sequence adds. Losses
    and updates are the CPU's, and the bits one stage's."""
    options = ["--minibatch", BATCH, "--microbatches", 2, "--optimizer", "sgd,lr=1", "--schedule", "1f1b"]
    calls = []
    for sequence in (SEQUENCE + 1, SEQUENCE):
        model = models("lstm", "--cell", cell, "--layers", 1, "--sequence", sequence)
        project = emulation.emit(model, tmp_path / f"{sequence}", *options, "--precision", precision)
        source = (project / "stage_0.cpp").read_text()
        calls.append(len(re.findall(r"^    \w+_\(run,", source, re.MULTILINE)))
    assert calls[0] - calls[1] == 3 * 2
    _, data = draw(tmp_path, 0)
    processor = pipeline.compile_model(model, tmp_path / "cpu", *options)
    expected = pipeline.train(processor, tmp_path / "expected", data=data, steps=3)
    one = emulation.train_on_host(project, tmp_path / "one", data=data, steps=3)
    two = emulation.train_on_host(emulation.emit(model, tmp_path / "two", *options, "--precision", precision, "--stages", "1-1", workers=2),
                                  tmp_path / "found", data=data, steps=3)
    rounding = {"bf16": 2 * 2**-8, "fp16": 2 * 2**-10}[precision]
    assert numpy.allclose(one.losses, expected.losses, rtol=rounding)
    before, found = safetensors.load(processor / "weights.safetensors"), one.weights()
    for name, after in expected.weights().items():
        assert numpy.linalg.norm(found[name] - after) <= rounding * numpy.linalg.norm(after - before[name]), name
    assert one.losses == two.losses


class Long(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = torch.nn.LSTM(4, 6, batch_first=True), torch.nn.Linear(6, 10)

    def forward(self, x):
        return self.last(self.cell(x)[0].mean(1))


def test_many_steps(tmp_path):
    """A kernel for all steps alike, whether their gates are kept or not, and functions of some hundred units each: what compilers take is not the square of the steps."""
    torch.manual_seed(3)
    net, x, labels = Long().train(), torch.randn(BATCH, 450, 4), torch.randint(0, 10, (BATCH,))
    torch.onnx.export(net, (x,), str(tmp_path / "long.onnx"), opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=["x"], output_names=["scores"], dynamic_axes={"x": {0: "N"}, "scores": {0: "N"}})
    project = pipeline.compile_model(tmp_path / "long.onnx", tmp_path / "project", "--minibatch", BATCH, "--optimizer", f"sgd,lr={RATE}")
    source = (project / "stage_0.cpp").read_text()
    members = re.findall(r"^  (?:cuda::)?(\w+) \w+;", source, re.M)
    assert members.count("LstmCell") == 2 and members.count("MatrixProduct") < 10
    assert all(f"void {function}(const Run &run) {{" in source for function in ("forward1", "forward3", "backward3", "evaluate2"))
    # What takes times on a GPU is declared where a task begins.
    pipeline.run(pipeline.BIN / "pdc-profile", tmp_path / "long.onnx", "--device", "cuda", "--minibatch", BATCH, "--sources",
                 tmp_path / "timed", "-o", tmp_path / "timed.json", check=False)
    assert not re.search(r"forward2|backward2", (tmp_path / "timed" / "stage_0.cpp").read_text())
    result = pipeline.train(project, tmp_path / "run", data=pipeline.save_inputs({"x": x, "labels": labels}, tmp_path), steps=1)
    net = net.double()
    loss = torch.nn.functional.cross_entropy(net(x.double()), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)
