"""What cuBLASLt computes with a matrix product (GELU, its gradient, the sums that are a bias's gradient), on the emulation of a
GPU: as two kernels and, where that is measured to be faster, as one."""

import json
import os
import re

import numpy
import pytest

import emulation
import pipeline

STEPS = 3
OPTIONS = ["--minibatch", 8, "--microbatches", 2, "--optimizer", "momentum,lr=0.02,momentum=0.9"]
CLASSES = ("GeluProduct", "GeluGradientProduct", "SummedProduct")
SIZES = ["--layers", 2, "--width", 16, "--heads", 2, "--vocabulary", 64, "--sequence", 16]
# Of two layers, each with four matrices that have a bias; evaluation has its own.
COUNTS = {"GeluProduct": 4, "GeluGradientProduct": 2, "SummedProduct": 8}


@pytest.fixture(name="data", scope="module")
def drawn(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("data"), numpy.random.default_rng(5)
    for name in ("input", "labels"):
        numpy.save(folder / f"{name}.npy", random.integers(0, 64, (16, 16)))
    return [f"{name}={folder}/{name}.npy" for name in ("input", "labels")]


@pytest.fixture(name="model", scope="module")
def small_gpt2(models):
    return models("gpt2", *SIZES)


@pytest.fixture(name="expected", scope="module")
def on_processor(model, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processor")
    project = pipeline.compile_model(model, folder / "project", *OPTIONS)
    return pipeline.train(project, folder / "work", *evaluated(data), data=data, steps=STEPS)


def evaluated(data):
    return [word for entry in data for word in ("--eval-data", entry)]


def train(project, work, data, *options, **environment):
    return emulation.train_on_host(project, work, *evaluated(data), *options, data=data, steps=STEPS, env=os.environ | environment)


def losses(training):
    return training.losses, [record["evaluation_loss"] for record in training.records if "evaluation_loss" in record]


def counts(project):
    text = "".join(stage.read_text() for stage in project.glob("stage_?.cpp"))
    return {name: len(re.findall(rf"// {name}: ", text)) for name in CLASSES}


def emit(model, folder, stages, *options, precision="fp32"):
    return emulation.emit(model, folder, *OPTIONS, "--precision", precision, "--stages", stages, *options,
                          workers=2 if stages != "1" else 1)


def cut_before_gelu(model, folder):
    """Between the second layer's product and its GELU."""
    staged = emulation.emit(model, folder / "whole", *OPTIONS)
    nodes = pipeline.nodes_of(staged)
    return pipeline.write_cut(nodes, nodes.index("/layers.1/feed_forward/feed_forward.1/Mul_3"), folder / "cut.json")


@emulation.on_host
def test_trains_like_the_processor(model, data, expected, tmp_path):
    """However the model is split, and where stages run their forward pass again: the bits of kernels by themselves. The uses of the
    matrix at both ends of the network add to one sum in one stage, to two in two, which rounds it otherwise."""
    kept = {}
    cut = cut_before_gelu(model, tmp_path)
    for name, stages, options, expected_counts in (
            ("one", "1", ["--schedule", "gpipe"], COUNTS), ("cut", cut, ["--schedule", "1f1b"], COUNTS | {"GeluProduct": 2}),
            ("again", "1-1", ["--schedule", "zb-h1", "--recompute", "all"], COUNTS | {"GeluProduct": 2})):
        project = emit(model, tmp_path / name, stages, *options)
        assert counts(project) == expected_counts, name
        found = train(project, tmp_path / f"{name}-work", data)
        assert numpy.allclose(losses(found)[0], losses(expected)[0], rtol=2e-5)
        assert numpy.allclose(losses(found)[1], losses(expected)[1], rtol=2e-5)
        pipeline.expect_same_bits(found, kept, "one stage" if stages == "1" else "two stages")
    for name, value in kept["one stage"][1].items():
        assert numpy.allclose(value, kept["two stages"][1][name], rtol=0, atol=1e-7), name
    exact = emit(model, tmp_path / "exact", "1", "--exact")
    assert counts(exact) == dict.fromkeys(CLASSES, 0)


@emulation.on_host
@pytest.mark.parametrize("precision,rounding", [("fp32", 2e-5), ("bf16", 2**-7)])
def test_computes_in_one_kernel(precision, rounding, model, data, expected, tmp_path):
    """Where that is faster, which another run knows; where it is slower or the library has none, the bits of a run that measures
    nothing."""
    project = emit(model, tmp_path / "project", "1-1", "--schedule", "1f1b", precision=precision)
    plain = train(project, tmp_path / "plain", data)
    tuned = train(project, tmp_path / "tuned", data, "--tune", tmp_path / "kernels", HOST_CUBLASLT_SLOW="plain")
    choices = {}
    for file in (tmp_path / "kernels").iterdir():
        choices |= json.loads(file.read_text())["choices"]
    ways = {problem: way for problem, way in choices.items() if "in one kernel or in two" in problem}
    assert set(ways.values()) == {1}, ways
    for kind in ("gelu in", "gelu of what is kept", "gelu gradient", "sums of a"):
        assert any(kind in problem for problem in ways), (kind, ways)
    for found in (plain, tuned):
        assert numpy.allclose(losses(found)[0], losses(expected)[0], rtol=rounding)
        assert numpy.allclose(losses(found)[1], losses(expected)[1], rtol=rounding)
    weights = plain.weights()
    assert not all(numpy.array_equal(value, weights[name]) for name, value in tuned.weights().items())
    again = train(project, tmp_path / "again", data, "--tune", tmp_path / "kernels", HOST_CUBLASLT_SLOW="epilogue")
    pipeline.expect_same_bits(again, {"gpt2": (tuned.losses, tuned.weights())}, "gpt2")
    for name, environment in (("slow", {"HOST_CUBLASLT_SLOW": "epilogue"}), ("none", {"HOST_CUBLASLT_PLAIN": "1"})):
        found = train(project, tmp_path / name, data, "--tune", tmp_path / f"{name}-kernels", **environment)
        pipeline.expect_same_bits(found, {"gpt2": (plain.losses, plain.weights())}, "gpt2")
