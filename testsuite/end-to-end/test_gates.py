"""Gated linear units: their backward pass keeps no values of gates and reads what arrives once."""

import re

import pytest

import emulation
import gates
import pipeline
import test_gated


def test_gradients_are_pytorchs(models, tmp_path):
    test_gated.expect_gradients(gates.Gates, models("gates"), tmp_path)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_gates_take_one_loop_each_way(device, models):
    program = pipeline.run(pipeline.BIN / "pdc", models("gates"), "--gpus", 1, *test_gated.OPTIONS, "--device", device, "--stop-after", "scheduled").stdout
    units = [re.match(r'%\d+(?::(\d))? = pdc.unit "([^"]*)".* (forward|backward_input) microbatch', line.strip())
             for line in program.split("evaluate microbatch")[0].splitlines()]
    for number, function in ((0, "Sigmoid"), (1, "Mul"), (3, "Tanh"), (6, "Tanh")):
        own = {unit.group(1, 2, 3) for unit in units if unit and re.search(rf"/units\.{number}/({function}|Mul|Sigmoid)", unit[2])}
        (forward,) = [name for _, name, phase in own if phase == "forward"]
        ((results, backward),) = [(results, name) for results, name, phase in own if phase == "backward_input"]
        assert forward.startswith(f"/units.{number}/{function}+") and f"/{function}/again" in backward and results == "2"


@emulation.on_host
@pytest.mark.parametrize("precision", list(test_gated.ROUNDING))
def test_trains_like_the_processor(precision, models, tmp_path):
    """However the model is split, and where stages run their forward pass again."""
    test_gated.expect_losses(models("gates"), precision, tmp_path)
