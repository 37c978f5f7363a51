"""Values that gradients do not go back through, as PyTorch's exporter of torch.export says them, against PyTorch."""

import onnx
import torch

import export
from test_pytorch import check_gradients

# What is compared with PyTorch here and stands for a detach.
STOPPING = {"pdc.StopGradient"}


class Stop(torch.autograd.Function):
    """A detach that the older exporter writes, too: as an Identity."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return torch.zeros_like(gradient)

    @staticmethod
    def symbolic(graph, x):
        return graph.op("Identity", x)


class Quantised(torch.nn.Module):
    """What is decoded is the nearest row of a table, and its gradient goes to what was encoded."""

    def __init__(self):
        super().__init__()
        self.encoder, self.book, self.decoder = torch.nn.Linear(12, 8), torch.nn.Embedding(9, 8), torch.nn.Linear(8, 10)

    def forward(self, x):
        encoded = torch.tanh(self.encoder(x))
        table = self.book.weight
        nearest = self.book((table.pow(2).sum(1) - 2 * encoded @ table.t()).argmin(1))
        distance = (nearest - Stop.apply(encoded)).pow(2).sum(1, keepdim=True)
        return self.decoder(encoded + Stop.apply(nearest - encoded)) + torch.nn.functional.pad(distance, (0, 9))


def say(node, function, arguments):
    """Field 9 of a node, its metadata, which onnx 1.12 does not know."""
    entry = onnx.StringStringEntryProto(key="pkg.torch.onnx.fx_node", value=f"%value : [num_users=1] = call_function[target=torch.ops.aten."
                                        f"{function}](args = ({arguments}), kwargs = {{}})").SerializeToString()
    node.MergeFromString(bytes([9 << 3 | 2, len(entry) & 127 | 128, len(entry) >> 7]) + entry)


def test_straight_through(tmp_path):
    torch.manual_seed(1)
    net = Quantised().train()
    export.export(net, (12,), tmp_path / "quantised.onnx")
    model = onnx.load(tmp_path / "quantised.onnx")
    stops = [node for node in model.graph.node if node.op_type == "Identity"]
    assert len(stops) == 2
    for node in stops:
        say(node, "detach.default", "%sub_1,")
    onnx.save(model, tmp_path / "quantised.onnx")
    check_gradients(net, tmp_path / "quantised.onnx", (12,), 6, False, tmp_path, 3)


class Padded(torch.nn.Module):
    """The table's row 3 is for padding."""

    def __init__(self):
        super().__init__()
        self.table, self.last = torch.nn.Embedding(6, 8, padding_idx=3), torch.nn.Linear(96, 10)

    def forward(self, x):
        return self.last(self.table((x > 0).long() * 3 + (x > 1).long()).flatten(1))


def test_padding_row(tmp_path):
    torch.manual_seed(1)
    net = Padded().train()
    export.export(net, (12,), tmp_path / "padded.onnx")
    model = onnx.load(tmp_path / "padded.onnx")
    gather, = (node for node in model.graph.node if node.op_type == "Gather")
    say(gather, "embedding.default", "%p_table_weight, %add, 3")
    onnx.save(model, tmp_path / "padded.onnx")
    check_gradients(net, tmp_path / "padded.onnx", (12,), 6, False, tmp_path, 2)
