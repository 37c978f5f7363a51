"""Every schedule on 1 to 6 ranks and with up to 3 replicas, on both transports, on a network of all that a cut can get wrong.

Synchronous ones have the bits of the unsplit run, or where all stages have r replicas of one stage with r of them; asynchronous
ones those of the literal references of test_pipedream and test_2bw. Other replicas of synchronous ones: test_drawn_replicas. A plain
check runs a few; tools/check --schedules all.
Asynchronous ones on 40 ranks train by rows of which their plans say the rhythm only.
"""

import json

import pytest

import knots
import pipeline
import test_2bw
import test_pipedream

TRANSPORTS = ("local", "mpi")
STRAIGHT = [[1] * ranks for ranks in range(1, 7)]
EQUAL = [[2], [3], [2, 2], [3, 3], [2, 2, 2]]
OTHER = [[2, 1], [1, 2], [1, 3], [3, 1, 2]]
MANY = [1] * 40  # of whose rows a plan holds none
SIZE, STEPS = 4, 3
QUICK = ["file-1-1-1", "zb-v-2-2", "vertical-2"]


def cells(schedules):
    """A parameter of schedule and replicas for each pair, those of `schedules` by name."""
    for schedule, vectors in schedules.items():
        for replicas in vectors:
            name = f"{schedule}-{'-'.join(map(str, replicas))}"
            yield pytest.param(schedule, replicas, id=name, marks=[] if name in QUICK else [pytest.mark.schedules])


SYNCHRONOUS = {name: STRAIGHT + EQUAL for name in ("1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved", "zb-v", "file")}
ASYNCHRONOUS = {"pipedream": STRAIGHT + EQUAL + OTHER, "vertical": STRAIGHT + EQUAL, "2bw": STRAIGHT + EQUAL + OTHER}


def write_rows(path, replicas, microbatches):
    """All forward passes first; every second stage runs its backward pass in halves, the second one microbatch late."""
    ranks, lines = [], []
    for stage, count in enumerate(replicas):
        ranks.append(",".join(str(len(lines) + replica) for replica in range(count)))
        for replica in range(count):
            own = range(replica, microbatches, count)
            steps = [f"{stage}F{m}" for m in own]
            if stage % 2:
                halves = [f"{stage}I{own[0]}"]
                for before, m in zip(own, own[1:]):
                    halves += [f"{stage}I{m}", f"{stage}W{before}"]
                steps += [*halves, f"{stage}W{own[-1]}"]
            else:
                steps += [f"{stage}B{m}" for m in own]
            update = f"{stage}U{microbatches - 1}"
            steps += ([f"allreduce:{update}"] if count > 1 else []) + ["allreduce", update]
            lines.append(f"rank {len(lines)}: {' '.join(steps)}")
    path.write_text("\n".join(["schedule mine", f"microbatches {microbatches}", f"stages {' '.join(ranks)}", *lines, ""]))
    return path


@pytest.fixture(scope="module")
def one_stage(models, tmp_path_factory):
    """The training of one stage, by its replicas and the microbatches of an update."""
    made = {}

    def train(replicas, microbatches):
        if (replicas, microbatches) not in made:
            work = tmp_path_factory.mktemp("one-stage")
            project = compile_knots(models, work / "project", "1f1b", [replicas], microbatches)
            made[replicas, microbatches] = pipeline.train(project, work / "run", data=draw(work, microbatches), steps=STEPS)
        return made[replicas, microbatches]

    return train


@pytest.fixture(scope="module")
def references(models, tmp_path_factory):
    """By the test of an update rule: its reference of a network."""
    return {test_2bw: test_pipedream.make_references(models, tmp_path_factory, test_2bw.MICROBATCHES),
            test_pipedream: test_pipedream.make_references(models, tmp_path_factory, test_pipedream.STEPS)}


def draw(folder, microbatches):
    """Two minibatches and a half: the last one has fewer microbatches."""
    return knots.draw(folder, SIZE * microbatches * 5 // 2)


def compile_knots(models, folder, schedule, replicas, microbatches):
    """microbatches: per update of the whole model."""
    rows = ["--schedule", schedule, "--stages", "-".join(map(str, replicas)), "--microbatches", microbatches // replicas[0]]
    if schedule == "file":
        rows = ["--schedule", write_rows(folder.parent / "mine.rows", replicas, microbatches)]
    return pipeline.compile_model(models("knots"), folder, "--exact", *rows, "--minibatch", microbatches * SIZE, "--optimizer",
                                  "momentum,lr=0.05,momentum=0.9", workers=sum(replicas))


@pytest.mark.parametrize("schedule,replicas", cells(SYNCHRONOUS))
def test_synchronous(schedule, replicas, models, one_stage, tmp_path):
    # A multiple of the ranks for each replica.
    microbatches = 10 if len(replicas) == 5 else 12
    expected = one_stage(replicas[0], microbatches)
    project = compile_knots(models, tmp_path / "project", schedule, replicas, microbatches)
    stages = json.loads((project / "plan.json").read_text())["stages"]
    assert len(stages) == len(replicas) * (2 if schedule in ("interleaved", "zb-v") else 1)
    for transport in TRANSPORTS:
        result = pipeline.train(project, tmp_path / transport, data=draw(tmp_path, microbatches), steps=STEPS, transport=transport)
        pipeline.expect_same_bits(result, {"knots": (expected.losses, expected.weights())}, "knots")


@pytest.mark.parametrize("schedule,replicas", cells(ASYNCHRONOUS))
def test_asynchronous(schedule, replicas, models, references, tmp_path):
    # The gradients of a tied weight's uses are sums of their own: only where one stage adds them alike is the order that of numpy.
    # The reference of 2bw knows no running statistics of replicas.
    network = "knots" if max(replicas) == 1 else "lenet5" if schedule == "2bw" else "skips"
    if schedule == "2bw":
        # At least as many as are in flight, and a part for each replica.
        one, count = references[test_2bw], max(len(replicas), 2) if replicas not in OTHER else 12 // replicas[0]
        split, result = test_2bw.check_update_rule(network, replicas, count, 0, "local", models, one, tmp_path)
        data = one(network, count if network == "knots" else 1).data
    else:
        one = references[test_pipedream]
        split, result = test_pipedream.check_update_rule(network, replicas, models, one, tmp_path, schedule == "vertical")
        data = one(network).data
    again = pipeline.train(split, tmp_path / "mpi", data=data, steps=len(result.losses), transport="mpi")
    pipeline.expect_same_bits(again, {network: (result.losses, result.weights())}, network)


@pytest.mark.schedules
@pytest.mark.parametrize("schedule", ["pipedream", "vertical", "2bw"])
def test_of_a_plan_without_rows(schedule, models, tmp_path_factory, tmp_path):
    """Long enough for the last versions to be those of updates that all stages have made."""
    count = len(MANY) * 9 // 4 if schedule == "2bw" else len(MANY) + 6
    references = test_pipedream.make_references(models, tmp_path_factory, count)
    if schedule == "2bw":
        split, _ = test_2bw.check_update_rule("ladder", MANY, len(MANY), 0, "local", models, references, tmp_path, count)
    else:
        split, _ = test_pipedream.check_update_rule("ladder", MANY, models, references, tmp_path, schedule == "vertical", steps=count)
    assert json.loads((split / "plan.json").read_text())["rows"] == []
