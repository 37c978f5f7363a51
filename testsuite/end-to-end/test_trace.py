"""The measured timeline shows the tasks that the predicted one shows, in the same order on every rank."""

import json

import pytest

import pipeline

MICROBATCHES, SIZE = 6, 8
SHAPES = {"mlp": (784,), "skips": (24,)}


def tasks(path, ranks):
    """Stage and label such as F0 of each rank's tasks, by start."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    events.sort(key=lambda event: event["ts"])
    return [[(event["args"]["stage"], event["name"]) for event in events if event["pid"] == rank and event["tid"] == 0 and
             event["cat"] not in ("all_reduce", "reduce_gradients")] for rank in range(ranks)]


@pytest.mark.parametrize("network,schedule,replicas,letters", [
    ("mlp", "gpipe", [1, 1, 1], "FBU"), ("mlp", "1f1b", [1, 1, 1], "FBU"), ("mlp", "zb-h1", [1, 1, 1], "FIWU"),
    ("mlp", "zb-h2", [1, 1, 1], "FIWU"), ("skips", "zb-v", [2, 2], "FIWU"),
    ("skips", "auto", [1, 1], "F")])
def test_same_tasks_in_the_same_order(network, schedule, replicas, letters, models, tmp_path):
    """Of auto the rows that it has searched for stages with two of them on a rank."""
    options = ["--chunks", 2] if schedule == "auto" else ["--stages", "-".join(map(str, replicas))]
    project = pipeline.compile_model(models(network), tmp_path / "project", "--schedule", schedule, *options, "--minibatch",
                                     SIZE * MICROBATCHES, "--microbatches", MICROBATCHES // replicas[0], workers=sum(replicas))
    plan = json.loads((project / "plan.json").read_text())
    assert schedule != "auto" or plan["schedule"].endswith("-searched")
    images, labels = pipeline.draw_images(tmp_path, SIZE * MICROBATCHES, SHAPES[network], 10)
    pipeline.train(project, tmp_path / "run", "--trace", tmp_path / "measured.json",
                   data=[f"input={images}", f"labels={labels}"], steps=1)
    ranks = sum(replicas)
    predicted, measured = tasks(project / "trace.json", ranks), tasks(tmp_path / "measured.json", ranks)
    for rank in range(ranks):
        here = [stage for stage in plan["stages"] if rank in stage["ranks"]]
        assert {label[0] for _, label in measured[rank]} >= set(letters)
        assert measured[rank] == predicted[rank][:len(measured[rank])]
        forward = sum(label[0] == "F" for _, label in measured[rank])
        assert forward == sum(len(range(stage["ranks"].index(rank), MICROBATCHES, stage["replicas"])) for stage in here)
