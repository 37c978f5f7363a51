"""Forms of operators that ONNX's node tests of Debian lack, and gradients of composed ones, by the kernels of compiled
programs against PyTorch in double precision."""

import math

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import ort_artifacts
import pipeline
from operator_network import BATCH, CLASSES, WIDTH, Form, Network, expect_gradients
from test_pytorch import distance

IGNORED = -1
IDS = numpy.array([[0, 2, 4], [3, 1, 0], [1, 1, 2], [4, 3, 2]])
SEEN = numpy.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
PLACES = numpy.array([[0, 1], [3, -1], [2, 0], [1, 3]])


def attention(q, k, v, mask=None, scale=None, cap=None, causal=False):
    """ONNX's Attention of four dimensions: a mask of numbers is added to what the cap has bent; a query that sees nothing
    gets nothing."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (1 / math.sqrt(q.shape[3]) if scale is None else scale)
    if cap is not None:
        scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    if causal:
        past = k.shape[2] - q.shape[2]
        scores = scores.masked_fill(~torch.ones(scores.shape[2:], dtype=torch.bool).tril(past), -math.inf)
    unseen = (scores == -math.inf).all(3, keepdim=True)
    return torch.where(unseen, 0.0, torch.softmax(scores.masked_fill(unseen, 0), 3)) @ v


def heads(x, count):
    return x.unflatten(2, (count, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


def behind_past(q, k, v, _, past_k, past_v):
    k, v = torch.cat([past_k, heads(k, 2)], 2), torch.cat([past_v, heads(v, 2)], 2)
    return merged(attention(heads(q, 4), k, v, causal=True)), k, v


def rotary(x, cosine, sine, ids, turns, interleaved):
    """x: batch, heads, positions, width."""
    cosine, sine = cosine[ids].unsqueeze(1), sine[ids].unsqueeze(1)
    turning, rest = x[..., :turns], x[..., turns:]
    first, second = (turning[..., 0::2], turning[..., 1::2]) if interleaved else turning.chunk(2, -1)
    parts = [cosine * first - sine * second, sine * first + cosine * second]
    return torch.cat([torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1), rest], -1)


def root_mean_square(x, scale, axes, epsilon):
    return x / torch.sqrt((x * x).mean(axes, keepdim=True) + epsilon) * scale


def exclusive(x, axis):
    return torch.cumsum(x, axis) - x


def from_the_end(function, axis):
    return lambda x, _: torch.flip(function(torch.flip(x, [axis]), axis), [axis])


def gru(x, w, r, b, _, h, after):
    """ONNX's gates: update, reset, new; the reset is applied to the state, or after its product."""
    h, states, size = h[0], [], h.shape[2]
    update, reset, new = r[0].split(size)
    for step in x:
        to_update, to_reset, to_new = (step @ w[0].T + b[0, :3 * size]).split(size, 1)
        update_bias, reset_bias, new_bias = b[0, 3 * size:].split(size)
        z = torch.sigmoid(to_update + h @ update.T + update_bias)
        t = torch.sigmoid(to_reset + h @ reset.T + reset_bias)
        n = torch.tanh(to_new + (t * (h @ new.T + new_bias) if after else (t * h) @ new.T + new_bias))
        h = (1 - z) * n + z * h
        states.append(h)
    return torch.stack(states).unsqueeze(1), h.unsqueeze(0)


def lstm(x, w, r, b, h, c, functions, clip=math.inf, couples=False):
    """ONNX's gates: in, out, forget, new; functions of gates, what is new and the cell, which see no more than `clip`."""
    of_gate, of_new, of_cell = (lambda x, function=function: function(x.clamp(-clip, clip)) for function in functions)
    inner, outer = b[0].chunk(2)
    states = []
    for step in x:
        i, o, f, new = (step @ w[0].T + inner + h @ r[0].T + outer).chunk(4, 1)
        taken = of_gate(i)
        c = (1 - taken if couples else of_gate(f)) * c + taken * of_new(new)
        h = of_gate(o) * of_cell(c)
        states.append(h)
    return torch.stack(states), h, c


def keras_lstm(x, w, r, b, _, h, c):
    def hard_sigmoid(x):
        return (0.2 * x + 0.5).clamp(0, 1)
    states, h, c = lstm(x, w, r, b, h[0], c[0], (hard_sigmoid, torch.tanh, torch.tanh))
    return states.unsqueeze(1), h.unsqueeze(0), c.unsqueeze(0)


def bent_lstm(x, w, r, b, _, h, c):
    """Samples first."""
    functions = (lambda x: 0.3 * x + 0.6, lambda x: 1.2 * torch.tanh(0.7 * x), functional.elu)
    states, h, c = lstm(x.transpose(0, 1), w, r, b, h[:, 0], c[:, 0], functions, clip=0.4, couples=True)
    return states.transpose(0, 1).unsqueeze(2), h.unsqueeze(1), c.unsqueeze(1)


def replaced(x, places, updates):
    return x.index_put((places[:, 0], places[:, 1]), updates)


def increased(x, places, updates):
    return x.index_put((places[:, 0], places[:, 1]), updates, accumulate=True)


def resized(size=(5, 3), **options):
    return lambda x, *_: functional.interpolate(x, size=size, **options)


def cropped(x, *_):
    """The part CROP of x; a grid reaches from -1 to 1, and elements that lie outside are 2."""
    rows, columns = (torch.linspace(2 * CROP[d] - 1, 2 * CROP[4 + d] - 1, SIZES[d]).to(x.dtype) for d in (2, 3))
    grid = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), 2).expand(len(x), -1, -1, -1)
    inside = functional.grid_sample(x, grid, padding_mode="border", align_corners=True)
    return torch.where((grid.abs() <= 1).all(3)[:, None], inside, 2.0)


def einsum(equation, *operands):
    return Form("Einsum", list(operands), lambda *given: torch.einsum(equation, *given), {"equation": equation})


PIXELS = [BATCH, 2, 3, 4]
SIZES = numpy.array([BATCH, 2, 5, 3])
CROP = numpy.array([0, 0, 0.1, -0.2, 1, 1, 0.8, 0.9], numpy.float32)
LAST, FIRST = numpy.array(-1), numpy.array(1)

FORMS = {
    "attention": [
        Form("Attention", [[BATCH, 4, 3, 2], [BATCH, 2, 4, 2], [BATCH, 2, 4, 3], SEEN], attention),
        Form("Attention", [[BATCH, 4, 3, 2], [BATCH, 4, 3, 2], [BATCH, 4, 3, 1], (4, 1, 3)],
             lambda *x: attention(*x, cap=0.7), {"softcap": 0.7}),
        Form("Attention", [[BATCH, 3, 8], [BATCH, 3, 4], [BATCH, 3, 6]],
             lambda q, k, v: merged(attention(heads(q, 4), heads(k, 2), heads(v, 2), scale=0.3, causal=True)),
             {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3, "is_causal": 1}),
        Form("Attention", [[BATCH, 3, 8], [BATCH, 3, 4], [BATCH, 3, 6], None, (BATCH, 2, 2, 2), (BATCH, 2, 2, 3)],
             behind_past, {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1}, 3),
        Form("RotaryEmbedding", [[BATCH, 2, 3, 4], (5, 2), (5, 2), IDS], lambda *x: rotary(*x, 4, False)),
        Form("RotaryEmbedding", [[BATCH, 1, 3, 8], (5, 3), (5, 3), IDS], lambda *x: rotary(*x, 6, True),
             {"interleaved": 1, "rotary_embedding_dim": 6}),
        Form("RotaryEmbedding", [[BATCH, 3, 8], (5, 1), (5, 1), IDS],
             lambda x, *rest: merged(rotary(heads(x, 2), *rest, 2, False)), {"num_heads": 2, "rotary_embedding_dim": 2}),
        Form("RMSNormalization", [[BATCH, 4, 6], (6,)], lambda x, s: root_mean_square(x, s, (2,), 1e-5)),
        Form("RMSNormalization", [[BATCH, 4, 6], (4, 6)], lambda x, s: root_mean_square(x, s, (1, 2), 1e-2),
             {"axis": 1, "epsilon": 1e-2}),
    ],
    "layers": [
        Form("GroupNormalization", [[BATCH, 4, 3, 2], (4,), (4,)], lambda x, *s: functional.group_norm(x, 2, *s),
             {"num_groups": 2}),
        Form("GroupNormalization", [[BATCH, 4, 6], (4,), (4,)], lambda x, *s: functional.group_norm(x, 1, *s, 1e-2),
             {"num_groups": 1, "epsilon": 1e-2}),
        Form("LpNormalization", [[BATCH, 4, 6]], lambda x: functional.normalize(x, 2, 1), {"axis": 1}),
        Form("LpNormalization", [[BATCH, 4, 6]], lambda x: functional.normalize(x, 1, 2), {"p": 1}),
        Form("Mish", [[BATCH, 24]], functional.mish),
        Form("AveragePool", [[BATCH, 1, 4, 6]], lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
             {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1, "count_include_pad": 1}),
        Form("AveragePool", [[BATCH, 1, 3, 7]], lambda x: functional.avg_pool2d(x, 2, 2, 0, ceil_mode=True),
             {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}),
        Form("Gelu", [[BATCH, 24]], functional.gelu),
        Form("Gelu", [[BATCH, 24]], lambda x: functional.gelu(x, approximate="tanh"), {"approximate": "tanh"}),
        Form("ReduceLogSumExp", [[BATCH, 4, 6], numpy.array([1])], lambda x, _: torch.logsumexp(x, 1)),
        Form("CastLike", [[BATCH, 24], [BATCH, 1]], lambda x, _: x),
        Form("GRU", [[3, BATCH, 8], (1, 9, 8), (1, 9, 3), (1, 18), None, (1, BATCH, 3)], lambda *x: gru(*x, False),
             {"hidden_size": 3}, 2),
        Form("GRU", [[3, BATCH, 8], (1, 9, 8), (1, 9, 3), (1, 18), None, (1, BATCH, 3)], lambda *x: gru(*x, True),
             {"hidden_size": 3, "linear_before_reset": 1}, 2),
        Form("LSTM", [[3, BATCH, 8], (1, 12, 8), (1, 12, 3), (1, 24), None, (1, BATCH, 3), (1, BATCH, 3)], keras_lstm,
             {"hidden_size": 3, "activations": ["HardSigmoid", "Tanh", "Tanh"]}, 3),
        Form("LSTM", [[BATCH, 3, 8], (1, 12, 8), (1, 12, 3), (1, 24), None, (BATCH, 1, 3), (BATCH, 1, 3)], bent_lstm,
             {"hidden_size": 3, "layout": 1, "input_forget": 1, "clip": 0.4, "activations": ["Affine", "ScaledTanh", "Elu"],
              "activation_alpha": [0.3, 1.2], "activation_beta": [0.6, 0.7]}, 3),
        Form("Resize", [PIXELS, None, None, SIZES], resized(mode="nearest"),
             {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        Form("Resize", [PIXELS, None, numpy.array([1, 1, 2, 3], numpy.float32)], resized((6, 12), mode="nearest"),
             {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        Form("Resize", [PIXELS, None, None, numpy.array([BATCH, 2, 5, 8])], resized((5, 8), mode="nearest"),
             {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        Form("Resize", [PIXELS, None, None, SIZES], resized(mode="bilinear"), {"mode": "linear"}),
        Form("Resize", [PIXELS, None, None, SIZES], resized(mode="bilinear", align_corners=True),
             {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
        Form("Resize", [PIXELS, None, None, SIZES], resized(mode="bicubic"), {"mode": "cubic"}),
        Form("Resize", [PIXELS, None, None, numpy.array([2, 3])], resized((2, 3), mode="bilinear", antialias=True),
             {"mode": "linear", "antialias": 1, "exclude_outside": 1, "axes": [2, -1]}),
        Form("Resize", [[BATCH, 1, 3, 7], None, None, numpy.array([3, 2])], resized((2, 3), mode="bicubic", antialias=True),
             {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5, "exclude_outside": 1, "axes": [3, 2]}),
        Form("Resize", [[BATCH, 1, 3, 6], None, None, numpy.array([2, 6])], resized((2, 4), mode="bilinear"),
             {"mode": "linear", "keep_aspect_ratio_policy": "not_larger", "axes": [2, 3]}),
        Form("Resize", [[BATCH, 1, 3, 6], None, None, numpy.array([2, 6])], resized((3, 6), mode="bilinear"),
             {"mode": "linear", "keep_aspect_ratio_policy": "not_smaller", "axes": [2, 3]}),
        Form("Resize", [PIXELS, CROP, None, SIZES], cropped,
             {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.0}),
    ],
    "places": [
        einsum("bij,bkj->bki", [BATCH, 4, 6], [BATCH, 2, 6]),
        einsum("bij,jk,kl->bil", [BATCH, 4, 6], (6, 3), (3, 2)),
        einsum("bii->bi", [BATCH, 4, 4]),
        einsum("...i,...i->...", [BATCH, 4, 6], (4, 6)),
        Form("ScatterND", [[BATCH, 3, 8], PLACES % [4, 3], (4, 8)], replaced),
        Form("ScatterND", [[BATCH, 3, 8], PLACES[[0, 1, 0, 2]], (4, 8)], increased, {"reduction": "add"}),
        Form("ScatterElements", [[BATCH, 24], IDS, (BATCH, 3)], lambda x, at, y: x.scatter_add(1, at, y), {"axis": 1, "reduction": "add"}),
        Form("GatherND", [[BATCH, 6, 4], IDS[..., None]], lambda x, at: x[torch.arange(BATCH)[:, None], at[..., 0]], {"batch_dims": 1}),
        Form("Col2Im", [[BATCH, 4, 6], numpy.array([3, 3]), numpy.array([2, 1])], lambda x, *_: functional.fold(
            x, (3, 3), (2, 1), stride=(2, 1), padding=(1, 0)), {"strides": [2, 1], "pads": [1, 0, 1, 0]}),
        Form("GatherElements", [[BATCH, 24], IDS], lambda x, at: x.gather(1, at), {"axis": 1}),
        Form("CumSum", [[BATCH, 4, 6], FIRST], lambda x, _: torch.cumsum(x, 1)),
        Form("CumSum", [[BATCH, 4, 6], LAST], lambda x, _: exclusive(x, 2), {"exclusive": 1}),
        Form("CumSum", [[BATCH, 4, 6], LAST], from_the_end(torch.cumsum, 2), {"reverse": 1}),
        Form("CumSum", [[BATCH, 4, 6], FIRST], from_the_end(exclusive, 1), {"reverse": 1, "exclusive": 1}),
    ],
}


@pytest.mark.parametrize("group", FORMS)
def test_forms(group, tmp_path):
    expect_gradients(FORMS[group], tmp_path)


@pytest.mark.parametrize("group", ["layers", "places"])
def test_same_bits(group, tmp_path):
    """What is written and read at computed places, in four stages, may have its operands or its parts in several."""
    Network(FORMS[group]).save(tmp_path / "forms.onnx")
    images, labels = pipeline.draw_images(tmp_path, 4 * BATCH, (WIDTH,), CLASSES)
    unsplit = {}
    for stages in (1, 4):
        project = pipeline.compile_model(tmp_path / "forms.onnx", tmp_path / f"{stages}", "--exact", "--minibatch", 4 * BATCH,
                                         "--stages", "-".join("1" * stages), "--microbatches", 4, "--train", "*",
                                         "--optimizer", "adam,lr=0.01", workers=stages)
        result = pipeline.train(project, tmp_path / f"run-{stages}", data=[f"x={images}", f"labels={labels}"], steps=3)
        pipeline.expect_same_bits(result, unsplit, group)


def test_whole_numbers(tmp_path):
    """Bounds and reductions of token numbers, as places in a table, by PyTorch."""
    nodes = [helper.make_node("Clip", ["ids", "least"], ["above"]), helper.make_node("Clip", ["above", "", "most"], ["within"]),
             helper.make_node("ReduceSum", ["within", "axis"], ["sum"], keepdims=0), helper.make_node("ReduceMax", ["ids"], ["max"], axes=[1], keepdims=0),
             helper.make_node("TopK", ["ids", "two"], ["top", "tops"]), helper.make_node("ReduceSum", ["top", "axis"], ["best"], keepdims=0),
             helper.make_node("ReduceMin", ["ids"], ["min"], axes=[1], keepdims=0), helper.make_node("ArgMax", ["ids"], ["end"], axis=1, keepdims=0)]
    columns = ["sum", "max", "min", "end", "best"]
    nodes += [helper.make_node("Unsqueeze", [name, "axis"], [f"{name}.column"]) for name in columns]
    nodes += [helper.make_node("Concat", [f"{name}.column" for name in columns], ["places"], axis=1),
              helper.make_node("Mod", ["places", "rows"], ["rest"]), helper.make_node("Gather", ["table", "rest"], ["found"]),
              helper.make_node("Mul", ["found", "found"], ["squares"]), helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0)]
    table = numpy.random.default_rng(2).standard_normal((11, 3)).astype(numpy.float32)
    constants = {"least": numpy.array(3), "most": numpy.array(15), "axis": numpy.array([1]), "two": numpy.array([2]), "rows": numpy.array(11), "table": table}
    graph = helper.make_graph(nodes, "whole", [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 7])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "whole.onnx")
    ids = numpy.random.default_rng(3).integers(0, 20, (6, 7))
    numpy.save(tmp_path / "ids.npy", ids)
    project = pipeline.compile_model(tmp_path / "whole.onnx", tmp_path / "project", "--minibatch", 6, "--loss", "output",
                                     "--optimizer", "sgd,lr=1", "--microbatches", 1)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"ids={tmp_path}/ids.npy"], steps=1)
    tokens, weight = torch.from_numpy(ids), torch.from_numpy(table).double().requires_grad_()
    places = torch.stack([tokens.clamp(3, 15).sum(1), tokens.amax(1), tokens.amin(1), torch.from_numpy(ids.argmax(1)),
                          tokens.topk(2, 1).values.sum(1)], 1) % 11
    loss = (weight[places] ** 2).mean()
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-5)]
    assert distance(table.astype(numpy.float64) - result.weights()["table"], weight.grad.numpy()) <= 1e-5


@pytest.mark.parametrize("element", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_quick_gelu(element, tmp_path):
    """ONNX Runtime's x * sigmoid(alpha * x), and its factors of other elements than what they scale, by PyTorch."""
    random = numpy.random.default_rng(5)
    weight, x = random.standard_normal((WIDTH, 3)).astype(numpy.float32), random.standard_normal((6, WIDTH)).astype(numpy.float32)
    nodes = [helper.make_node("FusedMatMul", ["x", "weight"], ["half"], domain=ort_artifacts.MICROSOFT, alpha=0.5),
             helper.make_node("Cast", ["half"], ["half.cast"], to=element), helper.make_node("Constant", [], ["two"], value_float=2.0),
             helper.make_node("Scale", ["half.cast", "two"], ["product"], domain=ort_artifacts.MICROSOFT),
             helper.make_node("QuickGelu", ["product"], ["bent"], domain=ort_artifacts.MICROSOFT, alpha=1.5),
             helper.make_node("Cast", ["bent"], ["last"], to=TensorProto.FLOAT), helper.make_node("Mul", ["last", "last"], ["squares"]),
             helper.make_node("ReduceMean", ["squares"], ["loss"], keepdims=0),
             helper.make_node("InPlaceAccumulatorV2", ["weight_grad.accumulation.buffer", "weight", "reset"], ["done"],
                              domain=ort_artifacts.MICROSOFT)]
    shapes = {"x": ["batch", WIDTH], "weight": weight.shape, "weight_grad.accumulation.buffer": weight.shape}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs.append(helper.make_tensor_value_info("reset", TensorProto.BOOL, [1]))
    outputs = [helper.make_tensor_value_info("loss", TensorProto.FLOAT, []), helper.make_tensor_value_info("done", TensorProto.BOOL, [1])]
    sets = [helper.make_opsetid("", 17), helper.make_opsetid(ort_artifacts.MICROSOFT, 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "quick", inputs, outputs), opset_imports=sets, ir_version=8), tmp_path / "quick.onnx")
    (tmp_path / "checkpoint").write_bytes(ort_artifacts.checkpoint({"weight": weight}))
    numpy.save(tmp_path / "x.npy", x)
    project = pipeline.compile_model(tmp_path / "quick.onnx", tmp_path / "project", "--minibatch", 6, "--loss", "output",
                                     "--optimizer", "sgd,lr=1", "--microbatches", 1)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"x={tmp_path}/x.npy"], steps=1)
    twin = torch.from_numpy(weight).double().requires_grad_()
    product = torch.from_numpy(x).double() @ twin
    loss = ((product * torch.sigmoid(1.5 * product)) ** 2).mean()
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-5)]
    assert distance(weight.astype(numpy.float64) - result.weights()["weight"], twin.grad.numpy()) <= 1e-5


def write_loss(path, op, shape, weights, class_weights):
    """x -> product -> scores of classes before other dimensions -> the operator with weights and an ignored label."""
    nodes = [helper.make_node("MatMul", ["x", "product"], ["flat"]), helper.make_node("Reshape", ["flat", "shape"], ["scores"])]
    nodes += [helper.make_node("LogSoftmax", ["scores"], ["logarithms"], axis=1)] if op == "NegativeLogLikelihoodLoss" else []
    nodes.append(helper.make_node(op, ["logarithms" if len(nodes) == 3 else "scores", "labels", "weight"], ["loss"],
                                  ignore_index=IGNORED))
    constants = {"product": weights, "shape": numpy.array([0, *shape]), "weight": class_weights}
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDTH]),
              helper.make_tensor_value_info("labels", TensorProto.INT64, ["batch", *shape[1:]])]
    graph = helper.make_graph(nodes, "loss", inputs, [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("shape", [(CLASSES,), (CLASSES, 3)])
@pytest.mark.parametrize("op", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_losses_of_weighted_classes(op, shape, tmp_path):
    """A minibatch has one loss: each microbatch counts by the weights of the labels that are not ignored."""
    random = numpy.random.default_rng(3)
    weights = (random.standard_normal((WIDTH, math.prod(shape))) / 3).astype(numpy.float32)
    class_weights = random.uniform(0.25, 4, CLASSES).astype(numpy.float32)
    write_loss(tmp_path / "loss.onnx", op, shape, weights, class_weights)
    x = random.standard_normal((2 * BATCH, WIDTH)).astype(numpy.float32)
    labels = random.integers(0, CLASSES, (2 * BATCH, *shape[1:]))
    labels[:BATCH - 1] = labels[BATCH + 1] = IGNORED
    numpy.save(tmp_path / "x.npy", x)
    numpy.save(tmp_path / "labels.npy", labels)
    project = pipeline.compile_model(tmp_path / "loss.onnx", tmp_path / "project", "--minibatch", 2 * BATCH, "--microbatches", 2,
                                     "--loss", "output", "--optimizer", "sgd,lr=1", "--train", "product")
    data = [f"x={tmp_path}/x.npy", f"labels={tmp_path}/labels.npy"]
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    product = torch.from_numpy(weights).double().requires_grad_()
    scores = (torch.from_numpy(x).double() @ product).reshape(-1, *shape)
    factors = torch.from_numpy(class_weights).double()
    loss = functional.cross_entropy(scores, torch.from_numpy(labels), factors, ignore_index=IGNORED)
    loss.backward()
    assert result.losses == [pytest.approx(loss.item(), rel=1e-4)]
    found = weights.astype(numpy.float64) - result.weights()["product"]
    assert distance(found, product.grad.numpy()) <= 1e-3


@pytest.mark.processor
@pytest.mark.parametrize("element", [False, True])
def test_indices_outside(element, tmp_path):
    """Where an index has no row, in a table or along the last of two dimensions: the file, the sample and the number."""
    nodes = [helper.make_node("GatherElements", ["h", "ids"], ["found"], axis=1) if element else
             helper.make_node("Gather", ["table", "ids"], ["found"])]
    nodes = [helper.make_node("MatMul", ["x", "table"], ["h"]), *nodes, helper.make_node("Mul", ["found", "found"], ["squares"]),
             helper.make_node("ReduceMean", ["squares", ], ["mean"], keepdims=0), helper.make_node("ReduceMean", ["h"], ["rest"], keepdims=0),
             helper.make_node("Add", ["mean", "rest"], ["loss"])]
    table = numpy.random.default_rng(2).standard_normal((11, 3)).astype(numpy.float32)
    graph = helper.make_graph(nodes, "outside", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 11]),
                                                 helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", 2])],
                              [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], [numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "outside.onnx")
    project = pipeline.compile_model(tmp_path / "outside.onnx", tmp_path / "project", "--minibatch", 6, "--loss", "output", "--microbatches", 2)
    numpy.save(tmp_path / "x.npy", numpy.ones((6, 11), numpy.float32))
    rows = 3 if element else 11
    for index in (rows, -rows - 1, -100, 1 << 35):
        ids = numpy.full((6, 2), rows - 1)
        ids[4, 1] = index
        numpy.save(tmp_path / "ids.npy", ids)
        expected = "an index of its dimension" if element else "an index of -11 to 10"
        with pytest.raises(AssertionError, match=rf"ids.npy: sample 4 \(counted from 0\) of input 'ids' holds {index}, "
                           rf"expected {expected} where it is one; correct the file \(microbatch 1 of 2 of epoch 0\)"):
            pipeline.train(project, tmp_path / "run", "--order", "file", data=[f"x={tmp_path}/x.npy", f"ids={tmp_path}/ids.npy"], steps=1)
