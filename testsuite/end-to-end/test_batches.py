"""How pdc cuts an update's samples into microbatches where that is open."""

import json

import pytest

import pipeline


def compiled(model, folder, *options):
    """The plan's seconds per update, and what pdc said meanwhile."""
    printed = pipeline.run(pipeline.BIN / "pdc", model, "-o", folder, *options)
    return json.loads((folder / "plan.json").read_text())["seconds_per_minibatch"], printed.stdout + printed.stderr


@pytest.mark.parametrize("device, schedule, workers, minibatch", [("cuda", "auto", 8, 32), ("cpu", "1f1b", 4, 24)])
def test_large_graphs_plan_the_sizes_that_promise_most(device, schedule, workers, minibatch, models, tmp_path):
    """Of more than 500 units two or three sizes are planned, and none of the others is faster."""
    model = models("mlp", "--hidden", *[24] * 520)
    options = ["--gpus", workers, "--device", device, "--schedule", schedule, "--minibatch", minibatch]
    chosen, said = compiled(model, tmp_path / "open", *options)
    assert "samples are not planned: for" in said
    for microbatches in [count for count in range(1, minibatch + 1) if minibatch % count == 0]:
        given, _ = compiled(model, tmp_path / str(microbatches), *options, "--microbatches", microbatches)
        assert chosen <= 1.02 * given, microbatches
