"""Products of a weight's gradient that become one of stacked rows: against PyTorch, and where stages cut between what they read."""

import importlib
import re

import pytest
import torch

import export
import pipeline

BATCH, RATE, WIDTH = 8, 16.0, 64
S2VT = "--frames 4 --features 20 --words 4 --width 12 --hidden 16 --vocabulary 50 --dropout 0".split()


class TwoOrders(torch.nn.Module):
    """The forward pass stacks the factors of one weight's products in another order than those of the other's."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = (torch.nn.Linear(12, WIDTH) for _ in range(3))
        self.left, self.right = (torch.nn.Parameter(torch.randn(WIDTH + 1, WIDTH) / 8) for _ in range(2))
        self.last = torch.nn.Linear(WIDTH, 10)

    def forward(self, x):
        p, q, r, t = torch.tanh(self.a(x)), torch.tanh(self.b(x)), torch.sigmoid(self.c(x)), torch.relu(self.a(x) * 2)
        left, right = self.left[:WIDTH], self.right[:WIDTH]
        mean = (torch.cat([q, p]) * torch.cat([r, t])).mean(0)
        return self.last(torch.tanh(p @ left + r @ right) * torch.relu(q @ left + t @ right) + mean)


def test_orders(tmp_path):
    torch.manual_seed(3)
    net, x, labels = TwoOrders(), torch.randn(BATCH, 12), torch.randint(0, 10, (BATCH,))
    export.export(net, (12,), tmp_path / "orders.onnx")
    compiled = [pipeline.BIN / "pdc", tmp_path / "orders.onnx", "--gpus", 1, "--device", "cpu", "--minibatch", BATCH]
    graph = pipeline.run(*compiled, "--stop-after", "graph").stdout.split("@evaluate")[0]
    assert all(graph.count(f'pdc.node "Gemm" "/{name}/grad/Gemm"') == 1 for name in ("Slice", "Slice_1"))
    project = pipeline.compile_model(tmp_path / "orders.onnx", tmp_path / "project", "--minibatch", BATCH, "--microbatches", 1,
                                     "--optimizer", f"sgd,lr={RATE}")
    data = pipeline.save_inputs({"input": x, "labels": labels}, tmp_path)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    net.double()
    loss = torch.nn.functional.cross_entropy(net(x.double()), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


@pytest.mark.parametrize("schedule", ["pipedream", "1f1b"])
def test_cut_before_steps(schedule, models, tmp_path):
    """A stage ends behind the product that prepares all steps of a layer. Its gradient stacks those of the steps, which the next
    stage stacks again for its weight: it would otherwise be trained where the forward pass does not read it. One microbatch is
    trained with the first weights by asynchronous schedules, too."""
    options = ["--exact", "--minibatch", BATCH, "--microbatches", 1, "--optimizer", f"sgd,lr={RATE}", "--schedule", schedule]
    module, model, unsplit = importlib.import_module("s2vt"), models("s2vt", *S2VT), {}
    torch.manual_seed(5)
    data = pipeline.save_inputs(module.examples(export.options_of(module, ["-", *S2VT]), BATCH), tmp_path)
    one = pipeline.compile_model(model, tmp_path / "one", *options)
    nodes = pipeline.nodes_of(one)
    cut = pipeline.write_cut(nodes, nodes.index("/text/LSTM/Split") + 1, tmp_path / "stages.json")
    two = pipeline.compile_model(model, tmp_path / "two", *options, "--stages", cut, workers=2)
    program = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", *options, "--stages", cut, "--stop-after", "scheduled").stdout
    assert re.search(r'pdc.unit "[^"]*Concat[^"]*stage1"', program)
    for project in (one, two):
        result = pipeline.train(project, project / "run", data=data, steps=1)
        pipeline.expect_same_bits(result, unsplit, schedule)
