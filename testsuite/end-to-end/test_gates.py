"""Gated linear units: their backward pass keeps no values of gates and reads what arrives once."""

import re

import numpy
import pytest
import torch

import gates
import pipeline
import test_cuda
from test_pytorch import check_gradients

SHAPE, STEPS = (8, 6, 7), 3
OPTIONS = ["--minibatch", 6, "--microbatches", 1, "--optimizer", "momentum,lr=0.05,momentum=0.9"]
# Of losses, in steps of what factors are rounded to.
ROUNDING = {"fp32": 2e-5, "bf16": 2 * 2**-8, "fp16": 2 * 2**-11}


def test_gradients_are_pytorchs(models, tmp_path):
    """On two stages; ours are made before the weights of the export are replaced."""
    torch.manual_seed(1)
    check_gradients(gates.Gates(), models("gates"), SHAPE, 6, False, tmp_path, 3)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gates_take_one_loop_each_way(device, models):
    program = pipeline.run(pipeline.BIN / "pdc", models("gates"), "--gpus", 1, *OPTIONS, "--device", device, "--stop-after", "scheduled").stdout
    units = [re.match(r'%\d+(?::(\d))? = pdc.unit "([^"]*)".* (forward|backward_input) microbatch', line.strip())
             for line in program.split("evaluate microbatch")[0].splitlines()]
    for number, function in ((0, "Sigmoid"), (1, "Mul"), (3, "Tanh")):
        own = {unit.group(1, 2, 3) for unit in units if unit and re.search(rf"/units\.{number}/({function}|Mul)", unit[2])}
        (forward,) = [name for _, name, phase in own if phase == "forward"]
        ((results, backward),) = [(results, name) for results, name, phase in own if phase == "backward_input"]
        assert forward.startswith(f"/units.{number}/{function}+") and f"/{function}/again" in backward and results == "2"


@test_cuda.on_host
@pytest.mark.parametrize("precision", list(ROUNDING))
def test_trains_like_the_processor(precision, models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 24, SHAPE, 10)
    data = [f"input={images}", f"labels={labels}"]
    expected = pipeline.train(pipeline.compile_model(models("gates"), tmp_path / "processor", *OPTIONS), tmp_path / "expected", data=data, steps=STEPS)
    kept = {}
    for name, stages, options in (("one", "1", []), ("two", "1-1", ["--schedule", "1f1b"]), ("again", "1-1", ["--schedule", "zb-h1", "--recompute", "all"])):
        project = test_cuda.emit(models("gates"), tmp_path / name, *OPTIONS, "--precision", precision, "--stages", stages, *options,
                                 workers=stages.count("-") + 1)
        found = test_cuda.train_on_host(project, tmp_path / f"work-{name}", data=data, steps=STEPS)
        assert numpy.allclose(found.losses, expected.losses, rtol=ROUNDING[precision])
        pipeline.expect_same_bits(found, kept, "gates")
