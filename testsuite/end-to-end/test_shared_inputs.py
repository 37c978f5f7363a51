"""Inputs without a row for each sample, which are the same for all of them, against PyTorch over some steps."""

import json
import re

import numpy
import onnx
import onnx.numpy_helper
import pytest
import torch
from torch.nn.functional import cross_entropy

import pipeline

SAMPLES, LENGTH, WIDTH, CLASSES, STEPS, RATE = 24, 4, 8, 4, 5, 0.2


class Network(torch.nn.Module):
    """The first stage reads `positions`, whose one row stands before the samples, the second `table`, from which it computes what no
    weight changes, and both read one number."""

    def __init__(self):
        super().__init__()
        self.words, self.places = torch.nn.Embedding(20, WIDTH), torch.nn.Embedding(LENGTH + 3, WIDTH)
        self.first, self.last = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, CLASSES)

    def forward(self, positions, tokens, table, scale):
        x = torch.tanh(self.first(self.words(tokens) * scale + self.places(positions)))
        return self.last((x * scale + torch.sin(table) @ torch.cos(table).T @ x).mean(1))


def draw(folder):
    torch.manual_seed(4)
    net = Network()
    shared = {"positions": torch.randperm(LENGTH + 3)[:LENGTH][None], "table": torch.randn(LENGTH, 3), "scale": torch.tensor(0.7)}
    tokens, labels = torch.randint(0, 20, (SAMPLES, LENGTH)), torch.randint(0, CLASSES, (SAMPLES,))
    torch.onnx.export(net, (shared["positions"], tokens[:2], shared["table"], shared["scale"]), str(folder / "net.onnx"), opset_version=17,
                      do_constant_folding=False, input_names=["positions", "tokens", "table", "scale"], output_names=["y"],
                      dynamic_axes={"tokens": {0: "batch"}, "y": {0: "batch"}})
    return net.double(), shared, tokens, labels


def loss_of(net, shared, tokens, labels):
    double = {name: value.double() if value.is_floating_point() else value for name, value in shared.items()}
    return cross_entropy(net(double["positions"], tokens, double["table"], double["scale"]), labels)


def compile_network(folder, *options, workers=1):
    return pipeline.compile_model(folder / "net.onnx", folder / "project", "--minibatch", 8, "--optimizer", f"sgd,lr={RATE}", *options,
                                  workers=workers)


# A microbatch of one sample has as many rows as `positions`, one of four as many as `table`.
@pytest.mark.parametrize("stages,schedule,microbatches", [("1", "1f1b", 1), ("1-1", "1f1b", 2), ("1-1", "zb-h1", 8), ("2-1", "gpipe", 2)])
def test_against_pytorch(stages, schedule, microbatches, tmp_path):
    net, shared, tokens, labels = draw(tmp_path)
    project = compile_network(tmp_path, "--stages", stages, "--schedule", schedule, "--microbatches", microbatches,
                              workers=sum(map(int, stages.split("-"))))
    data = pipeline.save_inputs(shared | {"tokens": tokens, "labels": labels}, tmp_path / "data")
    part = slice(0, 21)
    unseen = pipeline.save_inputs({"tokens": tokens[part].flip(1), "labels": labels[part]}, tmp_path / "unseen")
    run = pipeline.train(project, tmp_path / "run", "--order", "file", *[word for entry in unseen for word in ("--eval-data", entry)],
                         data=data, steps=STEPS)
    losses, optimizer = [], torch.optim.SGD(net.parameters(), RATE)
    for step in range(STEPS):
        here = slice(step * 8 % SAMPLES, step * 8 % SAMPLES + 8)
        optimizer.zero_grad()
        loss = loss_of(net, shared, tokens[here], labels[here])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)
    found = run.weights()
    for name, tensor in net.state_dict().items():
        numpy.testing.assert_allclose(found[name], tensor.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)
    evaluation = [record["evaluation_loss"] for record in run.records if "evaluation_loss" in record][-1]
    assert evaluation == pytest.approx(loss_of(net, shared, tokens[part].flip(1), labels[part]).item(), rel=1e-5)


@pytest.mark.parametrize("schedule,stages", [("pipedream", "2-1"), ("2bw", "1-1"), ("1f1b", "1-2")])
def test_same_as_constants(schedule, stages, tmp_path):
    """Of versions of weights and of replicas; and after a checkpoint."""
    _, shared, tokens, labels = draw(tmp_path)
    model = onnx.load(tmp_path / "net.onnx")
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value.numpy(), name) for name, value in shared.items())
    onnx.save(model, tmp_path / "constants.onnx")
    losses = []
    for name, inputs, options in (("net", shared, []), ("constants", {}, ["--freeze", "table", "--freeze", "scale"])):
        project = pipeline.compile_model(tmp_path / f"{name}.onnx", tmp_path / name, "--minibatch", 8, "--optimizer", f"sgd,lr={RATE}",
                                         "--schedule", schedule, "--stages", stages, *options, workers=sum(map(int, stages.split("-"))))
        data = pipeline.save_inputs(inputs | {"tokens": tokens, "labels": labels}, tmp_path / f"{name}-data")
        first = pipeline.train(project, tmp_path / f"{name}-1", data=data, steps=3)
        second = pipeline.train(project, tmp_path / f"{name}-2", "--resume", first.checkpoint, data=data, steps=6)
        losses.append(first.losses + second.losses)
    assert len(losses[0]) >= 6 and losses[0] == pytest.approx(losses[1], rel=1e-5)


class GraphNetwork(torch.nn.Module):
    """Each node sums what the edges into it bring."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(5, WIDTH), torch.nn.Linear(WIDTH, CLASSES)

    def sums(self, x, edges):
        sources, targets = edges
        return torch.zeros_like(x).scatter_add(0, targets[:, None].expand(-1, x.shape[1]), x[sources])

    def forward(self, x, edges):
        return self.last(self.sums(torch.relu(self.sums(self.first(x), edges)), edges))


class ConvolvedGraph(GraphNetwork):
    """As PyTorch Geometric's GCNConv is by default: each node has an edge to itself, and those that the data have count once; edges
    weigh by how many there are at both of their ends. The older exporter slices what a scatter puts to as many rows as there are
    indices, which data select."""

    def sums(self, x, edges):
        kept, nodes = edges[0] != edges[1], x.shape[0]
        own = torch.arange(nodes).unsqueeze(0).repeat(2, 1)
        sources, targets = torch.cat([edges[:, kept], own], 1)
        ones = torch.ones(targets.shape[0], dtype=x.dtype)
        ends = torch.zeros(nodes, dtype=x.dtype).scatter_add(0, targets, ones[:targets.shape[0]]).pow(-0.5)
        weights = ends[sources] * ends[targets]
        sent = weights[:, None] * x[sources]
        return torch.zeros_like(x).scatter_add(0, targets[:, None].expand(-1, x.shape[1]), sent)


@pytest.mark.parametrize("stages", ["1", "1-1"])
@pytest.mark.parametrize("kind", [GraphNetwork, ConvolvedGraph])
def test_edges_of_a_graph(kind, stages, tmp_path):
    """Its nodes are the samples, all of them one microbatch, which nothing shuffles."""
    torch.manual_seed(5)
    net, nodes = kind(), 12
    x, edges, labels = torch.randn(nodes, 5), torch.randint(0, nodes, (2, 40)), torch.randint(0, CLASSES, (nodes,))
    edges[1, ::7] = edges[0, ::7]
    torch.onnx.export(net, (x, edges), str(tmp_path / "net.onnx"), opset_version=17, input_names=["x", "edges"], output_names=["y"])
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--optimizer", f"sgd,lr={RATE}", "--stages", stages,
                                     "--microbatches", 1, workers=len(stages.split("-")))
    data = pipeline.save_inputs({"x": x, "edges": edges, "labels": labels}, tmp_path / "data")
    run = pipeline.train(project, tmp_path / "run", data=data, steps=STEPS)
    losses, optimizer = [], torch.optim.SGD(net.double().parameters(), RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = cross_entropy(net(x.double(), edges), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert run.losses == pytest.approx(losses, rel=1e-5)


@pytest.mark.processor
def test_what_is_said(tmp_path):
    draw(tmp_path)
    said = pipeline.run(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", 8, "-o",
                        tmp_path / "project").stdout
    assert re.findall("^note: input .*", said, re.M) == [
        f"note: input '{name}' {kind} has no row for each sample: its data are the same for all"
        for name, kind in (("positions", "i64[1,4]"), ("table", "f32[4,3]"), ("scale", "f32[]"))]


@pytest.mark.processor
def test_is_measured(tmp_path):
    draw(tmp_path)
    pipeline.run(pipeline.BIN / "pdc-profile", tmp_path / "net.onnx", "--device", "cpu", "--minibatch", 8, "-o", tmp_path / "profile.json")
    measured = json.loads((tmp_path / "profile.json").read_text())["units"]
    assert {"/Mul+/Add", "/MatMul_1", "/Tanh"} <= {unit["name"] for unit in measured}


@pytest.mark.processor
def test_what_is_refused(tmp_path):
    _, shared, tokens, labels = draw(tmp_path)
    project = compile_network(tmp_path, "--stages", "1-1", workers=2)
    given = shared | {"tokens": tokens, "labels": labels}

    def refusal(changes, *options, left_out=()):
        kept = {name: value for name, value in (given | changes).items() if name not in left_out}
        data = pipeline.save_inputs(kept, tmp_path / "data")
        run = pipeline.train(project, tmp_path / "run", *options, data=data, steps=1, check=False)
        assert run.returncode == 1
        return run.stderr

    assert "table.npy: holds [24x3] and input 'table', which is the same for all samples, takes [4x3]; only dimensions of size 1 may " \
           "differ\n" in refusal({"table": torch.zeros(24, 3)})
    assert "error: input 'table' [4x3] has no data; give --data table=FILE\n" in refusal({}, left_out=["table"])
    assert "scale.npy: input 'scale' holds at element 0 nan, expected a number" in refusal({"scale": torch.tensor(float("nan"))})
    assert "positions.npy: input 'positions' holds 70, expected" in refusal({"positions": torch.full((1, LENGTH), 70)})
    evaluation = [word for entry in pipeline.save_inputs({"tokens": tokens, "labels": labels, "table": shared["table"]}, tmp_path / "unseen")
                  for word in ("--eval-data", entry)]
    assert "input 'table' is the same for all samples, and --data gives it; leave it out here\n" in refusal({}, *evaluation)


class Weighed(torch.nn.Module):
    """A loss of classes of which data say the weights, and of labels that are counted from another number."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, CLASSES)

    def forward(self, x, labels, weights, offset):
        return cross_entropy(self.layer(x), (labels + offset) % CLASSES, weights)


def test_weights_of_classes(tmp_path):
    torch.manual_seed(6)
    net = Weighed()
    given = {"x": torch.randn(8, 3), "labels": torch.randint(0, CLASSES, (8,)), "weights": torch.rand(CLASSES) + 0.5, "offset": torch.tensor(3)}
    torch.onnx.export(net, tuple(given.values()), str(tmp_path / "net.onnx"), opset_version=17, input_names=list(given), output_names=["loss"],
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      dynamic_axes={"x": {0: "batch"}, "labels": {0: "batch"}})
    project = compile_network(tmp_path, "--microbatches", 2)
    run = pipeline.train(project, tmp_path / "run", "--order", "file", data=pipeline.save_inputs(given, tmp_path / "data"), steps=1)
    net = net.double()
    expected = net(given["x"].double(), given["labels"], given["weights"].double(), given["offset"])
    expected.backward()
    assert run.losses[0] == pytest.approx(expected.item(), rel=1e-5)
    pipeline.expect_gradients(run, net, RATE)


@pytest.mark.processor
def test_labels_have_a_row_for_each_sample(tmp_path):
    class Mean(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 5)

        def forward(self, x, labels):
            return cross_entropy(self.layer(x).mean(0), labels)

    torch.onnx.export(Mean(), (torch.randn(4, 6, 3), torch.zeros(6, dtype=torch.int64)), str(tmp_path / "net.onnx"), opset_version=17,
                      input_names=["x", "labels"], output_names=["loss"], training=torch.onnx.TrainingMode.TRAINING)
    run = pipeline.run(pipeline.BIN / "pdc", tmp_path / "net.onnx", "--gpus", 1, "--device", "cpu", "-o", tmp_path / "project", check=False)
    assert run.returncode == 1
    assert "error: labels 'labels' i64[6]: the first dimension is not the 4 samples of a microbatch; " in run.stderr
