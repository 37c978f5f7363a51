"""Under --exact any number of stages, either transport and any synchronous schedule give the same bits."""

import json
import re

import numpy
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
# ResNet-18 takes longest: a plain check cuts it in four for one schedule, and in three for the other.
LEFT_OUT = [("resnet18", "1f1b", 3), ("resnet18", "gpipe", 2), ("resnet18", "gpipe", 4)]
SPLITS = [pytest.param(*split, marks=[pytest.mark.schedules] * (split in LEFT_OUT)) for split in SPLITS]


def expect_skips(project):
    """That one value goes to two later stages, and one past a stage."""
    sends = [(stage["id"], send["tensor"], send["to"]) for stage in json.loads((project / "plan.json").read_text())["stages"]
             for send in stage["sends"]]
    assert any(to > stage + 1 for stage, _, to in sends), sends
    assert len({tensor for _, tensor, _ in sends}) < len({(tensor, to) for _, tensor, to in sends}), sends


def cut_block(model, folder):
    """What --stages takes to cut the second of ResNet's blocks of 128 channels between its convolutions."""
    nodes = pipeline.nodes_of(pipeline.compile_model(model, folder / "whole", "--minibatch", MICROBATCHES))
    return pipeline.write_cut(nodes, nodes.index("/layer2/layer2.1/conv2/Conv"), folder / "cut.json")


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
    # Gradients that meet at a skip are what a cut can get wrong; where there is one cut, the planner's may miss all blocks.
    cut = ["--stages", cut_block(models(network), tmp_path)] if (network, stages) == ("resnet18", 2) else []
    project = pipeline.compile_model(
        models(network), tmp_path / "project", "--exact", "--schedule", schedule, "--minibatch", size * MICROBATCHES,
        "--microbatches", MICROBATCHES, "--optimizer", "momentum,lr=0.05,momentum=0.9,weight_decay=1e-3", *cut, workers=stages)
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


def test_rows_of_a_plan_given_back(models, tmp_path):
    """Its sends and receives too, whose edges are those of the cut."""
    rows = tmp_path / "plan.rows"
    planned = []
    for name, schedule in (("planned", "zb-h1"), ("given", rows)):
        project = pipeline.compile_model(models("skips"), tmp_path / name, "--minibatch", 32, "--microbatches", MICROBATCHES,
                                         "--schedule", schedule, "--stages", "1-1-1", workers=3)
        planned.append(json.loads((project / "plan.json").read_text())["rows"])
        rows.write_text("\n".join(planned[0]))
    assert planned[0] == planned[1]
    assert ">2#" in planned[0][3], "no edge skips a stage"


# GPipe's own order: what was last in the forward pass comes first in the backward pass. Stage 0 has two replicas.
REVERSED = """schedule mine
microbatches 4
stages 0,1 2 3
rank 0: 0F0 0F2 0B2 0B0 allreduce:0U3 allreduce 0U3
rank 1: 0F1 0F3 0B3 0B1 allreduce:0U3 allreduce 0U3
rank 2: 1F0 1F1 1F2 1F3 1B3 1B2 1B1 1B0 allreduce 1U3
rank 3: 2F0 2F1 2F2 2F3 2I3 2I2 2W3 2W2 2I1 2I0 2W1 2W0 allreduce 2U3
"""


def test_any_order_of_microbatches(models, tmp_path):
    """Sums in another order have other bits, and are the same sums; a last minibatch of 3 microbatches included."""
    shape, size, steps = NETWORKS["skips"]
    rows = tmp_path / "mine.rows"
    rows.write_text(REVERSED)
    batch = ["--minibatch", size * MICROBATCHES, "--optimizer", "momentum,lr=0.05,momentum=0.9"]
    images, labels = pipeline.draw_images(tmp_path, size * (MICROBATCHES * 2 + 3), shape, 10)
    runs = {}
    for name, options, workers in (("whole", ["--microbatches", MICROBATCHES], 1), ("mine", ["--schedule", rows], 4)):
        project = pipeline.compile_model(models("skips"), tmp_path / name, *batch, *options, workers=workers)
        for transport in ("local", "mpi")[:workers]:
            runs[name, transport] = pipeline.train(project, tmp_path / f"{name}-{transport}", steps=steps, transport=transport,
                                                   data=[f"input={images}", f"labels={labels}"])
    pipeline.expect_same_bits(runs["mine", "mpi"], {"skips": (runs["mine", "local"].losses, runs["mine", "local"].weights())}, "skips")
    assert runs["mine", "mpi"].losses == pytest.approx(runs["whole", "local"].losses, rel=1e-5)
    weights, statistics = runs["mine", "mpi"].weights(), ("running_mean", "running_var")
    for name, expected in runs["whole", "local"].weights().items():
        # Replicas average their running statistics.
        assert name.endswith(statistics) or numpy.allclose(weights[name], expected, rtol=1e-4, atol=1e-6), name
    record = tmp_path / "record.txt"
    pipeline.train(project, tmp_path / "recorded", "--record", record, steps=2, data=[f"input={images}", f"labels={labels}"])
    assert len(pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", record).stdout.splitlines()) == 2
    refused = pipeline.run(pipeline.BIN / "pdc", models("skips"), "--gpus", 4, "--device", "cpu", "-o", tmp_path / "exact", *batch,
                           "--schedule", rows, "--exact", check=False)
    assert refused.returncode == 1 and "microbatch 2 came before, and --exact sums in ascending order" in refused.stderr
    assert "!0B0" in refused.stderr
