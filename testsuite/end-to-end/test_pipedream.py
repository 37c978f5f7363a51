"""pipedream against the letter of its update rule, with stashing and with vertical sync.

The reference knows no schedule: microbatch t at a stage of r replicas uses the weights of version
max(d, t div r - w), d being the update count at the last drain (0 before the first save) and w = 0 for the last
stage, else ceil(((w' + 1) r' + r + r' - 2 gcd(r, r')) / r) of the stage behind it; without replicas p - 1 - s at
stage s of p. Under vertical sync every stage has the w of stage 0. An update takes the mean over the r microbatches
of its turn, added in their order. Gradients come from the same kernels on one stage: a step of momentum from an empty
buffer leaves exactly the gradient there. A weight that several stages use (gpt2's embedding) is one weight of the first
of them: all its uses are of that stage's version. The update itself is two float32 operations, done by numpy. Running
statistics are those of each replica, in the order of its rows (a forward pass, then the update of the turn that is w
behind it), averaged at each update.
"""

import json
import math
import shutil

import numpy
import pytest

import knots
import pipeline
import safetensors
import transformers

RATE, MOMENTUM = numpy.float32(0.05), numpy.float32(0.9)
NETWORKS = {"mlp": ((784,), 8), "lenet5": ((1, 28, 28), 8), "fashion": ((1, 28, 28), 8), "gpt2": (None, 2),
            "skips": ((24,), 8), "knots": (None, 8), "viewed": ((1, 8, 8), 8), "ladder": ((8,), 4)}
STEPS = 7


class OneStage:
    """The gradient of microbatch t at given weights, by the unsplit program, with the random numbers of a step: that of
    the microbatch's own update unless another is given. Of `together` microbatches, t counts so many at a time."""

    def __init__(self, model, work, data, size, steps, together=1):
        self.work, self.data, self.runs = work, data, 0
        self.project = pipeline.compile_model(
            model, work / "one", "--exact", "--schedule", "2bw" if together > 1 else "pipedream", "--minibatch",
            size * together, "--microbatches", together, "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}")
        # One checkpoint per step, for its step number and sample cursor only.
        self.template = pipeline.train(self.project, work / "template", "--save-every", 1, data=data, steps=steps)

    def gradients(self, t, weights, step=None):
        self.runs += 1
        work = self.work / f"run-{self.runs}"
        if t == 0:  # no checkpoint before it: the project's own weights are the first version
            result = pipeline.train(self.project, work, data=self.data, steps=1)
            return result.weights(), result.losses[-1]
        step = t if step is None else step
        folder = work / f"step-{step}"
        work.mkdir()
        shutil.copytree(self.checkpoint(t), folder)
        state = json.loads((folder / "state.json").read_text())
        (folder / "state.json").write_text(json.dumps(state | {"step": step}))
        for path in folder.glob("*.safetensors"):
            tensors = {}
            for name, tensor in safetensors.load(path).items():
                is_buffer = name.endswith("/momentum")
                tensors[name] = numpy.zeros_like(tensor) if is_buffer else weights[name]
            safetensors.save(path, tensors)
        result = pipeline.train(self.project, work, "--resume", folder, data=self.data, steps=step + 1)
        return result.weights(), result.losses[-1]

    def checkpoint(self, step):
        for folder in (self.work / "template" / "checkpoints").glob("step-*"):
            if json.loads((folder / "state.json").read_text())["step"] == step:
                return folder
        raise AssertionError(f"no checkpoint of step {step}")


def forwards_ahead(replicas):
    ahead = [0]
    for own, behind in zip(replicas[-2::-1], replicas[:0:-1]):
        waiting = own + behind - 2 * math.gcd(own, behind)
        ahead.insert(0, -(-((ahead[0] + 1) * behind + waiting) // own))
    return ahead


class Statistics:
    """The running statistics of one stage on each of its replicas."""

    def __init__(self, state, replicas, ahead, steps):
        self.states, self.ahead, self.averaged, self.steps = [dict(state) for _ in range(replicas)], ahead, 0, steps

    def before(self, t):
        turn, replica = divmod(t, len(self.states))
        self.average(turn - self.ahead)
        return self.states[replica]

    def average(self, turns):
        """Behind so many updates."""
        while self.averaged < turns:
            present = self.states[:min(len(self.states), self.steps - self.averaged * len(self.states))]
            for name in self.states[0]:
                total = present[0][name]
                for state in present[1:]:
                    total = total + state[name]
                if len(self.states) > 1:
                    total = total / numpy.float32(len(present))
                for state in self.states:
                    state[name] = total
            self.averaged += 1


def make_references(models, tmp_path_factory, steps):
    """A OneStage of each network and so many microbatches together, with data for so many microbatches."""
    made = {}

    def make(network, together=1):
        key = network, together
        if key not in made:
            shape, size = NETWORKS[network]
            work = tmp_path_factory.mktemp(network)
            if network == "knots":
                data = knots.draw(work, size * steps)
            elif shape:
                images, labels = pipeline.draw_images(work, size * steps, shape, 10)
                data = [f"input={images}", f"labels={labels}"]
            else:
                _, data = transformers.draw(network, work, 0, size * steps)
            made[key] = OneStage(models(network), work, data, size, -(-steps // together), together)
        return made[key]

    return make


@pytest.fixture(scope="module")
def references(models, tmp_path_factory):
    return make_references(models, tmp_path_factory, STEPS)


def check_update_rule(network, replicas, models, references, tmp_path, vertical=False, transport="local", every=None,
                      planned=None, steps=STEPS):
    """Saved, and so drained, after each so many steps (None: at the end); returns the project and its training. planned: the
    options by which the plan chooses these replicas."""
    stages = planned or ["--schedule", "pipedream", "--microbatches", 1, "--stages", "-".join(map(str, replicas))]
    size, every = NETWORKS[network][1], every or steps
    one, model = references(network), models(network)
    data = one.data
    split = pipeline.compile_model(
        model, tmp_path / "split", "--exact", *stages, "--minibatch", size * replicas[0], "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}", *(["--vertical-sync"] if vertical else []),
        workers=sum(replicas))
    result = pipeline.train(split, tmp_path / "split-run", "--save-every", every, data=data, steps=steps, transport=transport)
    owner = pipeline.stage_of_weights(split, result.checkpoint)
    ahead = forwards_ahead(replicas)
    lag = [ahead[0] if vertical else own for own in ahead]

    first = safetensors.load(split / "weights.safetensors")
    trained = [name for name in owner if f"{name}/momentum" in owner]
    versions = {name: [first[name]] for name in trained}
    buffers = {name: numpy.zeros_like(first[name]) for name in trained}
    sums = {}
    # Constants of the model are in no checkpoint.
    statistics = [Statistics({name: first[name] for name in owner
                              if name in first and name not in trained and owner[name] == stage},
                             replicas[stage], ahead[stage], steps) for stage in range(len(replicas))]
    for t in range(steps):
        drained = t // every * every
        used = {name: versions[name][max(drained // replicas[owner[name]], t // replicas[owner[name]] - lag[owner[name]])]
                for name in trained}
        before = [stage.before(t) for stage in statistics]
        after, loss = one.gradients(t, used | {name: value for state in before for name, value in state.items()})
        assert loss == result.losses[t], f"loss of microbatch {t}"
        for state in before:
            state.update({name: after[name] for name in state})
        for name in trained:
            count = t % replicas[owner[name]] + 1
            gradient = after[f"{name}/momentum"]
            sums[name] = gradient if count == 1 else sums[name] + gradient
            if count < replicas[owner[name]] and t + 1 < steps:
                continue
            gradient = numpy.float32(1) / numpy.float32(count) * sums[name]
            is_first = len(versions[name]) == 1
            buffers[name] = gradient if is_first else MOMENTUM * buffers[name] + gradient
            versions[name].append(versions[name][-1] - RATE * buffers[name])
    weights = result.weights()
    for name in trained:
        assert numpy.array_equal(weights[name], versions[name][-1]), name
    for stage, count in zip(statistics, replicas):
        stage.average(-(-steps // count))
        for name, value in stage.states[0].items():
            assert numpy.array_equal(weights[name], value), name
    return split, result


@pytest.mark.parametrize("network,replicas", [
    ("mlp", [1, 1]), ("mlp", [1, 1, 1]), ("lenet5", [1, 1, 1, 1]), ("fashion", [1, 1, 1]), ("mlp", [3]), ("lenet5", [2, 1]),
    ("fashion", [2, 1]), ("lenet5", [1, 1]), ("fashion", [1, 1]), ("lenet5", [2, 3]), ("fashion", [1, 3, 1]),
    ("gpt2", [1, 1, 1]), ("skips", [1] * 6), ("skips", [2, 1, 3]), ("lenet5", [1] * 5), ("fashion", [1] * 6), ("viewed", [1, 1, 1]),
    ("viewed", [2, 1])])
def test_update_rule(network, replicas, models, references, tmp_path):
    check_update_rule(network, replicas, models, references, tmp_path)


def test_replicas_are_planned(models, references, tmp_path):
    """An update of two microbatches of a fixed size, on three workers: the first stage gets two replicas, which train as those
    do that are given by hand."""
    _, by_hand = check_update_rule("fashion", [2, 1], models, references, tmp_path)
    size = NETWORKS["fashion"][1]
    planned = pipeline.compile_model(models("fashion"), tmp_path / "planned", "--schedule", "pipedream", "--bind", f"batch={size}",
                                     "--minibatch", 2 * size, "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}", workers=3)
    assert [stage["replicas"] for stage in json.loads((planned / "plan.json").read_text())["stages"]] == [2, 1]
    result = pipeline.train(planned, tmp_path / "planned-run", data=references("fashion").data, steps=STEPS)
    assert numpy.allclose(result.losses, by_hand.losses, rtol=1e-4)


def test_update_rule_of_a_hierarchy(models, references, tmp_path):
    """Of two servers whose own links are slow PipeDream's optimizer makes two copies of a pipeline: the replicas of a
    stage do not stand on ranks beside each other. (Costs of convolutions depend on the processor's vectors.)"""
    topology = tmp_path / "servers.json"
    topology.write_text(json.dumps({"levels": [{"workers": 2, "bandwidth": 1e8}, {"workers": 2, "bandwidth": 1e11}]}))
    split, _ = check_update_rule("mlp", [2, 2], models, references, tmp_path, planned=[
        "--cost-model", "pipedream-code", "--topology", topology])
    plan = json.loads((split / "plan.json").read_text())
    assert [stage["ranks"] for stage in plan["stages"]] == [[0, 2], [1, 3]]
    assert [(part["replicas"], [stage["replicas"] for stage in part["stages"]]) for part in plan["hierarchy"]] == [(2, [1, 1])]


@pytest.mark.parametrize("network,replicas,transport", [
    ("mlp", [1], "local"), ("mlp", [1, 1], "local"), ("fashion", [1, 1, 1], "local"), ("lenet5", [1, 1, 1, 1], "mpi"),
    ("lenet5", [2, 2], "local"), ("lenet5", [1, 1, 1], "mpi"), ("fashion", [1, 1, 1, 1], "local"),
    ("fashion", [2, 2, 2], "mpi"), ("skips", [1] * 6, "mpi"), ("gpt2", [1, 1], "mpi"),
    ("viewed", [1, 1, 1], "local")])
def test_vertical_sync(network, replicas, transport, models, references, tmp_path):
    check_update_rule(network, replicas, models, references, tmp_path, True, transport)
    stages = json.loads((tmp_path / "split" / "plan.json").read_text())["stages"]
    assert [stage["weight_versions"] for stage in stages] == [len(replicas)] * len(replicas)


@pytest.mark.parametrize("network", ["mlp", "fashion"])
def test_drains_at_each_save(network, models, references, tmp_path):
    """Saved in the middle of the run; what goes on from there is the same training."""
    split, result = check_update_rule(network, [1, 1, 1], models, references, tmp_path, every=3)
    saved = sorted(result.checkpoint.parent.glob("step-*"))
    assert [folder.name for folder in saved] == ["step-000003", "step-000006", "step-000007"]
    rest = pipeline.train(split, tmp_path / "rest", "--save-every", 3, "--resume", saved[0], data=references(network).data,
                          steps=STEPS)
    pipeline.expect_same_bits(rest, {network: (result.losses[3:], result.weights())}, network)


def test_microbatch_without_weight(models, tmp_path):
    """A microbatch whose labels are all ignored (a loss weight of 0) has a gradient of 0, in every stage."""
    size = NETWORKS["mlp"][1]
    images, labels = pipeline.draw_images(tmp_path, 2 * size, NETWORKS["mlp"][0], 10)
    numpy.save(labels, numpy.where(numpy.arange(2 * size) < size, numpy.load(labels), -100))
    project = pipeline.compile_model(models("mlp"), tmp_path / "project", "--schedule", "pipedream", "--minibatch", size,
                                     "--optimizer", "sgd,lr=0.1", workers=2)
    runs = [pipeline.train(project, tmp_path / f"steps-{steps}", "--order", "file", data=[f"input={images}", f"labels={labels}"],
                           steps=steps) for steps in (1, 2)]
    assert runs[1].losses == [runs[0].losses[0], 0]
    first, second = (result.weights() for result in runs)
    for name, value in first.items():
        assert numpy.array_equal(second[name], value), name
