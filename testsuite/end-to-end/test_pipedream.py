"""pipedream against the letter of its update rule.

The reference knows no schedule: microbatch t at stage s of p uses the weights of version
max(d, t - p + 1 + s), d being the update count at the last drain (0 here). Gradients come from the
same kernels on one stage: a step of momentum from an empty buffer leaves exactly the gradient there.
The update itself is two float32 operations, done by numpy.
"""

import json
import shutil

import numpy
import pytest

import pipeline
import safetensors

RATE, MOMENTUM = numpy.float32(0.05), numpy.float32(0.9)
NETWORKS = {"mlp": ((784,), 8), "lenet5": ((1, 28, 28), 8), "fashion": ((1, 28, 28), 8)}
STEPS = 7


class OneStage:
    """The gradient of microbatch t at given weights, by the unsplit program."""

    def __init__(self, model, work, data, size):
        self.work, self.data, self.runs = work, data, 0
        self.project = pipeline.compile_model(
            model, work / "one", "--exact", "--schedule", "pipedream", "--minibatch", size, "--microbatches", 1,
            "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}")
        # One checkpoint per step, for its step number and sample cursor only.
        self.template = pipeline.train(self.project, work / "template", "--save-every", 1, data=data, steps=STEPS)

    def gradients(self, step, weights):
        self.runs += 1
        work = self.work / f"run-{self.runs}"
        if step == 0:  # no checkpoint before it: the project's own weights are the first version
            result = pipeline.train(self.project, work, data=self.data, steps=1)
            return result.weights(), result.losses[-1]
        folder = work / f"step-{step}"
        work.mkdir()
        shutil.copytree(self.checkpoint(step), folder)
        for path in folder.glob("*.safetensors"):
            tensors = {}
            for name, tensor in safetensors.load(path).items():
                is_buffer = name.endswith("/momentum")
                tensors[name] = numpy.zeros_like(tensor) if is_buffer else weights[name]
            safetensors.save(path, tensors)
        result = pipeline.train(self.project, work, "--resume", folder, data=self.data, steps=step + 1)
        return result.weights(), result.losses[-1]

    def checkpoint(self, step):
        for folder in (self.work / "template" / "checkpoints").iterdir():
            if json.loads((folder / "state.json").read_text())["step"] == step:
                return folder
        raise AssertionError(f"no checkpoint of step {step}")


def stage_of_weights(checkpoint):
    """Which stage owns a tensor: rank r writes model-(r+1)-of-P.safetensors."""
    owner = {}
    for path in checkpoint.glob("model-*.safetensors"):
        rank = int(path.stem.split("-")[1]) - 1
        for name in safetensors.load(path):
            owner[name] = rank
    return owner


@pytest.fixture(scope="module")
def references(models, tmp_path_factory):
    made = {}

    def make(network):
        if network not in made:
            shape, size = NETWORKS[network]
            work = tmp_path_factory.mktemp(network)
            images, labels = pipeline.draw_images(work, size * STEPS, shape, 10)
            made[network] = OneStage(models(network), work, [f"input={images}", f"labels={labels}"], size)
        return made[network]

    return make


@pytest.mark.parametrize("network,stages", [("mlp", 2), ("mlp", 3), ("lenet5", 2), ("lenet5", 4), ("fashion", 2),
                                            ("fashion", 3)])
def test_update_rule(network, stages, models, references, tmp_path):
    size = NETWORKS[network][1]
    one, model = references(network), models(network)
    data = one.data
    split = pipeline.compile_model(
        model, tmp_path / "split", "--exact", "--schedule", "pipedream", "--minibatch", size, "--microbatches", 1,
        "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}", workers=stages)
    result = pipeline.train(split, tmp_path / "split-run", data=data, steps=STEPS)
    owner = stage_of_weights(result.checkpoint)

    first = safetensors.load(split / "weights.safetensors")
    versions = [first]                       # versions[v][name]: after v updates
    buffers = {name: numpy.zeros_like(value) for name, value in first.items()}
    trained = [name for name in owner if f"{name}/momentum" in owner]
    # Running statistics; constants of the model are in no checkpoint.
    state = {name: first[name] for name in owner if name in first and name not in trained}
    for t in range(STEPS):
        used = {name: versions[max(0, t - stages + 1 + owner[name])][name] for name in trained}
        after, loss = one.gradients(t, {**used, **state})
        assert loss == result.losses[t], f"loss of microbatch {t}"
        state = {name: after[name] for name in state}
        newest = {}
        for name in trained:
            buffers[name] = MOMENTUM * buffers[name] + after[f"{name}/momentum"] if t else after[f"{name}/momentum"]
            newest[name] = versions[t][name] - RATE * buffers[name]
        versions.append(newest)
    weights = result.weights()
    for name in trained:
        assert numpy.array_equal(weights[name], versions[STEPS][name]), name
    for name in state:
        assert numpy.array_equal(weights[name], state[name]), name
