"""Images that stay in their layout, through transpositions and repeated operands, and what is summed of them."""

import re

import numpy
import pytest
import torch

import emulation
import gated
import pipeline
from test_pytorch import check_gradients

SHAPE, STEPS = (8, 6, 7), 3
OPTIONS = ["--minibatch", 6, "--microbatches", 1, "--optimizer", "momentum,lr=0.05,momentum=0.9"]
# Of losses, in steps of what factors are rounded to.
ROUNDING = {"fp32": 2e-5, "bf16": 2 * 2**-8, "fp16": 2 * 2**-11}


def expect_gradients(network, model, tmp_path):
    """On two stages; ours are made before the weights of the export are replaced."""
    torch.manual_seed(1)
    check_gradients(network(), model, SHAPE, 6, False, tmp_path, 3)


def expect_losses(model, precision, tmp_path):
    """Those of the processor in f32, on the emulation of a GPU, to the bit however the model is split."""
    images, labels = pipeline.draw_images(tmp_path, 24, SHAPE, 10)
    data = [f"input={images}", f"labels={labels}"]
    expected = pipeline.train(pipeline.compile_model(model, tmp_path / "processor", *OPTIONS), tmp_path / "expected", data=data, steps=STEPS)
    kept = {}
    for name, stages, options in (("one", "1", []), ("two", "1-1", ["--schedule", "1f1b"]),
                                  ("again", "1-1", ["--schedule", "zb-h1", "--recompute", "all"])):
        project = emulation.emit(model, tmp_path / name, *OPTIONS, "--precision", precision, "--stages", stages, *options,
                                 workers=stages.count("-") + 1)
        found = emulation.train_on_host(project, tmp_path / f"work-{name}", data=data, steps=STEPS)
        assert numpy.allclose(found.losses, expected.losses, rtol=ROUNDING[precision])
        pipeline.expect_same_bits(found, kept, model.stem)


def test_gradients_are_pytorchs(models, tmp_path):
    expect_gradients(gated.Gated, models("gated"), tmp_path)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_images_are_not_reordered(precision, models):
    """On GPUs, whose images have their channels innermost: neither by transpositions nor for gates and scales. Means over channels or
    rows alone are no numbers of channels, and what is made of them comes row-major."""
    program = pipeline.run(pipeline.BIN / "pdc", models("gated"), "--gpus", 1, *OPTIONS, "--precision", precision, "--stop-after", "scheduled").stdout
    units = [line.strip() for line in program.split("evaluate microbatch")[0].splitlines()
             if re.search(" = pdc.unit .* (forward|backward_input) microbatch ", line)]
    kernels = [(re.search(r'pdc.unit "([^"]*)"', line)[1], re.search(r'#pdc.kernel<"(\w+)"', line)) for line in units]
    moved = {name for name, kernel in kernels if kernel and (kernel[1] == "Reorder" or kernel[1] == "StridedCopy" and "Transpose" in name)}
    assert len(units) > 50 and any(name.startswith("input") for name in moved)
    assert not [name for name in moved if name.startswith(("/layer", "/gate", "/odd", "/norm", "/Transpose"))]


@emulation.on_host
@pytest.mark.parametrize("precision", list(ROUNDING))
def test_trains_like_the_processor(precision, models, tmp_path):
    expect_losses(models("gated"), precision, tmp_path)
