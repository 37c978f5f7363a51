"""Convolutions of fp16 that are one unit with the normalisation behind them, on the emulation of a GPU: by themselves and, where
that is measured to be faster, as the one kernel in which cuDNN sums channels while it convolves."""

import json
import os
import re

import numpy
import pytest

import emulation
import pipeline

SHAPE, STEPS = (8, 6, 7), 4
OPTIONS = ["--minibatch", 12, "--microbatches", 2, "--optimizer", "momentum,lr=0.05,momentum=0.9"]
# Of f32, to two steps of 16 bits; running statistics are averages of what has 11 bits.
ROUNDING = 2 * 2**-10


@pytest.fixture(name="data", scope="module")
def drawn(tmp_path_factory):
    images, labels = pipeline.draw_images(tmp_path_factory.mktemp("data"), 48, SHAPE, 10)
    return [f"input={images}", f"labels={labels}"]


@pytest.fixture(name="expected", scope="module")
def on_processor(models, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processor")
    project = pipeline.compile_model(models("normalised"), folder / "project", *OPTIONS, "--schedule", "gpipe")
    return pipeline.train(project, folder / "work", *evaluated(data), data=data, steps=STEPS)


@pytest.fixture(name="projects", scope="module")
def of_all_kinds(models, tmp_path_factory):
    """On one stage, on two, and there with the forward pass repeated and the backward pass in two parts."""
    folder, made = tmp_path_factory.mktemp("normalised"), {}
    for name, stages, options in (("one", "1", ["--schedule", "gpipe"]), ("two", "1-1", ["--schedule", "1f1b"]),
                                  ("again", "1-1", ["--schedule", "zb-h1", "--recompute", "all"])):
        made[name] = emulation.emit(models("normalised"), folder / name, *OPTIONS, "--precision", "fp16", "--stages", stages, *options,
                                    workers=stages.count("-") + 1)
        emulation.build_for_host(made[name])
    return made


def evaluated(data):
    return ["--metric", "accuracy", *(word for entry in data for word in ("--eval-data", entry))]


def train(project, work, data, *options, **environment):
    return emulation.train_on_host(project, work, *evaluated(data), *options, data=data, steps=STEPS, env=os.environ | environment)


def expect_near(found, expected):
    """Losses, of the evaluation by running statistics too, and these."""
    of_evaluation = [[record["evaluation_loss"] for record in training.records if "evaluation_loss" in record] for training in (found, expected)]
    assert len(of_evaluation[0]) == len(of_evaluation[1]) > 0
    assert numpy.allclose(found.losses, expected.losses, rtol=ROUNDING)
    assert numpy.allclose(*of_evaluation, rtol=ROUNDING)
    weights = found.weights()
    for name, value in expected.weights().items():
        if "running" in name:
            assert numpy.allclose(weights[name], value, rtol=4 * ROUNDING, atol=ROUNDING), name


def fused(project):
    return sum(len(re.findall(r"cuda::NormalisedConvolution \w+;", stage.read_text())) for stage in project.glob("stage_?.cpp"))


@emulation.on_host
def test_trains_like_the_processor(projects, data, expected, tmp_path):
    """However the model is split, and where stages run their forward pass again."""
    kept = {}
    for name, project in projects.items():
        assert fused(project) == 3
        found = train(project, tmp_path / name, data)
        expect_near(found, expected)
        pipeline.expect_same_bits(found, kept, "normalised")


@emulation.on_host
def test_sums_while_it_convolves(projects, data, expected, tmp_path):
    """Where that is faster, which another run knows. Running statistics change once per microbatch, though kernels were measured."""
    kept, folder = {}, tmp_path / "kernels"
    apart = train(projects["one"], tmp_path / "apart", data)
    for name, project in projects.items():
        found = train(project, tmp_path / name, data, "--tune", folder / name, HOST_CUDNN_SLOW="plain")
        choices = {}
        for file in (folder / name).iterdir():
            choices |= json.loads(file.read_text())["choices"]
        ways = {problem: way for problem, way in choices.items() if "in one kernel or in two" in problem}
        assert len(ways) == 3 and set(ways.values()) == {1}, ways
        expect_near(found, expected)
        assert found.losses != apart.losses
        pipeline.expect_same_bits(found, kept, "normalised")
        files = {file.name: file.read_bytes() for file in (folder / name).iterdir()}
        again = train(project, tmp_path / f"{name}-again", data, "--tune", folder / name, HOST_CUDNN_SLOW="fused")
        pipeline.expect_same_bits(again, kept, "normalised")
        assert {file.name: file.read_bytes() for file in (folder / name).iterdir()} == files


@emulation.on_host
@pytest.mark.parametrize("switch", ["slow", "refused"])
def test_does_without(switch, projects, data, tmp_path):
    """Where it is slower, or the library has no such kernels: the bits of a run that measures nothing."""
    environment = {"slow": {"HOST_CUDNN_SLOW": "fused"}, "refused": {"HOST_CUDNN_REFUSES": "fused plans"}}[switch]
    plain, tuned = (train(projects["two"], tmp_path / name, data, *options, **environment)
                    for name, options in (("plain", []), ("tuned", ["--tune", tmp_path / "kernels"])))
    pipeline.expect_same_bits(tuned, {"normalised": (plain.losses, plain.weights())}, "normalised")
