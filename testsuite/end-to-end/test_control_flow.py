"""Ifs and Loops of exported networks against PyTorch."""

from typing import List

import numpy
import onnx
import onnx.parser
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper

import pipeline

BATCH, RATE = 8, 64.0
# What is compared with PyTorch here, in test_masked.py and in test_selected_rows.py, and stands for other nodes.
COMPOSED = {"pdc.EmbeddingBag", "pdc.MaskedScatter", "pdc.SelectedPlaces", "pdc.SelectedRows"}


def check_step(net, model, inputs, tmp_path):
    """One update of two stages and two microbatches; names of weights are PyTorch's."""
    labels = torch.randint(0, 10, (BATCH,))
    data = pipeline.save_inputs({**inputs, "labels": labels}, tmp_path)
    project = pipeline.compile_model(model, tmp_path / "project", "--minibatch", BATCH, "--microbatches", 2, "--optimizer",
                                     f"sgd,lr={RATE}", "--stages", "1-1", workers=2)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    net = net.double()
    loss = torch.nn.functional.cross_entropy(
        net(*(value.double() if value.is_floating_point() else value for value in inputs.values())), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


class Recommendation(torch.nn.Module):
    """Bags of embeddings beside numbers, as DLRM has them."""

    def __init__(self, mode):
        super().__init__()
        self.bags = torch.nn.ModuleList(torch.nn.EmbeddingBag(rows, 16, mode=mode) for rows in (20, 30))
        self.bottom, self.top = torch.nn.Linear(5, 16), torch.nn.Linear(48, 10)

    def forward(self, numbers, first, second, weights=None):
        kinds = [self.bags[0](first), self.bags[1](second, per_sample_weights=weights)]
        return self.top(torch.relu(torch.cat([self.bottom(numbers), *kinds], 1)))


@pytest.mark.parametrize("mode, weighted, opset", [("sum", False, 17), ("sum", True, 13), ("mean", False, 11), ("max", False, 15)])
def test_embedding_bags(mode, weighted, opset, tmp_path):
    """The exporter writes a Loop over the bags, as many as samples: a dimension that has a name."""
    torch.manual_seed(1)
    net = Recommendation(mode).train()
    inputs = {"numbers": torch.randn(BATCH, 5), "first": torch.randint(0, 20, (BATCH, 3)),
              "second": torch.randint(0, 30, (BATCH, 4))}
    if weighted:
        inputs["weights"] = torch.rand(BATCH, 4)
    torch.onnx.export(net, tuple(inputs.values()), str(tmp_path / "bags.onnx"), opset_version=opset,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=list(inputs),
                      output_names=["scores"], dynamic_axes={name: {0: "batch"} for name in inputs})
    assert "Loop" in [node.op_type for node in onnx.load(tmp_path / "bags.onnx").graph.node]
    check_step(net, tmp_path / "bags.onnx", inputs, tmp_path)


REDUCTIONS = {"sum": "row = ReduceSum(found, zeros)", "max": "row = ReduceMax(found, zeros)",
              "mean": """last = Sub(count, one)
                is_last = Equal(i, last)
                row = If(is_last) <then_branch = end () => (mean) {
                    sum = ReduceSum(found, zeros)
                    size = Sub(count_of_rows, start)
                    zero = Constant<value = int64 {0}>()
                    has = Greater(size, zero)
                    mean = If(has) <then_branch = some () => (quotient) {
                        divisor = CastLike(size, sum)
                        quotient = Div(sum, divisor)
                    }, else_branch = none () => (same) { same = Identity(sum) }>
                }, else_branch = middle () => (mean2) { mean2 = ReduceMean(found, zeros) }>"""}


def appended_bags(mode):
    """A Loop over bags whose rows are found before it, as PyTorch's newer exporter writes EmbeddingBag."""
    network = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 18]>
        net (int64[batch, 4] picked, float[batch, 4] weights) => (float[batch, 10] scores) {
            flat = Constant<value_ints = [-1]>()
            one = Constant<value = int64 {1}>()
            two = Constant<value = int64 {2}>()
            first = Constant<value = int64 {0}>()
            zeros = Constant<value = int64[1] {0}>()
            ones = Constant<value = int64[1] {1}>()
            four = Constant<value = int64 {4}>()
            names = Reshape(picked, flat)
            factors = Reshape(weights, flat)
            found_rows = Gather(bags_weight, names)
            column = Unsqueeze(factors, ones)
            rows = Mul(found_rows, column)
            count_of_rows = Shape(names)
            all = Size(names)
            starts = Range(first, all, four)
            offsets = Concat<axis = 0>(starts, count_of_rows)
            count = Size(starts)
            goes_on = Less(first, count)
            none = SequenceEmpty()
            listed, counted = Loop(endless, goes_on, none, first) <body = bag
                (int64 iteration, bool before, list, int64 i) => (again, longer, next) {
                    at = Reshape(i, flat)
                    begin = Add(at, one)
                    start = Slice(offsets, at, begin)
                    begin2 = Add(at, one)
                    behind = Add(at, two)
                    end = Slice(offsets, begin2, behind)
                    is_empty = Equal(start, end)
                    appended = If(is_empty) <then_branch = empty () => (nothing) {
                        filler = Constant<value_floats = [0.0]>()
                        width = Constant<value_ints = [1, 16]>()
                        nothing = Expand(filler, width)
                    }, else_branch = full () => (row) {
                        found = Slice(rows, start, end)
                        REDUCTION
                    }>
                    longer = SequenceInsert(list, appended)
                    next = Add(i, one)
                    again = Less(next, count)
                }>
            kinds = ConcatFromSequence<axis = 0>(listed)
            scores = Gemm<transB = 1>(kinds, top_weight, top_bias)
        }""".replace("REDUCTION", REDUCTIONS[mode]))
    for node in network.graph.node:
        node.input[:] = [name.replace("_weight", ".weight").replace("_bias", ".bias").replace("endless", "") for name in node.input]
    return network


class WeightedBags(torch.nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.mode, self.bags, self.top = mode, torch.nn.Embedding(30, 16), torch.nn.Linear(16, 10)

    def forward(self, picked, weights):
        rows = self.bags(picked) * weights[:, :, None]
        kinds = rows.sum(1) if self.mode == "sum" else rows.mean(1) if self.mode == "mean" else rows.max(1)[0]
        return self.top(kinds)


@pytest.mark.parametrize("mode", REDUCTIONS)
def test_appended_bags(mode, tmp_path):
    torch.manual_seed(1)
    net, network = WeightedBags(mode).train(), appended_bags(mode)
    network.graph.initializer.extend(numpy_helper.from_array(value.detach().numpy(), name)
                                     for name, value in net.named_parameters())
    onnx.save(network, tmp_path / "bags.onnx")
    inputs = {"picked": torch.randint(0, 30, (BATCH, 4)), "weights": torch.rand(BATCH, 4)}
    check_step(net, tmp_path / "bags.onnx", inputs, tmp_path)


class Steps(torch.nn.Module):
    """Steps that a script writes, which appends to a list."""

    def __init__(self):
        super().__init__()
        self.enter, self.stay, self.leave = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 10)

    def forward(self, x):
        states: List[torch.Tensor] = []
        state = torch.zeros(x.size(0), 8, dtype=x.dtype)
        for step in range(x.size(1)):
            state = torch.tanh(self.enter(x[:, step]) + self.stay(state))
            states.append(state)
        return self.leave(torch.stack(states, 1).max(1)[0])


def test_lists_of_loops(tmp_path):
    torch.manual_seed(1)
    net, inputs = Steps().train(), {"x": torch.randn(BATCH, 5, 6)}
    torch.onnx.export(torch.jit.script(net), tuple(inputs.values()), str(tmp_path / "steps.onnx"), opset_version=13,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["x"],
                      output_names=["scores"], dynamic_axes={"x": {0: "batch"}})
    assert {"Loop", "SequenceEmpty"} <= {node.op_type for node in onnx.load(tmp_path / "steps.onnx").graph.node}
    check_step(net, tmp_path / "steps.onnx", inputs, tmp_path)


class Cells(torch.nn.Module):
    """A cell along the steps, and one from the last step to the first that reads what the other made."""

    def __init__(self):
        super().__init__()
        self.enter, self.stay, self.back, self.leave = (torch.nn.Linear(*sizes) for sizes in ((6, 8), (8, 8), (8, 8), (8, 10)))

    def forward(self, x):
        state, states, total = x.new_zeros(len(x), 8), [], x.new_zeros(len(x), 8)
        for step in x.unbind(1):
            state = torch.tanh(self.enter(step) + self.stay(state))
            states.append(state)
        rows = []
        for row in reversed(states):
            total = torch.sigmoid(self.back(row) * total)
            rows.insert(0, total)
        return self.leave((torch.stack(rows) * torch.stack(states)).sum(0) + total)


def scanned_cells():
    """Cells as two Scans, which stack their rows along the batch's axis and the first one."""
    def scan(inputs, outputs, body, **attributes):
        return helper.make_node("Scan", inputs, outputs, body=body, num_scan_inputs=1, **attributes)

    def value(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    layer = lambda x, y, name: helper.make_node("Gemm", [x, f"{name}.weight", f"{name}.bias"], [y], transB=1)
    node = lambda op, *names: helper.make_node(op, names[:-1], names[-1:])
    first = helper.make_graph(
        [layer("step", "entered", "enter"), layer("state", "stayed", "stay"), node("Add", "entered", "stayed", "sum"),
         node("Tanh", "sum", "next"), node("Identity", "next", "row")],
        "first", [value("state", "batch", 8), value("step", "batch", 6)], [value("next", "batch", 8), value("row", "batch", 8)])
    second = helper.make_graph(
        [layer("element", "turned", "back"), node("Mul", "turned", "total", "product"), node("Sigmoid", "product", "more"),
         node("Identity", "more", "line")],
        "second", [value("total", "batch", 8), value("element", "batch", 8)], [value("more", "batch", 8), value("line", "batch", 8)])
    nodes = [node("Slice", "x", "zero", "one", "one", "columns"), helper.make_node("ReduceSum", ["columns", "one"], ["flat"], keepdims=0),
             node("Mul", "flat", "nothing", "zeros"), node("MatMul", "zeros", "ones", "start"),
             scan(["start", "x"], ["end", "states"], first, scan_input_axes=[1], scan_output_axes=[1]),
             scan(["start", "states"], ["all", "rows"], second, scan_input_axes=[1], scan_input_directions=[1],
                  scan_output_directions=[1]),
             helper.make_node("Transpose", ["states"], ["by step"], perm=[1, 0, 2]), node("Mul", "rows", "by step", "products"),
             helper.make_node("ReduceSum", ["products", "zero"], ["summed"], keepdims=0), node("Add", "summed", "all", "last"),
             layer("last", "scores", "leave")]
    constants = {"zero": numpy.array([0]), "one": numpy.array([1]), "nothing": numpy.zeros(1, numpy.float32),
                 "ones": numpy.ones((6, 8), numpy.float32)}
    return helper.make_graph(nodes, "cells", [value("x", "batch", 5, 6)], [value("scores", "batch", 10)],
                             [numpy_helper.from_array(tensor, name) for name, tensor in constants.items()])


def test_scans(tmp_path):
    torch.manual_seed(1)
    net, graph = Cells().train(), scanned_cells()
    graph.initializer.extend(numpy_helper.from_array(tensor.detach().numpy(), name) for name, tensor in net.named_parameters())
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "cells.onnx")
    check_step(net, tmp_path / "cells.onnx", {"x": torch.randn(BATCH, 5, 6)}, tmp_path)


def test_weights_of_branches(tmp_path):
    """Initializers of the branch that is taken are trained; the other one may be of operators that nobody knows."""
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))
    weights = {name: numpy_helper.from_array(value.detach().numpy(), name) for name, value in net.named_parameters()}
    layer = lambda x, y, place: helper.make_node("Gemm", [x, f"{place}.weight", f"{place}.bias"], [y], transB=1)
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["batch", 16])
    known = helper.make_graph([layer("x", "product", 0), helper.make_node("Relu", ["product"], ["rows"])], "known", [], [rows],
                              [weights["0.weight"], weights["0.bias"]])
    unknown = helper.make_graph([helper.make_node("Mystery", ["x"], ["rows"], domain="vendor")], "unknown", [], [rows])
    nodes = [helper.make_node("Shape", ["x"], ["shape"]), helper.make_node("Constant", [], ["one"], value_int=1),
             helper.make_node("Constant", [], ["twelve"], value_int=12), helper.make_node("Gather", ["shape", "one"], ["width"]),
             helper.make_node("Equal", ["width", "twelve"], ["is_twelve"]),
             helper.make_node("If", ["is_twelve"], ["hidden"], then_branch=known, else_branch=unknown),
             layer("hidden", "scores", 2)]
    graph = helper.make_graph(nodes, "branches", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
                              [weights["2.weight"], weights["2.bias"]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "branches.onnx")
    check_step(net, tmp_path / "branches.onnx", {"x": torch.randn(BATCH, 12)}, tmp_path)
