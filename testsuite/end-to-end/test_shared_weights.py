"""A layer that several depths of a network share and a matrix at both its ends: one sum of gradients for all uses in a stage."""

import json
import re

import pytest
import torch

import emulation
import export
import pipeline

BATCH, RATE, ROWS, WIDTH, DEPTH = 8, 16.0, 6, 16, 5
OPTIONS = ["--minibatch", BATCH, "--microbatches", 2, "--optimizer", f"sgd,lr={RATE}"]


class Shared(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.ends, self.bias = torch.nn.Parameter(torch.randn(WIDTH, 10) / 4), torch.nn.Parameter(torch.zeros(10))
        self.layer = torch.nn.Sequential(torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.GELU(),
                                         torch.nn.Linear(2 * WIDTH, WIDTH))
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        x = x @ self.ends.t()
        for _ in range(DEPTH):
            x = x + self.scale * self.layer(x)
        return (x.mean(1) * self.scale) @ self.ends + self.bias


@pytest.fixture(name="shared", scope="module")
def exported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    torch.manual_seed(6)
    net = Shared()
    export.export(net, (ROWS, 10), folder / "shared.onnx")
    inputs = {"input": torch.randn(BATCH, ROWS, 10), "labels": torch.randint(0, 10, (BATCH,))}
    net.double()
    loss = torch.nn.functional.cross_entropy(net(inputs["input"].double()), inputs["labels"])
    loss.backward()
    return net, loss.item(), folder / "shared.onnx", pipeline.save_inputs(inputs, folder)


def sums_of(project):
    """Of gradients, in the sources of each stage that makes one."""
    return {source.stem: sorted(re.findall(r"// f32\[\S*\] (\S+/gradient\S*)", source.read_text())) for source in project.glob("stage_?.cpp")}


@pytest.mark.parametrize("workers, options", [
    (1, []), (2, ["--stages", "2"]), (2, ["--stages", "1-1"]), (3, ["--stages", "1-1-1", "--schedule", "gpipe"]), (3, ["--stages", "2-1"]),
    (2, ["--stages", "1-1", "--schedule", "zb-h1"]), (3, ["--stages", "1-2", "--schedule", "zb-h2"]), (2, ["--schedule", "zb-v"]),
    (2, ["--stages", "1-1", "--recompute", "all"]), (2, ["--stages", "1-1", "--exact"]), (2, ["--stages", "1-1", "--schedule", "2bw"]),
    (2, ["--stages", "1-1", "--schedule", "pipedream"])], ids=lambda given: "-".join(given).replace("--", "") if isinstance(given, list) else None)
def test_against_pytorch(workers, options, shared, tmp_path):
    """The first update of an asynchronous schedule is of the first weights, too; pipedream's of the one microbatch."""
    net, loss, model, data = shared
    given = [option for option in OPTIONS if option not in ("--microbatches", 2)] if "pipedream" in options else OPTIONS
    project = pipeline.compile_model(model, tmp_path / "project", *given, *options, workers=workers)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=1)
    assert result.losses[0] == pytest.approx(loss, rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)


def test_one_sum_for_all_uses(shared, tmp_path):
    net, _, model, _ = shared
    names = [name for name, _ in net.named_parameters()]
    one = pipeline.compile_model(model, tmp_path / "one", *OPTIONS)
    assert sums_of(one) == {"stage_0": sorted(f"{name}/gradient" for name in names)}
    two = pipeline.compile_model(model, tmp_path / "two", *OPTIONS, "--stages", "1-1", workers=2)
    used_twice = [name for name in names if name != "bias"]
    expected = [f"{name}/gradient{number}" for name in used_twice for number in ("", ".1")]
    for stage, found in sums_of(two).items():
        assert found == sorted(expected + ["bias/gradient"] * (stage == "stage_1"))
    # What replicas of a stage would sum, as the planner sees it.
    sizes = {name: 4 * parameter.numel() for name, parameter in net.named_parameters()}
    planned = json.loads((two / "plan.json").read_text())["stages"]
    assert [stage["gradient_bytes"] for stage in planned] == [sum(sizes.values()) - sizes["bias"], sum(sizes.values())]
    exact = pipeline.compile_model(model, tmp_path / "exact", *OPTIONS, "--exact")
    assert sum(name.startswith("scale/gradient") for name in sums_of(exact)["stage_0"]) == DEPTH + 1


@emulation.on_host
@pytest.mark.parametrize("stages", ["1", "1-1"])
def test_on_gpus(stages, shared, tmp_path):
    net, loss, model, data = shared
    workers = len(stages.split("-"))
    project = emulation.emit(model, tmp_path / "gpu", *OPTIONS, *(["--stages", stages] if workers > 1 else []), workers=workers)
    result = emulation.train_on_host(project, tmp_path / "found", "--order", "file", data=data, steps=1)
    assert result.losses[0] == pytest.approx(loss, rel=1e-5)
    pipeline.expect_gradients(result, net, RATE)
