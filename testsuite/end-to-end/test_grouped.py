"""Normalised groups of channels: one kernel forward and one backward, on both devices."""

import re

import pytest
import torch

import emulation
import grouped
import pipeline
from test_gated import OPTIONS, ROUNDING, SHAPE, expect_losses
from test_pytorch import check_gradients

LAYERS = 8


def kernels(model, *options):
    """Of the forward pass and the gradients, with the units that they compute."""
    program = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 1, *OPTIONS, *options, "--stop-after", "scheduled").stdout
    units = [line for line in program.split("evaluate microbatch")[0].splitlines()
             if re.search(" = pdc.unit .* (forward|backward_input) microbatch ", line)]
    named = [(re.search(r'pdc.unit "([^"]*)"', line)[1], re.search(r'#pdc.kernel<"(\w+)"', line)) for line in units]
    return [(name, kernel[1]) for name, kernel in named if kernel]


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_are_pytorchs(exact, threads, models, tmp_path):
    torch.manual_seed(1)
    check_gradients(grouped.Grouped(), models("grouped"), SHAPE, 6, exact, tmp_path, 3, "--threads", threads)


@pytest.mark.parametrize("device", [["--device", "cpu"], ["--precision", "bf16"]])
def test_one_kernel_each(device, models):
    """What a SiLU makes of it is not written twice, and between convolutions images keep their layout."""
    found = kernels(models("grouped"), *device)
    names = [kernel for _, kernel in found]
    assert names.count("GroupNormalization") == names.count("GroupNormalizationGradient") == LAYERS
    assert not [name for name in names if name in ("Reduce", "ReduceMean")]
    moved = [name for name, kernel in found if kernel == "Reorder"]
    assert not [name for name in moved if name.startswith(("/block", "/odd", "/Concat"))], moved


def test_same_bits_however_split(models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 24, SHAPE, 10)
    kept = {}
    for stages in ("1", "1-1", "1-1-1"):
        count = stages.count("1")
        project = pipeline.compile_model(models("grouped"), tmp_path / f"project{count}", "--exact", "--minibatch", 12, "--microbatches", 2,
                                         "--optimizer", "momentum,lr=0.05,momentum=0.9", "--stages", stages, workers=count)
        found = pipeline.train(project, tmp_path / f"work{count}", data=[f"input={images}", f"labels={labels}"], steps=3)
        pipeline.expect_same_bits(found, kept, "grouped")


@emulation.on_host
@pytest.mark.parametrize("precision", list(ROUNDING))
def test_trains_like_the_processor(precision, models, tmp_path):
    expect_losses(models("grouped"), precision, tmp_path)
