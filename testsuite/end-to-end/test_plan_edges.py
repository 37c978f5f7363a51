"""What a plan says that its stages send, against what the scheduled program sends; and what it says of other plans, against those."""

import json
import re

import pytest

import pipeline

S2VT = "--frames 4 --features 20 --words 4 --width 12 --hidden 16 --vocabulary 50 --dropout 0".split()
GPT2 = "--layers 2 --width 32 --heads 2 --vocabulary 60 --sequence 16".split()
# A residual network; tied weights; steps of a cell, whose gradients pass products by; two of them joined.
NETWORKS = {"resnet18": [], "gpt2": GPT2, "lstm": ["--layers", "1", "--sequence", "6"], "s2vt": S2VT}
SEND = re.compile(r'pdc\.send @(?:"([^"]*)"|(\S+)) stage (\d+) microbatch \d+ to (\d+)')


def expect_planned(model, folder, *options, workers):
    """Each value and gradient of a microbatch, from the stage that makes it to the ranks of each that reads it. Evaluation is not
    planned, and nothing is sent between stages of one rank."""
    project = pipeline.compile_model(model, folder, *options, workers=workers)
    command = [pipeline.BIN / "pdc", model, "--gpus", workers, "--device", "cpu", *options, "--stop-after", "scheduled"]
    sends = SEND.findall(pipeline.run(*command).stdout)
    sent = {(quoted or plain, int(source), int(rank)) for quoted, plain, source, rank in sends}
    plan = json.loads((project / "plan.json").read_text())
    ranks = {stage["id"]: stage["ranks"] for stage in plan["stages"]}
    edges = [edge for edge in plan["edges"] if ranks[edge["from"]] != ranks[edge["to"]]]
    planned = {(edge["tensor"], edge["from"], rank) for edge in edges for rank in ranks[edge["to"]]}
    assert any(edge["from"] > edge["to"] for edge in edges)
    assert {edge for edge in sent if not edge[0].startswith("evaluate/")} == planned
    return plan


@pytest.mark.parametrize("schedule,stages", [("1f1b", "1-1-1-1"), ("zb-h1", "1-1-1-1"), ("pipedream", "1-1-1-1"), ("1f1b", "1-2-1"),
                                             ("interleaved", "1-1"), ("zb-v", "1-1")])
@pytest.mark.parametrize("network", NETWORKS)
def test_every_send_is_planned(network, schedule, stages, models, tmp_path):
    microbatches = 1 if schedule == "pipedream" else 4
    replicas = [int(count) for count in stages.split("-")]
    expect_planned(models(network, *NETWORKS[network]), tmp_path / "project", "--minibatch", 8, "--microbatches", microbatches,
                   "--schedule", schedule, "--stages", stages, workers=sum(replicas))


@pytest.mark.parametrize("network", ["gru", "resnet18"])
def test_cut_anywhere(network, models, tmp_path):
    """Between steps of a cell, whose weights' gradients are then summed in the earlier stage, and in front of changes of layout."""
    model = models(*{"gru": ("lstm", "--layers", "1", "--cell", "GRU", "--sequence", 6), "resnet18": ("resnet18",)}[network])
    options = ["--minibatch", 4, "--microbatches", 2, "--schedule", "1f1b"]
    nodes = pipeline.nodes_of(pipeline.compile_model(model, tmp_path / "whole", *options))
    for cut in range(len(nodes) // 7, len(nodes) - 5, len(nodes) // 7):
        file = pipeline.write_cut(nodes, cut, tmp_path / "stages.json")
        refused = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", *options, "--stages", file, "--stop-after",
                               "cut", check=False).stderr
        if "are one kernel" not in refused:
            expect_planned(model, tmp_path / str(cut), *options, "--stages", file, workers=2)


def test_steps_of_a_cell_send_gradients(models, tmp_path):
    """Cut behind what prepares all steps: each sends the gradient of what it reads, and its weights' gradients can wait."""
    model, options = models("lstm", "--layers", "1"), ["--minibatch", 4, "--microbatches", 2]
    nodes = pipeline.nodes_of(pipeline.compile_model(model, tmp_path / "one", *options))
    split = next(number for number, node in enumerate(nodes) if node.endswith("Split"))
    cut = pipeline.write_cut(nodes, split + 1, tmp_path / "stages.json")
    two = pipeline.compile_model(model, tmp_path / "two", *options, "--stages", cut, workers=2)
    plan = json.loads((two / "plan.json").read_text())
    back = [edge for edge in plan["edges"] if edge["producer"] == "B"]
    assert len(back) == 12 and {edge["bytes"] for edge in back} == {2 * 4 * 48 * 4}
    last = plan["stages"][1]
    assert last["backward_weight_seconds"] < 0.5 * last["backward_seconds"]


def test_a_residual_connection_sends_one_gradient_back(models, tmp_path):
    """The normalisation and the addition that read it both lie behind the cut: what they send is their sum."""
    model, options = models("gpt2", *GPT2), ["--minibatch", 8, "--microbatches", 4, "--schedule", "1f1b"]
    nodes = pipeline.nodes_of(pipeline.compile_model(model, tmp_path / "whole", *options))
    first = next(number for number, node in enumerate(nodes) if "layers.1" in node)
    cut = pipeline.write_cut(nodes, first, tmp_path / "stages.json")
    project = expect_planned(model, tmp_path / "cut", "--stages", cut, *options, workers=2)
    assert sorted((edge["from"], edge["to"]) for edge in project["edges"]) == [(0, 1), (1, 0)]


@pytest.mark.parametrize("minibatch,workers,shared", [(48, 2, 48), (64, 7, 63)])
def test_data_parallelism_is_what_its_plan_says(minibatch, workers, shared, models, tmp_path):
    """Kernels of a small network take as long for half of the samples: on GPUs replicas are less fast than the work of a pipeline's
    microbatches tells."""
    plans = []
    for name, options in {"pipeline": ["--schedule", "1f1b", "--minibatch", minibatch],
                          "parallel": ["--stages", workers, "--minibatch", shared, "--microbatches", 1]}.items():
        pipeline.run(pipeline.BIN / "pdc", models("gpt2", *GPT2), "--gpus", workers, *options, "-o", tmp_path / name)
        plans.append(json.loads((tmp_path / name / "plan.json").read_text()))
    told = {baseline["name"]: baseline for baseline in plans[0]["baselines"]}["data_parallel"]
    assert told["planned"]
    assert told["seconds_per_minibatch"] / minibatch == pytest.approx(plans[1]["seconds_per_minibatch"] / shared)
    assert "at most" not in (tmp_path / "pipeline" / "plan.txt").read_text()
