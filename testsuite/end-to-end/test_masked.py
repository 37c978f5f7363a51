"""What is put at the places of a mask, or of indices, which only data tell, against PyTorch."""

import math
import re

import onnx
import pytest
import torch

import pipeline
from test_control_flow import BATCH, check_step

IMAGE = 9


class Images(torch.nn.Module):
    """Rows of images stand where their tokens are, as in models of vision and language."""

    def __init__(self):
        super().__init__()
        self.words, self.rows, self.leave = torch.nn.Embedding(10, 8), torch.nn.Linear(6, 8), torch.nn.Linear(8, 10)

    def forward(self, words, images):
        found = self.words(words)
        places = (words == IMAGE).unsqueeze(-1).expand_as(found)
        return self.leave(torch.tanh(found.masked_scatter(places, self.rows(images))).sum(1))


class Padded(torch.nn.Module):
    """Attention by hand, as tutorials write it: a number stands, or is added, where a word is padding, or comes later."""

    def __init__(self, hides_by, is_causal, adds=False):
        super().__init__()
        self.words, self.qkv, self.leave = torch.nn.Embedding(12, 16), torch.nn.Linear(16, 48), torch.nn.Linear(16, 10)
        self.hides_by, self.is_causal, self.adds = hides_by, is_causal, adds

    def forward(self, words):
        rows = words.shape[1]
        q, k, v = (part.view(-1, rows, 2, 8).transpose(1, 2) for part in self.qkv(self.words(words)).chunk(3, -1))
        hidden = (words == 0).view(-1, 1, 1, rows)
        if self.is_causal:
            hidden = hidden | torch.ones(rows, rows, dtype=torch.bool).triu(1)
        scores = q @ k.transpose(-2, -1) / 8**0.5
        shares = (scores + hidden.float() * self.hides_by if self.adds else scores.masked_fill(hidden, self.hides_by)).softmax(-1)
        return self.leave((shares @ v).transpose(1, 2).reshape(-1, rows, 16).sum(1))


def check_padded(net, words, tmp_path):
    model = tmp_path / "padded.onnx"
    torch.onnx.export(net, (words,), str(model), opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=["words"], output_names=["scores"],
                      dynamic_axes={"words": {0: "batch"}, "scores": {0: "batch"}})
    graph = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 1, "--minibatch", BATCH, "--stop-after", "graph").stdout
    assert graph.split("@evaluate")[0].count('pdc.node "SoftmaxAttention"') == 1
    check_step(net, model, {"words": words}, tmp_path)


@pytest.mark.parametrize("hides_by, is_causal", [(-1e9, False), (-1e9, True), (-math.inf, False), (-math.inf, True)])
def test_padding_is_hidden(hides_by, is_causal, tmp_path):
    """Where a finite number hides, even from rows that see no other word: they have equal shares of all."""
    torch.manual_seed(2)
    words = torch.randint(0, 12, (BATCH, 6))
    if hides_by == -math.inf:
        words[:, 0] = 1
    else:
        words[0] = 0
        words[1, :2] = 0
    check_padded(Padded(hides_by, is_causal).train(), words, tmp_path)


@pytest.mark.parametrize("hides_by", [-1e4, -1e9, -3.4e38])
def test_padding_is_hidden_by_what_is_added(hides_by, tmp_path):
    """All of a sample, too: beside such a number there is no room for the logarithm of a row's sum, by which shares are computed again.
    cuDNN's attention, of 16 bits, keeps one number a row, too: there the gradients of such rows are those of shares that add up to more."""
    torch.manual_seed(2)
    words = torch.randint(0, 12, (BATCH, 6))
    words[0] = 0
    words[1, :2] = 0
    check_padded(Padded(hides_by, False, adds=True).train(), words, tmp_path)


class Counted(torch.nn.Module):
    """Products of whole numbers, as BigBird makes masks of pairs of masks, and sums of these, which no float of 32 bits holds."""

    def __init__(self):
        super().__init__()
        self.words, self.leave = torch.nn.Embedding(12, 8), torch.nn.Linear(8, 10)

    def forward(self, words):
        seen = (words != 0).long()
        pairs = torch.einsum("bq,bk->bqk", seen, seen)
        far = torch.matmul(pairs * 16777217, pairs) - 16777216 * torch.einsum("bij,bjk->bik", pairs, pairs)
        return self.leave(torch.matmul(far.to(self.leave.weight.dtype) / 6, torch.tanh(self.words(words))).sum(1))


def test_products_of_whole_numbers(tmp_path):
    torch.manual_seed(2)
    words = torch.randint(0, 12, (BATCH, 6))
    words[:, 2] = 0
    net, model = Counted().train(), tmp_path / "counted.onnx"
    torch.onnx.export(net, (words,), str(model), opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=["words"], output_names=["scores"],
                      dynamic_axes={"words": {0: "batch"}, "scores": {0: "batch"}})
    assert {"Einsum", "MatMul"} <= {node.op_type for node in onnx.load(model).graph.node}
    check_step(net, model, {"words": words}, tmp_path)


def test_images_among_words(tmp_path):
    torch.manual_seed(1)
    words = torch.randint(0, IMAGE, (BATCH, 6))
    for line in words:
        line[torch.randperm(6)[:2]] = IMAGE
    net, inputs = Images().train(), {"words": words, "images": torch.randn(BATCH, 2, 6)}
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "images.onnx"), opset_version=17,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=list(inputs),
                      output_names=["scores"], dynamic_axes={name: {0: "batch"} for name in inputs})
    assert "NonZero" in [node.op_type for node in onnx.load(tmp_path / "images.onnx").graph.node]
    check_step(net, tmp_path / "images.onnx", inputs, tmp_path)


class Messages(torch.nn.Module):
    """A graph network by hand: each edge reads the rows of two nodes, and adds to one of them."""

    def __init__(self):
        super().__init__()
        self.enter, self.message, self.leave = torch.nn.Linear(5, 8), torch.nn.Linear(16, 8), torch.nn.Linear(8, 10)

    def forward(self, nodes, sources, targets):
        x = self.enter(nodes)
        rows = lambda index: index.unsqueeze(-1).expand(-1, -1, 8)
        ends = [x.gather(1, rows(sources)), x.gather(1, rows(targets))]
        x = torch.zeros_like(x).scatter_add(1, rows(targets), torch.relu(self.message(torch.cat(ends, -1)))) + x
        # Of rows that all samples share, and of single elements.
        x = x + self.enter.weight.t().gather(0, (targets % 5)[:, :1].expand(-1, 8)).unsqueeze(1)
        return self.leave(x.gather(2, rows(sources)[:, :6] % 8).sum(1))


def test_messages_along_edges(tmp_path):
    """Indices that are repeated for all elements of a row name it as a whole: nothing is read or sorted by the element."""
    torch.manual_seed(1)
    inputs = {"nodes": torch.randn(BATCH, 6, 5), "sources": torch.randint(0, 6, (BATCH, 9)), "targets": torch.randint(0, 6, (BATCH, 9))}
    net, model = Messages().train(), tmp_path / "messages.onnx"
    torch.onnx.export(net, tuple(inputs.values()), str(model), opset_version=16, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=list(inputs), output_names=["scores"],
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    graph = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 1, "--minibatch", BATCH, "--stop-after", "graph").stdout.split("@evaluate")[0]
    gathered = [line for line in graph.splitlines() if 'pdc.node "Gather" ' in line]
    # The third is the gradient of the sums.
    assert sum(f"tensor<{6 * BATCH}x8xf32>, tensor<{BATCH}x9xi64>" in line for line in gathered) == 3
    assert sum(f"tensor<5x8xf32>, tensor<{BATCH}xi64>" in line for line in gathered) == 1
    assert len(gathered) == 5
    check_step(net, model, inputs, tmp_path)


class Neighbours(torch.nn.Module):
    """Points and the three nearest of each, twice: with features behind the points, and before them."""

    def __init__(self):
        super().__init__()
        self.enter, self.edge, self.leave = torch.nn.Linear(3, 8), torch.nn.Conv2d(16, 6, 1), torch.nn.Linear(14, 10)

    def forward(self, points):
        count, x = points.shape[1], self.enter(points)
        near = ((points[:, :, None] - points[:, None]) ** 2).sum(-1).topk(3, -1, largest=False).indices
        rows = x[:, None].expand(-1, count, -1, -1).gather(2, near[..., None].expand(-1, -1, -1, 8))
        first = x.transpose(1, 2)
        columns = first[:, :, None].expand(-1, -1, count, -1).gather(3, near[:, None].expand(-1, 8, -1, -1))
        edges = self.edge(torch.cat([columns - first[..., None], columns], 1)).amax(3)
        return self.leave(torch.cat([torch.tanh(rows - x[:, :, None]).sum(2), edges.transpose(1, 2)], -1).mean(1))


def test_neighbours(tmp_path):
    """What is repeated for each point to read its neighbours from is read where it lies: no tensor has all pairs' features."""
    torch.manual_seed(2)
    inputs = {"points": torch.randn(BATCH, 7, 3)}
    net, model = Neighbours().train(), tmp_path / "neighbours.onnx"
    torch.onnx.export(net, tuple(inputs.values()), str(model), opset_version=17, training=torch.onnx.TrainingMode.TRAINING,
                      do_constant_folding=False, input_names=list(inputs), output_names=["scores"],
                      dynamic_axes={name: {0: "batch"} for name in inputs})
    graph = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 1, "--minibatch", BATCH, "--stop-after", "graph").stdout
    assert f"tensor<{7 * BATCH}x8xf32>, tensor<{BATCH}x7x3xi64>" in graph
    assert f"tensor<{7 * 8 * BATCH}xf32>, tensor<{BATCH}x8x7x3xi64>" in graph
    assert not re.search(rf"tensor<({BATCH}x7x7x8|{BATCH}x8x7x7|{BATCH * 7 * 7 * 8})xf32>", graph)
    check_step(net, model, inputs, tmp_path)
