"""The measured timeline shows the tasks that the predicted one shows, in the same order on every rank."""

import json

import pytest

import pipeline

STAGES, MICROBATCHES, SIZE = 3, 6, 8


def tasks(path):
    """Labels such as F0 of each rank's tasks, by start."""
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    events.sort(key=lambda event: event["ts"])
    return [[event["name"] for event in events if event["pid"] == rank and event["tid"] == 0 and
             event["cat"] != "all_reduce"] for rank in range(STAGES)]


@pytest.mark.parametrize("schedule,letters", [("gpipe", "FBU"), ("1f1b", "FBU"), ("zb-h1", "FIWU"), ("zb-h2", "FIWU")])
def test_same_tasks_in_the_same_order(schedule, letters, models, tmp_path):
    project = pipeline.compile_model(models("mlp"), tmp_path / "project", "--schedule", schedule, "--minibatch",
                                     SIZE * MICROBATCHES, "--microbatches", MICROBATCHES, workers=STAGES)
    images, labels = pipeline.draw_images(tmp_path, SIZE * MICROBATCHES, (784,), 10)
    pipeline.train(project, tmp_path / "run", "--trace", tmp_path / "measured.json",
                   data=[f"input={images}", f"labels={labels}"], steps=1)
    predicted, measured = tasks(project / "trace.json"), tasks(tmp_path / "measured.json")
    for rank in range(STAGES):
        assert {label[0] for label in measured[rank]} == set(letters)
        assert measured[rank] == predicted[rank][:len(measured[rank])]
        assert len(measured[rank]) == MICROBATCHES * (len(letters) - 1) + 1
