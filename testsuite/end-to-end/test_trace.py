"""The measured timeline shows the tasks of the predicted one in the same order on every rank, and waits as it does."""

import json

import pytest

import pipeline

MICROBATCHES, SIZE = 6, 8
SHAPES = {"mlp": (784,), "skips": (24,), "resnet18": (3, 32, 32), "vgg11": (3, 32, 32)}


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


@pytest.mark.parametrize("network,schedule,size,microbatches", [
    ("resnet18", "1f1b", 2, 4), ("vgg11", "gpipe", 8, 4), ("vgg11", "zb-h1", 8, 2)])
def test_bubble_of_the_tasks_own_seconds(network, schedule, size, microbatches, models, tmp_path):
    """Two processes with real work wait as the plan does that is played with the seconds that their tasks took.

    What else computes on this machine lengthens tasks, which is played, and now and then a wait, which is not: so of the
    minibatches the least disturbed is not to wait much longer, and half of them not much shorter. How near both are on a
    machine of their own, tools/bench/prediction says.
    """
    steps = 12
    project = pipeline.compile_model(models(network), tmp_path / "project", "--schedule", schedule, "--stages", "1-1",
                                     "--minibatch", size * microbatches, "--microbatches", microbatches, workers=2)
    images, labels = pipeline.draw_images(tmp_path, size * microbatches, SHAPES[network], 10)
    trace, times = tmp_path / "measured.json", tmp_path / "times.json"
    training = pipeline.train(project, tmp_path / "run", "--trace", trace, data=[f"input={images}", f"labels={labels}"],
                              steps=steps, transport="mpi")
    assert f"pdc-prove {project}/plan.json {trace}" in training.output
    told = pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", trace, "--json", times).stdout
    assert "tasks in the order of the plan" in told and "played with each task's own seconds" in told
    # The first minibatches touch their memory for the first time.
    each = json.loads(times.read_text())["each"][2:]
    assert len(each) == steps - 2
    assert all(0.01 < minibatch["played"]["bubble"] < 0.9 for minibatch in each)
    longer = sorted(minibatch["measured"]["bubble"] - minibatch["played"]["bubble"] for minibatch in each)
    assert longer[0] <= 0.1 and longer[len(longer) // 2] >= -0.1, longer


def test_refuses_another_order(models, tmp_path):
    project = pipeline.compile_model(models("mlp", "--hidden", 64, 32), tmp_path / "project", "--schedule", "1f1b", "--stages",
                                     "1-1", "--minibatch", 16, "--microbatches", 4, workers=2)
    images, labels = pipeline.draw_images(tmp_path, 16, (784,), 10)
    trace = tmp_path / "measured.json"
    pipeline.train(project, tmp_path / "run", "--trace", trace, data=[f"input={images}", f"labels={labels}"], steps=3)
    written = trace.read_text()

    def refused(text):
        trace.write_text(text)
        result = pipeline.run(pipeline.BIN / "pdc-prove", project / "plan.json", trace, check=False)
        assert result.returncode == 1
        return result.stderr

    # Microbatches 2 and 3 change places on rank 1.
    swapped = json.loads(written)
    for event in swapped["traceEvents"]:
        if event["pid"] == 1 and event.get("cat") in ("forward", "backward") and event["args"]["microbatch"] in (2, 3):
            event["args"]["microbatch"] = 5 - event["args"]["microbatch"]
    assert "rank 1 ran 1F3 where the plan has 1F2" in refused(json.dumps(swapped))
    assert "event 3 is not as --trace writes it" in refused(written.replace('"args"', '"arguments"'))
    assert "is not of this plan" in refused(written.replace('"stage":1', '"stage":7'))
    assert "holds no whole step of training" in refused('{"traceEvents": []}')
