"""Operators of ONNX's operator sets 18 to 28 that Debian's node tests lack: by the kernels of compiled programs against
PyTorch in double precision."""

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import pipeline
from operator_network import BATCH, Form, expect_gradients
from test_operators import attention, heads, merged
from test_pytorch import distance

COUNTS = numpy.array([3, 5, 1, 4])
UNSEEN = numpy.array([[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
STARTS = numpy.array([0, 2, 1, 3])
WIDE = numpy.array([1, 0, 1, 1, 0, 1], bool)
# Without gradients: of numbers that choose rows.
BITS = {"BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"}


def sees(queries, keys, counts, left, right):
    """The queries stand behind the other keys that are there; bounds of -1 are none."""
    counts = torch.from_numpy(counts).reshape(-1, 1, 1, 1)
    query, key = torch.arange(queries).reshape(-1, 1) + counts - queries, torch.arange(keys)
    near = torch.ones_like(key - query, dtype=torch.bool)
    if left >= 0:
        near &= key >= query - left
    if right >= 0:
        near &= key <= query + right
    return near & (key < counts)


def windowed(queries, keys, counts, left=-1, right=-1):
    return lambda q, k, v, *_: attention(q, k, v, sees(queries, keys, counts, left, right))


def cached(x, update, starts, circular):
    places = torch.from_numpy(starts)[:, None] + torch.arange(update.shape[2])
    places = places % x.shape[2] if circular else places
    return x.scatter(2, places[:, None, :, None].expand_as(update), update)


def reversed_steps(x, lengths):
    """x: steps, samples, width."""
    return torch.stack([torch.cat([x[:n, i].flip(0), x[n:, i]]) for i, n in enumerate(lengths.tolist())], 1)


def causal(x, weight, bias=None, past=None):
    before = weight.shape[2] - 1
    x = functional.pad(x, (before, 0)) if past is None else torch.cat([past, x], 2)
    return functional.conv1d(x, weight, bias, groups=x.shape[1]), x[:, :, x.shape[2] - before:]


def causal_silu(*operands):
    y, state = causal(*operands)
    return functional.silu(y), state


def remembered(q, k, v, state=None, decay=None, beta=None, heads=2, scale=None):
    """One step after the other; each input: batch, steps, heads and width. A group of queries shares keys."""
    size, steps = q.shape[:2]
    q, k, v = q.view(size, steps, heads, -1, k.shape[2] // heads), k.view(size, steps, heads, -1), v.view(size, steps, heads, -1)
    state = q.new_zeros(size, heads, k.shape[3], v.shape[3]) if state is None else state
    found = []
    for t in range(steps):
        if decay is not None:
            state = state * decay[:, t].view(size, heads, -1).exp()[..., None]
        value = v[:, t]
        if beta is not None:
            value = beta[:, t][..., None] * (value - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t][..., None] * value[:, :, None]
        found.append(torch.einsum("bhgk,bhkv->bhgv", q[:, t], state) * (scale or k.shape[3] ** -0.5))
    return torch.stack(found, 1).flatten(2), state


def products(axis, exclusive=False, backwards=False):
    def run(x, _):
        x = x.flip(axis) if backwards else x
        y = torch.cumprod(x, axis)
        if exclusive:
            y = torch.cat([torch.ones_like(x.narrow(axis, 0, 1)), y.narrow(axis, 0, x.shape[axis] - 1)], axis)
        return y.flip(axis) if backwards else y
    return run


def norm_of_windows(x):
    """Of order 2, windows of 2 by 2 with a hole between the columns."""
    squares = x * x
    return torch.sqrt(squares[:, :, :-1, :-2] + squares[:, :, 1:, :-2] + squares[:, :, :-1, 2:] + squares[:, :, 1:, 2:])


FORMS = {
    "attention": [
        Form("Attention", [[BATCH, 2, 3, 3], [BATCH, 2, 4, 3], [BATCH, 2, 4, 2], UNSEEN], attention),
        Form("Attention", [[BATCH, 2, 3, 3], [BATCH, 2, 4, 3], [BATCH, 2, 4, 3], UNSEEN],
             lambda *x: attention(*x, cap=0.5), {"softcap": 0.5}),
        Form("Attention", [[BATCH, 2, 3, 4], [BATCH, 1, 4, 4], [BATCH, 1, 4, 2], UNSEEN[:, :3]],
             lambda q, k, v, mask: attention(q, k, v, functional.pad(mask, (0, 1)))),
        Form("Attention", [[BATCH, 1, 2, 4], [BATCH, 1, 5, 4], [BATCH, 1, 5, 3], None, None, None, COUNTS],
             windowed(2, 5, COUNTS)),
        Form("Attention", [[BATCH, 1, 2, 4], [BATCH, 1, 5, 4], [BATCH, 1, 5, 3], None, None, None, COUNTS],
             windowed(2, 5, COUNTS, right=0), {"is_causal": 1}),
        Form("Attention", [[BATCH, 1, 3, 4], [BATCH, 1, 5, 4], [BATCH, 1, 5, 3], None, None, None, COUNTS],
             windowed(3, 5, COUNTS, 1, 1), {"left_window_size": 1, "right_window_size": 1}),
        Form("Attention", [[BATCH, 1, 5, 4], [BATCH, 1, 3, 4], [BATCH, 1, 3, 3]],
             windowed(5, 3, numpy.full(BATCH, 5), 1, 0), {"is_causal": 1, "left_window_size": 1}),
        Form("Attention", [[BATCH, 3, 8], [BATCH, 3, 4], [BATCH, 3, 6], None, (BATCH, 2, 2, 2), (BATCH, 2, 2, 3)],
             lambda q, k, v, _, past_k, past_v: merged(attention(
                 heads(q, 4), torch.cat([past_k, heads(k, 2)], 2), torch.cat([past_v, heads(v, 2)], 2),
                 sees(3, 5, numpy.full(1, 5), 2, 1))),
             {"q_num_heads": 4, "kv_num_heads": 2, "left_window_size": 2, "right_window_size": 1}),
    ],
    "layers": [
        Form("Swish", [[BATCH, 24]], functional.silu, {"alpha": 1.0}),
        Form("Swish", [[BATCH, 24]], lambda x: x * torch.sigmoid(1.7 * x), {"alpha": 1.7}),
        Form("SwiGLU", [[BATCH, 24], (BATCH, 24)], lambda a, b: functional.silu(a) * b),
        Form("SwiGLU", [[BATCH, 24], (BATCH, 24)], lambda a, b: a * torch.sigmoid(0.5 * a) * b, {"alpha": 0.5}),
        Form("CausalConvWithState", [[BATCH, 3, 8], (3, 1, 4), (3,)], causal, {}, 2),
        Form("CausalConvWithState", [[BATCH, 3, 8], (3, 1, 3), None, (BATCH, 3, 2)],
             lambda x, w, _, past: causal_silu(x, w, None, past), {"activation": "silu"}, 2),
        Form("LinearAttention", [[BATCH, 4, 6], [BATCH, 4, 6], [BATCH, 4, 4]], remembered,
             {"update_rule": "linear", "q_num_heads": 2, "kv_num_heads": 2, "chunk_size": 3}, 2),
        Form("LinearAttention", [[BATCH, 3, 8], [BATCH, 3, 4], [BATCH, 3, 6], (BATCH, 2, 2, 3), (BATCH, 3, 4)],
             lambda q, k, v, state, decay: remembered(q, k, v, state, decay, scale=0.5),
             {"update_rule": "gated", "q_num_heads": 4, "kv_num_heads": 2, "scale": 0.5}, 2),
        Form("LinearAttention", [[BATCH, 6, 4], [BATCH, 6, 4], [BATCH, 6, 4], None, (BATCH, 6, 2), (BATCH, 6, 2)],
             lambda q, k, v, _, decay, beta: remembered(q, k, v, None, decay, beta),
             {"q_num_heads": 2, "kv_num_heads": 2, "chunk_size": 4}, 2),
        Form("LpPool", [[BATCH, 2, 3, 4]], norm_of_windows, {"kernel_shape": [2, 2], "dilations": [1, 2]}),
        Form("AffineGrid", [[BATCH, 2, 3], numpy.array([BATCH, 1, 4, 3])],
             lambda theta, _: functional.affine_grid(theta, (BATCH, 1, 4, 3), align_corners=False)),
        Form("AffineGrid", [[BATCH, 3, 4], numpy.array([BATCH, 2, 2, 4, 3])],
             lambda theta, _: functional.affine_grid(theta, (BATCH, 2, 2, 4, 3), align_corners=True), {"align_corners": 1}),
        Form("Mod", [[BATCH, 24], numpy.array(-0.3, numpy.float32)], torch.remainder),
    ],
    "places": [
        Form("CumProd", [[BATCH, 4, 6], numpy.array(1)], products(1)),
        Form("CumProd", [[BATCH, 3, 7], numpy.array(-1)], products(2, exclusive=True), {"exclusive": 1}),
        Form("CumProd", [[BATCH, 3, 7], numpy.array(2)], products(2, backwards=True), {"reverse": 1}),
        Form("CumProd", [[BATCH, 5, 3], numpy.array(1)], products(1, True, True), {"reverse": 1, "exclusive": 1}),
        Form("CenterCropPad", [[BATCH, 4, 6], numpy.array([3, 9])], lambda x, _: functional.pad(x[:, :3], (1, 2)), {"axes": [1, -1]}),
        Form("Compress", [[BATCH, 4, 6], WIDE], lambda x, chosen: x[:, :, chosen], {"axis": -1}),
        Form("ReverseSequence", [[6, BATCH, 4], COUNTS], reversed_steps),
        Form("ReverseSequence", [[BATCH, 6, 4], COUNTS], lambda x, n: reversed_steps(x.transpose(0, 1), n).transpose(0, 1),
             {"batch_axis": 0, "time_axis": 1}),
        Form("TensorScatter", [[BATCH, 1, 6, 4], (BATCH, 1, 3, 4), STARTS], lambda x, y, _: cached(x, y, STARTS, False)),
        Form("TensorScatter", [[BATCH, 2, 4, 3], (BATCH, 2, 3, 3), STARTS], lambda x, y, _: cached(x, y, STARTS, True),
             {"mode": "circular"}),
        Form("SpaceToDepth", [[BATCH, 2, 2, 4]], lambda x: functional.pixel_unshuffle(x, 2), {"mode": "CRD", "blocksize": 2}),
    ],
}


@pytest.mark.parametrize("group", FORMS)
def test_forms(group, tmp_path):
    expect_gradients(FORMS[group], tmp_path)


def test_bits(tmp_path):
    """Of whole numbers that choose rows of a table, as PyTorch has them."""
    nodes = [helper.make_node("BitwiseAnd", ["ids", "mask"], ["both"]), helper.make_node("BitwiseOr", ["both", "column"], ["either"]),
             helper.make_node("BitwiseXor", ["either", "mask"], ["one"]), helper.make_node("BitwiseNot", ["one"], ["none"]),
             helper.make_node("Cast", ["none"], ["bytes"], to=TensorProto.UINT8), helper.make_node("BitwiseNot", ["bytes"], ["again"]),
             helper.make_node("Cast", ["again"], ["places"], to=TensorProto.INT64), helper.make_node("Mod", ["places", "rows"], ["rest"]),
             helper.make_node("Gather", ["table", "rest"], ["found"]), helper.make_node("Mul", ["found", "found"], ["squares"]),
             helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0)]
    table, ids = numpy.random.default_rng(2).standard_normal((11, 3)).astype(numpy.float32), numpy.random.default_rng(3).integers(-300, 300, (6, 7))
    column = numpy.arange(7) - 3
    assert BITS <= {node.op_type for node in nodes}
    constants = {"mask": numpy.array(93), "column": column, "rows": numpy.array(11), "table": table}
    graph = helper.make_graph(nodes, "bits", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 7])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), tmp_path / "bits.onnx")
    numpy.save(tmp_path / "ids.npy", ids)
    project = pipeline.compile_model(tmp_path / "bits.onnx", tmp_path / "project", "--minibatch", 6, "--loss", "output",
                                     "--optimizer", "sgd,lr=1", "--microbatches", 1)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"ids={tmp_path}/ids.npy"], steps=1)
    tokens, weight = torch.from_numpy(ids), torch.from_numpy(table).double().requires_grad_()
    places = ~(~((tokens & 93 | torch.from_numpy(column)) ^ 93)).to(torch.uint8)
    loss = (weight[places.long() % 11] ** 2).mean()
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-5)]
    assert distance(table.astype(numpy.float64) - result.weights()["table"], weight.grad.numpy()) <= 1e-5


def test_steps_that_are_data(tmp_path):
    """How many steps each sample has, where it writes and how many keys it sees, as inputs."""
    random = numpy.random.default_rng(2)
    weight, x = (random.standard_normal(shape).astype(numpy.float32) for shape in ((4, 4), (6, 5, 4)))
    counts, starts = random.integers(1, 6, 6), random.integers(0, 5, 6)
    nodes = [helper.make_node("MatMul", ["x", "weight"], ["h"]),
             helper.make_node("ReverseSequence", ["h", "counts"], ["turned"], batch_axis=0, time_axis=1),
             helper.make_node("Slice", ["h", "zero", "two", "one"], ["update"]),
             helper.make_node("TensorScatter", ["turned", "update", "starts"], ["cache"], mode="circular"),
             helper.make_node("Attention", ["update", "cache", "h", "", "", "", "counts"], ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1),
             helper.make_node("Mul", ["y", "y"], ["squares"]), helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 5, 4])]
    inputs += [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in ("counts", "starts")]
    constants = {"weight": weight, "zero": numpy.array([0]), "one": numpy.array([1]), "two": numpy.array([2])}
    graph = helper.make_graph(nodes, "steps", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=10), tmp_path / "steps.onnx")
    for name, values in (("x", x), ("counts", counts), ("starts", starts)):
        numpy.save(tmp_path / f"{name}.npy", values)
    project = pipeline.compile_model(tmp_path / "steps.onnx", tmp_path / "project", "--minibatch", 6, "--microbatches", 1,
                                     "--optimizer", "sgd,lr=1")
    result = pipeline.train(project, tmp_path / "run", "--order", "file", steps=1,
                            data=[f"{name}={tmp_path}/{name}.npy" for name in ("x", "counts", "starts")])
    twin = torch.from_numpy(weight).double().requires_grad_()
    h = torch.from_numpy(x).double() @ twin
    turned = reversed_steps(h.transpose(0, 1), torch.from_numpy(counts)).transpose(0, 1)
    cache = cached(turned[:, None], h[:, None, :2], starts, True)[:, 0]
    y = merged(windowed(2, 5, counts, right=0)(heads(h[:, :2], 2), heads(cache, 2), heads(h, 2)))
    loss = (y ** 2).mean()
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-5)]
    assert distance(weight.astype(numpy.float64) - result.weights()["weight"], twin.grad.numpy()) <= 1e-4
