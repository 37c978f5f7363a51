"""What a plan says that its stages send, against what the scheduled program sends."""

import json
import re

import pytest

import pipeline

S2VT = "--frames 4 --features 20 --words 4 --width 12 --hidden 16 --vocabulary 50 --dropout 0".split()
GPT2 = "--layers 2 --width 32 --heads 2 --vocabulary 60 --sequence 16".split()
# A residual network; tied weights; steps of a cell, whose gradients pass products by; two of them joined.
NETWORKS = {"resnet18": [], "gpt2": GPT2, "lstm": ["--layers", "1"], "s2vt": S2VT}
SEND = re.compile(r'pdc\.send @(?:"([^"]*)"|(\S+)) stage (\d+) microbatch \d+ to (\d+)')


def expect_planned(model, folder, *options):
    """Each value and gradient of a microbatch, from the stage that makes it to each that reads it. Evaluation is not planned."""
    project = pipeline.compile_model(model, folder, *options, workers=4)
    command = [pipeline.BIN / "pdc", model, "--gpus", 4, "--device", "cpu", *options, "--stop-after", "scheduled"]
    sends = SEND.findall(pipeline.run(*command).stdout)
    sent = {(quoted or plain, int(source), int(target)) for quoted, plain, source, target in sends}
    plan = json.loads((project / "plan.json").read_text())
    planned = {(edge["tensor"], edge["from"], edge["to"]) for edge in plan["edges"]}
    assert len(planned) == len(plan["edges"]) > 3
    assert {edge for edge in sent if not edge[0].startswith("evaluate/")} == planned
    assert any(source > target for _, source, target in planned)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "pipedream"])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_send_is_planned(network, schedule, models, tmp_path):
    microbatches = 1 if schedule == "pipedream" else 2
    expect_planned(models(network, *NETWORKS[network]), tmp_path / "project", "--minibatch", 4, "--microbatches", microbatches,
                   "--schedule", schedule, "--stages", "1-1-1-1")


def test_steps_of_a_cell_send_gradients(models, tmp_path):
    """Cut behind what prepares all steps: each sends the gradient of what it reads, and its weights' gradients can wait."""
    model, options = models("lstm", "--layers", "1"), ["--minibatch", 4, "--microbatches", 2]
    plan = json.loads((pipeline.compile_model(model, tmp_path / "one", *options) / "plan.json").read_text())
    nodes = plan["stages"][0]["nodes"]
    cut = tmp_path / "stages.json"
    split = next(number for number, node in enumerate(nodes) if node.endswith("Split"))
    cut.write_text(json.dumps({node: int(number > split) for number, node in enumerate(nodes)}))
    two = pipeline.compile_model(model, tmp_path / "two", *options, "--stages", cut, workers=2)
    plan = json.loads((two / "plan.json").read_text())
    back = [edge for edge in plan["edges"] if edge["producer"] == "B"]
    assert len(back) == 12 and {edge["bytes"] for edge in back} == {2 * 4 * 48 * 4}
    last = plan["stages"][1]
    assert last["backward_weight_seconds"] < 0.5 * last["backward_seconds"]
