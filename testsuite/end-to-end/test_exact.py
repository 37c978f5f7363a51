"""Under --exact any number of stages, either transport and any synchronous schedule give the same bits."""

import json
import re

import pytest

import pipeline

# Network, shape of a sample, samples per microbatch, steps.
NETWORKS = {"lenet5": ((1, 28, 28), 8, 6), "fashion": ((1, 28, 28), 8, 6), "resnet18": ((3, 32, 32), 4, 2),
            "skips": ((24,), 8, 6)}
MICROBATCHES = 4


@pytest.fixture(scope="module")
def unsplit():
    return {}


# On one stage all schedules are one program.
SPLITS = [(network, schedule, stages) for network in ("lenet5", "fashion", "resnet18") for schedule in ("1f1b", "gpipe") for stages in (1, 2, 3, 4)
          if stages > 1 or schedule == "1f1b"]
SPLITS += [("lenet5", "zb-h1", 4), ("lenet5", "zb-h2", 3), ("fashion", "zb-h1", 3), ("fashion", "zb-h2", 2),
           ("resnet18", "zb-h1", 2), ("resnet18", "zb-h2", 4)]
# A value with two later readers, and one that passes stages by.
SPLITS += [("skips", "zb-h1", 6), ("skips", "gpipe", 5), ("skips", "1f1b", 1)]
SPLITS += [("lenet5", "1f1b", 5), ("lenet5", "zb-h2", 6)]


def expect_skips(project):
    """That one value goes to two later stages, and one past a stage."""
    sends = [(stage["id"], send["tensor"], send["to"]) for stage in json.loads((project / "plan.json").read_text())["stages"]
             for send in stage["sends"]]
    assert any(to > stage + 1 for stage, _, to in sends), sends
    assert len({tensor for _, tensor, _ in sends}) < len({(tensor, to) for _, tensor, to in sends}), sends


def blocks_cut_inside(project):
    """The residual blocks of ResNet that begin before a boundary and end behind it, with two tensors across: main path and skip."""
    stages = json.loads((project / "plan.json").read_text())["stages"]
    blocks = set()
    for boundary in range(1, len(stages)):
        before, behind = stages[:boundary], stages[boundary:]
        crossing = {send["tensor"] for stage in before for send in stage["sends"] if send["to"] >= boundary}
        begun = {match[0] for stage in before for node in stage["nodes"] if (match := re.match(r"/layer\d/layer\d\.\d/", node))}
        ended = {node.removesuffix("Add") for stage in behind for node in stage["nodes"]}
        blocks |= begun & ended if len(crossing) == 2 else set()
    return blocks


@pytest.mark.parametrize("network,schedule,stages", SPLITS)
def test_same_bits(network, schedule, stages, models, unsplit, tmp_path):
    shape, size, steps = NETWORKS[network]
    project = pipeline.compile_model(
        models(network), tmp_path / "project", "--exact", "--schedule", schedule, "--minibatch", size * MICROBATCHES,
        "--microbatches", MICROBATCHES, "--optimizer", "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3", workers=stages)
    # Gradients that meet at a skip are what a cut can get wrong.
    assert network != "resnet18" or stages == 1 or blocks_cut_inside(project)
    if network == "skips" and stages > 1:
        expect_skips(project)
    images, labels = pipeline.draw_images(tmp_path, size * MICROBATCHES * 3, shape, 10)
    for transport in ("local", "mpi"):
        result = pipeline.train(project, tmp_path / transport, data=[f"input={images}", f"labels={labels}"],
                                steps=steps, transport=transport)
        assert len(result.losses) == steps
        pipeline.expect_same_bits(result, unsplit, network)


def test_launchers_of_ones_own(models, tmp_path):
    """mpirun starts stage_0, stage_1, ..., or pdc-run once per rank, which then puts all stages into one program."""
    shape, size, _ = NETWORKS["lenet5"]
    project = pipeline.compile_model(models("lenet5"), tmp_path / "project", "--exact", "--minibatch", size * MICROBATCHES,
                                     "--microbatches", MICROBATCHES, "--stages", "1-1-1", workers=3)
    images, labels = pipeline.draw_images(tmp_path, size * MICROBATCHES * 3, shape, 10)
    data = [f"input={images}", f"labels={labels}"]
    together = pipeline.train(project, tmp_path / "together", data=data, steps=6)
    expected = {"lenet5": (together.losses, together.weights())}
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
    stages = [[1, project / "build" / f"stage_{stage}"] for stage in range(3)]
    for name, programs in (("stages", stages), ("ranks", [[3, pipeline.BIN / "pdc-run", project]])):
        log, checkpoints = tmp_path / f"{name}.jsonl", tmp_path / name
        options = ["--steps", 6, "--seed", 1, "--log", log, "--save", checkpoints]
        for entry in data:
            options += ["--data", entry]
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
        for number, program in enumerate(programs):
            command += [":"] * (number > 0) + ["-n", *program, *options]
        pipeline.run(*command)
        pipeline.expect_same_bits(pipeline.Training(log, checkpoints, ""), expected, "lenet5")


# Several stages per rank: ranks, schedule, chunks, microbatches.
CHUNKED = [("lenet5", 2, "interleaved", 2, 4), ("lenet5", 2, "interleaved", 3, 4), ("lenet5", 2, "zb-v", 2, 4),
           ("lenet5", 3, "zb-v", 2, 6), ("fashion", 2, "interleaved", 2, 4), ("fashion", 3, "interleaved", 2, 6),
           ("fashion", 2, "interleaved", 3, 4), ("fashion", 2, "zb-v", 2, 4), ("fashion", 3, "zb-v", 2, 4),
           ("resnet18", 2, "interleaved", 2, 4), ("resnet18", 3, "interleaved", 3, 6), ("resnet18", 2, "zb-v", 2, 4),
           ("resnet18", 3, "zb-v", 2, 4), ("fashion", 1, "interleaved", 3, 4), ("lenet5", 1, "zb-v", 2, 4),
           ("skips", 3, "interleaved", 2, 3), ("skips", 3, "zb-v", 2, 5),
           ("skips", 2, "auto", 3, 4)]


@pytest.mark.parametrize("network,ranks,schedule,chunks,microbatches", CHUNKED)
def test_same_bits_with_several_stages_per_rank(network, ranks, schedule, chunks, microbatches, models, tmp_path):
    shape, size, steps = NETWORKS[network]
    images, labels = pipeline.draw_images(tmp_path, size * microbatches * 3, shape, 10)
    data = [f"input={images}", f"labels={labels}"]
    whole = {}
    for folder, options, workers in (("whole", [], 1), ("split", ["--schedule", schedule, "--chunks", chunks], ranks)):
        project = pipeline.compile_model(
            models(network), tmp_path / folder, "--exact", *options, "--minibatch", size * microbatches,
            "--microbatches", microbatches, "--optimizer", "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3", workers=workers)
        if "auto" in options:  # whose rows no drawing shows
            assert json.loads((project / "plan.json").read_text())["schedule"] == "interleaved-searched"
        for transport in ("local", "mpi") if folder == "split" else ("local",):
            result = pipeline.train(project, tmp_path / f"{folder}-{transport}", data=data, steps=steps, transport=transport)
            pipeline.expect_same_bits(result, whole, network)


# Stage 0 runs its backward pass whole, stage 1 in halves and in an order of its own.
ROWS = """schedule mine
microbatches 4
stages 0 1
rank 0: 0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3 allreduce 0U3
rank 1: 1F0 1I0 1F1 1I1 1W0 1F2 1I2 1F3 1W1 1I3 1W2 1W3 allreduce 1U3
"""


def test_same_bits_by_rows_of_a_file(models, tmp_path):
    shape, size, steps = NETWORKS["fashion"]
    rows = tmp_path / "mine.rows"
    rows.write_text(ROWS)
    images, labels = pipeline.draw_images(tmp_path, size * MICROBATCHES * 3, shape, 10)
    whole = {}
    for folder, options, stages in (("whole", ["--microbatches", MICROBATCHES], 1), ("mine", ["--schedule", rows], 2)):
        project = pipeline.compile_model(models("fashion"), tmp_path / folder, "--exact", "--minibatch",
                                         size * MICROBATCHES, *options, workers=stages)
        result = pipeline.train(project, tmp_path / f"{folder}-run", steps=steps,
                                data=[f"input={images}", f"labels={labels}"])
        pipeline.expect_same_bits(result, whole, "fashion")
