"""Stages that run their forward pass again hold less and compute the same bits, Dropout and BatchNormalization included."""

import json
import re

import onnx
import pytest

import pipeline

SHAPE, SIZE, MICROBATCHES, STEPS = (1, 28, 28), 8, 4, 4


@pytest.fixture(scope="module")
def kept():
    return {}


def cut_by_hand(model, stages, file):
    """What recomputation costs may move the planner's cut, and asynchronous bits with it."""
    names = [node.name for node in onnx.load(model).graph.node if node.op_type != "Constant"]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: i * stages // len(names) for i, name in enumerate(names)}))
    return file


def train(model, folder, schedule, stages, recompute, transport="local"):
    batch = ["--minibatch", SIZE * MICROBATCHES, "--microbatches", MICROBATCHES]
    if schedule == "pipedream":
        batch = ["--minibatch", SIZE, "--stages", cut_by_hand(model, stages, folder / "cut.json")]
    project = pipeline.compile_model(model, folder / "project", "--exact", "--schedule", schedule, "--recompute", recompute,
                                     "--optimizer", "momentum,lr=0.05,momentum=0.9", *batch, workers=stages)
    images, labels = pipeline.draw_images(folder, SIZE * MICROBATCHES * 3, SHAPE, 10)
    return project, pipeline.train(project, folder / transport, data=[f"input={images}", f"labels={labels}"],
                                   steps=STEPS * (MICROBATCHES if schedule == "pipedream" else 1), transport=transport)


def arenas(project, stages):
    return [int(re.search(r"arenaBytes = (\d+)", (project / f"stage_{stage}.cpp").read_text()).group(1))
            for stage in range(stages)]


CASES = [("gpipe", 1, "all", "local"), ("1f1b", 2, "all", "mpi"), ("gpipe", 4, "1,3", "local"),
         ("zb-h1", 3, "all", "local"), ("pipedream", 3, "all", "local")]


@pytest.mark.parametrize("schedule,stages,recompute,transport", CASES)
def test_same_bits(schedule, stages, recompute, transport, models, kept, tmp_path):
    model = models("fashion")
    # Asynchronous schedules give other bits at other numbers of stages, synchronous ones never.
    name = f"pipedream on {stages}" if schedule == "pipedream" else "synchronous"
    if name not in kept:
        _, result = train(model, tmp_path / "kept", schedule if schedule == "pipedream" else "gpipe",
                          stages if schedule == "pipedream" else 1, "none")
        pipeline.expect_same_bits(result, kept, name)
    project, result = train(model, tmp_path / "again", schedule, stages, recompute, transport)
    pipeline.expect_same_bits(result, kept, name)
    plan = json.loads((project / "plan.json").read_text())
    chosen = list(range(stages)) if recompute == "all" else [int(stage) for stage in recompute.split(",")]
    assert [stage["id"] for stage in plan["stages"] if stage["recompute"]] == chosen
    assert "recomputed_" in (project / f"stage_{chosen[0]}.cpp").read_text()


def test_memory_decides(models, tmp_path):
    """`auto` recomputes where the limit asks for it, and the arena of that stage shrinks."""
    options = ["--schedule", "gpipe", "--minibatch", 8 * SIZE, "--microbatches", 8]
    model = models("fashion")
    whole = pipeline.compile_model(model, tmp_path / "whole", *options, workers=2)
    plan = json.loads((whole / "plan.json").read_text())
    assert not any(stage["recompute"] for stage in plan["stages"])
    # Just below, another cut would do.
    limit = max(stage["memory_bytes"] for stage in plan["stages"]) * 7 // 10
    tight = pipeline.compile_model(model, tmp_path / "tight", *options, "--memory", limit, workers=2)
    plan = json.loads((tight / "plan.json").read_text())
    assert any(stage["recompute"] for stage in plan["stages"])
    assert all(stage["memory_bytes"] <= limit for stage in plan["stages"])
    everywhere = pipeline.compile_model(model, tmp_path / "all", *options, "--recompute", "all", workers=2)
    assert sum(arenas(everywhere, 2)) < 0.7 * sum(arenas(whole, 2))
    refused = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "-o", tmp_path / "none",
                           *options, "--memory", "100K", check=False)
    assert refused.returncode == 1
    assert re.search(r"error: stage \d needs \d+ bytes of memory and a device has 102400 bytes: \d+ bytes too few, although it runs the forward "
                     r"pass again; what would help: more workers or a smaller microbatch", refused.stderr)
