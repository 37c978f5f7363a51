"""What reads at computed places: values and gradients by the kernels of compiled programs against PyTorch in double
precision; and random numbers, which no split of a network changes."""

import numpy
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

import pipeline
from test_operators import BATCH, PIXELS, Form, expect_gradients

CORNERS = numpy.array([0, 3, 13, 10, 20, 18, 28, 26, 36, 34, 40, 43, 49, 54, 56, 63]).reshape(BATCH, 2, 1, 2)
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
    Form("MaxUnpool", [[BATCH, 2, 1, 2], CORNERS], unpooled, {"kernel_shape": [2, 2], "strides": [2, 2]}),
]


def test_samples(tmp_path):
    expect_gradients(FORMS, tmp_path)


def noisy_network(path):
    """Noise of each kind between layers: normal, uniform, by chance, and of a shape that is written down."""
    random = numpy.random.default_rng(2)
    weights = {name: (random.standard_normal(shape) / 3).astype(numpy.float32)
               for name, shape in {"first": (12, 16), "second": (16, 16), "third": (16, 5)}.items()}
    constants = {"half": numpy.array(0.5, numpy.float32), "shape": numpy.array([-1, 16])}
    nodes = [helper.make_node("MatMul", ["x", "first"], ["a"]), helper.make_node("RandomNormalLike", ["a"], ["n"], "n", scale=0.3),
             helper.make_node("Add", ["a", "n"], ["b"]), helper.make_node("Relu", ["b"], ["c"]),
             helper.make_node("Shape", ["c"], ["sizes"]), helper.make_node("ConstantOfShape", ["sizes"], ["zeros"]),
             helper.make_node("Add", ["zeros", "half"], ["chances"]), helper.make_node("Bernoulli", ["chances"], ["kept"], "k"),
             helper.make_node("Mul", ["c", "kept"], ["d"]), helper.make_node("MatMul", ["d", "second"], ["e"]),
             helper.make_node("RandomUniformLike", ["e"], ["u"], "u", low=0.5, high=1.5), helper.make_node("Mul", ["e", "u"], ["f"]),
             helper.make_node("RandomNormal", [], ["w"], "w", shape=[16], mean=1.0, scale=0.1), helper.make_node("Mul", ["f", "w"], ["g"]),
             helper.make_node("Tanh", ["g"], ["h"]), helper.make_node("MatMul", ["h", "third"], ["scores"])]
    graph = helper.make_graph(nodes, "noisy", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 12])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 5])],
                              [numpy_helper.from_array(value, name) for name, value in (weights | constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_random_numbers_follow_samples(tmp_path):
    """The same bits in one stage and in three, and with the forward pass run again; the same losses by two replicas, which add
    their gradients in another order; other numbers from another seed."""
    noisy_network(tmp_path / "noisy.onnx")
    images, labels = pipeline.draw_images(tmp_path, 24, (12,), 5)
    data, unsplit = [f"x={images}", f"labels={labels}"], {}
    ways = {"whole": ("1", 4, []), "split": ("1-1-1", 4, []), "again": ("1-1", 4, ["--recompute", "all"]), "replicas": ("2-1", 2, [])}
    for way, (stages, microbatches, options) in ways.items():
        workers = sum(map(int, stages.split("-")))
        project = pipeline.compile_model(tmp_path / "noisy.onnx", tmp_path / way, "--exact", "--minibatch", 8, "--microbatches", microbatches,
                                         "--stages", stages, "--optimizer", "sgd,lr=0.1", *options, workers=workers)
        result = pipeline.train(project, tmp_path / f"{way}-run", data=data, steps=3)
        if way != "replicas":
            pipeline.expect_same_bits(result, unsplit, "noisy")
        assert result.losses == pytest.approx(unsplit["noisy"][0], rel=1e-6)
    other = pipeline.train(project, tmp_path / "other", data=data, steps=3, seed=2)
    assert other.losses != result.losses
