"""Loops that read and write parts of tensors where they lie: nothing is copied apart or together for them."""

import re

import pytest

import emulation
import parts
import pipeline
import test_gated


def test_gradients_are_pytorchs(models, tmp_path):
    test_gated.expect_gradients(parts.Parts, models("parts"), tmp_path)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_nothing_is_copied(device, models):
    """But for the product, whose part is the only one that has to lie by itself, and where parts of several sizes become one."""
    program = pipeline.run(pipeline.BIN / "pdc", models("parts"), "--gpus", 1, *test_gated.OPTIONS, "--device", device, "--stop-after", "scheduled").stdout
    units = re.findall(r'pdc.unit "([^"]*)" origin .*#pdc.kernel<"(\w+)"', program.split("evaluate microbatch")[0])
    moved = [name for name, kernel in units if kernel in ("Split", "Concat")]
    assert len(units) > 30 and moved == [
        "/first/first.2/Concat", "/first/first.2/Concat_1", "/rows/rows.3/Slice", "/rows/rows.3/Slice/grad/Concat", "/first/first.2/Split/grad/Concat"]
    assert not any(kernel == "Reorder" and "halves" in name and "Split" in name for name, kernel in units)


@emulation.on_host
@pytest.mark.parametrize("precision", list(test_gated.ROUNDING))
def test_trains_like_the_processor(precision, models, tmp_path):
    """However the model is split, and where stages run their forward pass again."""
    test_gated.expect_losses(models("parts"), precision, tmp_path)
