"""What reads at computed places: values and gradients by the kernels of compiled programs against PyTorch in double
precision; and random numbers, which no split of a network changes."""

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import export
import pipeline
import test_control_flow
from test_control_flow import check_step
from operator_network import BATCH, Form, expect_gradients
from test_operators import PIXELS
from test_pytorch import check_gradients

CORNERS = numpy.array([0, 3, 13, 10, 20, 18, 28, 26, 36, 34, 40, 43, 49, 54, 56, 63]).reshape(BATCH, 2, 1, 2)
PLACES = numpy.array([[0, 2, 1], [0, 1, 0], [1, 1, 2], [1, 0, 2]])
GRID = numpy.random.default_rng(4).uniform(-1.5, 1.5, (BATCH, 3, 2, 2)).astype(numpy.float32)


def grid_sample(mode, padding, corners):
    """By PyTorch's names of the modes."""
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return lambda x, grid: functional.grid_sample(x, grid.to(x.dtype), mode, padding, corners)


def unpooled(x, places):
    """The places count elements of the whole batch."""
    return torch.zeros(BATCH * 16, dtype=x.dtype).index_put((places.flatten(),), x.flatten()).view(BATCH, 2, 2, 4)


FORMS = [
    *(Form("GridSample", [PIXELS, GRID if mode == "nearest" else GRID.shape], grid_sample(mode, padding, corners),
           {"mode": mode, "padding_mode": padding, "align_corners": int(corners)})
      for mode, padding, corners in [("linear", "zeros", False), ("linear", "border", True), ("linear", "reflection", False),
                                     ("nearest", "zeros", True), ("nearest", "reflection", False), ("cubic", "border", False)]),
    Form("LpPool", [PIXELS], lambda x: functional.lp_pool2d(x, 2, (2, 3), (1, 1)), {"kernel_shape": [2, 3]}),
    Form("LpPool", [PIXELS], lambda x: functional.lp_pool2d(x.abs(), 3, 2, 1), {"kernel_shape": [2, 2], "p": 3}),
    Form("GlobalLpPool", [PIXELS], lambda x: x.pow(2).sum((2, 3), keepdim=True).sqrt()),
    *(Form("ScatterElements", [[BATCH, 24], PLACES, (BATCH, 3)], lambda x, at, y, how=how: x.scatter_reduce(1, at, y, "a" + how),
           {"axis": 1, "reduction": how}) for how in ("max", "min")),
    Form("MaxUnpool", [[BATCH, 2, 1, 2], CORNERS], unpooled, {"kernel_shape": [2, 2], "strides": [2, 2]}),
]


def test_samples(tmp_path):
    expect_gradients(FORMS, tmp_path)


def numbers(x):
    return torch.view_as_complex(x.contiguous())


def parts(x):
    return torch.view_as_real(x)


def frames(x, window):
    return parts(torch.stft(x[..., 0], 4, 3, 4, window, center=False, return_complex=True)).transpose(1, 2)


AT, EIGHT = numpy.array(1), numpy.array(8)
FOURIER = [
    Form("DFT", [[BATCH, 6, 2], None, AT], lambda x, *_: parts(torch.fft.fft(numbers(x), dim=1))),
    Form("DFT", [[BATCH, 6, 2], EIGHT, AT], lambda x, *_: parts(torch.fft.ifft(numbers(x), 8, 1)), {"inverse": 1}),
    Form("DFT", [[BATCH, 3, 4, 1], None, numpy.array(-3)], lambda x, *_: parts(torch.fft.fft(x[..., 0], dim=1))),
    Form("DFT", [[BATCH, 6, 1], EIGHT, AT], lambda x, *_: parts(torch.fft.rfft(x[..., 0], 8, 1)), {"onesided": 1}),
    Form("DFT", [[BATCH, 4, 2]], lambda x: torch.fft.irfft(numbers(x), dim=1).unsqueeze(2), {"onesided": 1, "inverse": 1}),
    Form("STFT", [[BATCH, 10, 1], numpy.array(3), (4,), numpy.array(4)], lambda x, step, window, length: frames(x, window)),
]


def test_fourier(tmp_path):
    expect_gradients(FOURIER, tmp_path)


WINDOWS = {"HannWindow": torch.hann_window, "HammingWindow": lambda size, periodic: torch.hamming_window(size, periodic, 25 / 46, 21 / 46),
           "BlackmanWindow": torch.blackman_window}


class Windowed(torch.nn.Module):
    def __init__(self, periodic):
        super().__init__()
        self.top = torch.nn.Linear(24, 10)
        self.factors = torch.cat([window(8, periodic).double() for window in WINDOWS.values()])

    def forward(self, x):
        return self.top(x * self.factors)


@pytest.mark.parametrize("periodic", [0, 1])
def test_windows(periodic, tmp_path):
    torch.manual_seed(1)
    net = Windowed(bool(periodic))
    nodes = [helper.make_node("Constant", [], ["size"], value_int=8),
             *(helper.make_node(op, ["size"], [op], periodic=periodic) for op in WINDOWS),
             helper.make_node("Concat", list(WINDOWS), ["factors"], axis=0), helper.make_node("Mul", ["x", "factors"], ["y"]),
             helper.make_node("Gemm", ["y", "top.weight", "top.bias"], ["scores"], transB=1)]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", size]) for name, size in (("x", 24), ("scores", 10))]
    weights = [numpy_helper.from_array(value.detach().numpy(), name) for name, value in net.named_parameters()]
    graph = helper.make_graph(nodes, "windows", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "windows.onnx")
    check_step(net, tmp_path / "windows.onnx", {"x": torch.randn(test_control_flow.BATCH, 24)}, tmp_path)


class SpatialTransformer(torch.nn.Module):
    """Starts with the same transform of all images. Sizes and transforms are such that no position is rounded, so that those
    on whole numbers and on borders are there in any precision."""

    def __init__(self, transform, padding, corners):
        super().__init__()
        self.size = 9 if corners else 8
        self.padding, self.corners = padding, corners
        places = torch.arange(self.size)
        line = places * 2 / (self.size - 1) - 1 if corners else (2 * places + 1) / self.size - 1
        y, x = torch.meshgrid(line, line, indexing="ij")
        self.register_buffer("places", torch.stack([x, y, torch.ones_like(x)], 2).flatten(0, 1))
        self.localisation = torch.nn.Linear(2 * self.size ** 2, 6)
        torch.nn.init.zeros_(self.localisation.weight)
        self.localisation.bias.data = torch.tensor(transform)
        self.last = torch.nn.Linear(2 * self.size ** 2, 10)

    def forward(self, x):
        transform = self.localisation(x.flatten(1)).view(-1, 2, 3)
        grid = (self.places @ transform.transpose(1, 2)).view(-1, self.size, self.size, 2)
        return self.last(functional.grid_sample(x, grid, "bilinear", self.padding, self.corners).flatten(1))


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("transform", [[1.0, 0, 0, 0, 1, 0], [2.0, 0.5, 0.25, -0.25, 1.5, 0.5]], ids=["still", "turned"])
def test_spatial_transformer(transform, padding, corners, tmp_path):
    """Neighbours change at whole numbers, and at borders PyTorch has a slope of its own: zero."""
    torch.manual_seed(1)
    net = SpatialTransformer(transform, padding, corners).train()
    shape = (2, net.size, net.size)
    export.export(net, shape, tmp_path / "transformer.onnx")
    check_gradients(net, tmp_path / "transformer.onnx", shape, 4, False, tmp_path, 1)


RANDOM = {"RandomNormalLike", "RandomNormal", "RandomUniformLike", "RandomUniform", "Bernoulli"}
SEED = 1


def mixed(z):
    """splitmix64's step, of an array of 64 bits."""
    z = z + numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return z ^ (z >> numpy.uint64(31))


def drawn(name, stream, step, samples, places):
    """64 bits for each sample and place, keyed by the node's name (FNV-1a)."""
    key = 0xcbf29ce484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001b3 % 2 ** 64
    key = (key + stream * 0xD1342543DE82EF95) % 2 ** 64
    h = numpy.full((len(samples), len(places)), SEED ^ 0x9E3779B97F4A7C15, numpy.uint64)
    for part in (step, numpy.array(samples)[:, None], key, places[None]):
        h = mixed(h) ^ numpy.asarray(part, numpy.uint64)
    return mixed(h)


def uniform(name, stream, step, samples, size):
    """`size` numbers for each sample."""
    return (drawn(name, stream, step, samples, numpy.arange(size)) >> numpy.uint64(40)).astype(numpy.float64) * 2.0 ** -24


def kept_by_dropout(name, step, samples, size, ratio):
    """Of `size` elements of each sample, by 16 bits each: four neighbours share 64, the first has the lowest."""
    places = numpy.arange(size)
    bits = drawn(name, 0, step, samples, places // 4) >> numpy.asarray(places % 4 * 16, numpy.uint64)
    return (bits & numpy.uint64(0xffff)) >= round(ratio * 2 ** 16)


def normal(name, step, samples, size):
    radius = numpy.sqrt(-2 * numpy.log(1 - uniform(name, 0, step, samples, size)))
    return radius * numpy.cos(2 * numpy.pi * uniform(name, 1, step, samples, size))


def noisy_loss(x, labels, weights, step, first):
    """Of a microbatch of two samples, the first of which has this number."""
    samples = [first, first + 1]
    a = x @ weights["first"]
    c = numpy.maximum(a + 0.3 * normal("n", step, samples, 16), 0)
    d = c * (uniform("k", 0, step, samples, 16) < 0.5)
    f = d @ weights["second"] * (0.5 + uniform("u", 0, step, samples, 16))
    w = 1 + 0.1 * normal("w", step, samples, 8).reshape(16)
    g = f * w * (2 + 2 * uniform("v", 0, step, samples, 2).reshape(4)[:1])
    scores = numpy.tanh(g) @ weights["third"]
    return -torch.log_softmax(torch.from_numpy(scores), 1)[range(2), labels].mean().item()


def noisy_network(path):
    """Noise of each kind between layers: normal, uniform, by chance, and of a shape that is written down."""
    random = numpy.random.default_rng(2)
    weights = {name: (random.standard_normal(shape) / 3).astype(numpy.float32)
               for name, shape in {"first": (12, 16), "second": (16, 16), "third": (16, 5)}.items()}
    constants = {"half": numpy.array(0.5, numpy.float32), "start": numpy.array([0]), "end": numpy.array([1])}
    nodes = [helper.make_node("MatMul", ["x", "first"], ["a"]), helper.make_node("RandomNormalLike", ["a"], ["n"], "n", scale=0.3),
             helper.make_node("Add", ["a", "n"], ["b"]), helper.make_node("Relu", ["b"], ["c"]),
             helper.make_node("Shape", ["c"], ["sizes"]), helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
             helper.make_node("Add", ["zeros", "half"], ["chances"]), helper.make_node("Bernoulli", ["chances"], ["kept"], "k"),
             helper.make_node("Mul", ["c", "kept"], ["d"]), helper.make_node("MatMul", ["d", "second"], ["e"]),
             helper.make_node("RandomUniformLike", ["e"], ["u"], "u", low=0.5, high=1.5), helper.make_node("Mul", ["e", "u"], ["f"]),
             helper.make_node("RandomNormal", [], ["w"], "w", shape=[16], mean=1.0, scale=0.1), helper.make_node("Mul", ["f", "w"], ["g"]),
             helper.make_node("RandomUniform", [], ["v"], "v", shape=[4], low=2.0, high=4.0),
             helper.make_node("Slice", ["v", "start", "end"], ["v0"]), helper.make_node("Mul", ["g", "v0"], ["gv"]),
             helper.make_node("Tanh", ["gv"], ["h"]), helper.make_node("MatMul", ["h", "third"], ["scores"])]
    graph = helper.make_graph(nodes, "noisy", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 5])],
                              [numpy_helper.from_array(value, name) for name, value in (weights | constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return {name: value.astype(numpy.float64) for name, value in weights.items()}


def test_random_numbers_follow_samples(tmp_path):
    """The same bits in one stage and in three, and with the forward pass run again; the same losses by two replicas, which add
    their gradients in another order; those that numpy draws, and others from another seed."""
    weights = noisy_network(tmp_path / "noisy.onnx")
    images, labels = pipeline.draw_images(tmp_path, 24, (12,), 5)
    data, unsplit = [f"x={images}", f"labels={labels}"], {}
    ways = {"whole": ("1", 4, []), "split": ("1-1-1", 4, []), "again": ("1-1", 4, ["--recompute", "all"]), "replicas": ("2-1", 2, [])}
    for way, (stages, microbatches, options) in ways.items():
        workers = sum(map(int, stages.split("-")))
        project = pipeline.compile_model(tmp_path / "noisy.onnx", tmp_path / way, "--exact", "--minibatch", 8, "--microbatches", microbatches,
                                         "--stages", stages, "--optimizer", "sgd,lr=0.1", *options, workers=workers)
        result = pipeline.train(project, tmp_path / f"{way}-run", "--order", "file", data=data, steps=3, seed=SEED)
        if way != "replicas":
            pipeline.expect_same_bits(result, unsplit, "noisy")
        assert result.losses == pytest.approx(unsplit["noisy"][0], rel=1e-6)
    x, y = numpy.load(images).astype(numpy.float64), numpy.load(labels)
    losses = [noisy_loss(x[at:at + 2], y[at:at + 2], weights, 1, at) for at in range(0, 8, 2)]
    assert unsplit["noisy"][0][0] == pytest.approx(sum(losses) / 4, rel=1e-5)
    other = pipeline.train(project, tmp_path / "other", "--order", "file", data=data, steps=3, seed=SEED + 1)
    assert other.losses != result.losses


def test_dropout_follows_rows_of_samples(tmp_path):
    """Rows of tokens, three of each sample: the losses that numpy's masks make, for microbatches of any size."""
    random = numpy.random.default_rng(3)
    weights = {name: (random.standard_normal(shape) / 3).astype(numpy.float32) for name, shape in {"first": (4, 6), "second": (18, 5)}.items()}
    constants = {"rows": numpy.array([-1, 4]), "sample": numpy.array([-1, 18]), "ratio": numpy.array(0.25, numpy.float32),
                 "trains": numpy.array(True)}
    nodes = [helper.make_node("Reshape", ["x", "rows"], ["tokens"]), helper.make_node("MatMul", ["tokens", "first"], ["a"]),
             helper.make_node("Dropout", ["a", "ratio", "trains"], ["b"], "d"), helper.make_node("Reshape", ["b", "sample"], ["c"]),
             helper.make_node("MatMul", ["c", "second"], ["scores"])]
    graph = helper.make_graph(nodes, "rows", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 5])],
                              [numpy_helper.from_array(value, name) for name, value in (weights | constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "rows.onnx")
    images, labels = pipeline.draw_images(tmp_path, 8, (12,), 5)
    x, y = numpy.load(images).astype(numpy.float64), numpy.load(labels)
    kept = kept_by_dropout("d", 1, range(8), 18, 0.25)
    scores = ((x.reshape(-1, 4) @ weights["first"]).reshape(8, 18) * kept / 0.75) @ weights["second"]
    expected = torch.nn.functional.cross_entropy(torch.from_numpy(scores), torch.from_numpy(y)).item()
    for microbatches in (1, 2, 4):
        project = pipeline.compile_model(tmp_path / "rows.onnx", tmp_path / str(microbatches), "--minibatch", 8, "--microbatches",
                                         microbatches, "--stages", "1-1", workers=2)
        result = pipeline.train(project, tmp_path / f"{microbatches}-run", "--order", "file", data=[f"x={images}", f"labels={labels}"],
                                steps=1, seed=SEED)
        assert result.losses[0] == pytest.approx(expected, rel=1e-5), microbatches


class Permuted(torch.nn.Module):
    """Columns put back by the inverse of a permutation of each sample, which is scattered."""

    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(6, 8), torch.nn.Linear(8, 10)

    def forward(self, x, order):
        inverse = torch.zeros_like(order).scatter(1, order, torch.arange(8).expand_as(order))
        return self.last(self.first(x).gather(1, inverse) * torch.arange(1, 9).to(x.dtype))


def test_whole_numbers_are_scattered(tmp_path):
    torch.manual_seed(1)
    net, x, order = Permuted().train(), torch.randn(8, 6), torch.rand(8, 8).argsort(1)
    labels = torch.randint(0, 10, (8,))
    torch.onnx.export(net, (x[:4], order[:4]), str(tmp_path / "permuted.onnx"), opset_version=17, do_constant_folding=False,
                      training=torch.onnx.TrainingMode.TRAINING, input_names=["x", "order"], output_names=["scores"])
    project = pipeline.compile_model(tmp_path / "permuted.onnx", tmp_path / "project", "--minibatch", 8, "--microbatches", 2, "--optimizer", "sgd,lr=64")
    data = pipeline.save_inputs({"x": x, "order": order, "labels": labels}, tmp_path)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    loss = functional.cross_entropy(net.double()(x.double(), order), labels)
    loss.backward()
    assert result.losses[0] == pytest.approx(loss.item(), rel=1e-5)
    pipeline.expect_gradients(result, net, 64)
