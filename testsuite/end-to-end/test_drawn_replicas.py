"""Drawn replicas, of each stage as many as it likes, under every synchronous schedule.

The reference knows no schedule: replica j of a stage with r of them sums microbatches j, j + r, ... of the minibatch in
ascending order, the replicas' sums are added in their order, and the uses of a tied weight, each summed by its own stage, after
that. Such a sum comes from the unsplit program when the labels of all other microbatches are ignored: what those add is zero, and
samples keep their places, so that dropout draws for them what it draws in the split run. The uses of a tied weight are told apart
by a network whose weights are equal and not tied. Some samples are ignored throughout, so that the weight of every such sum is a
power of two: its mean then says the sum exactly.
"""

import json
import random
import shutil

import numpy
import pytest

import knots
import pipeline
import safetensors

RATE, MOMENTUM = numpy.float32(0.05), numpy.float32(0.9)
SIZE, MICROBATCHES, STEPS, IGNORED = 16, 6, 2, -100
# Labelled samples of each microbatch: with 1, 2, 3 and 6 replicas each has a power of two of them.
LABELLED = [16, 8, 8, 16, 8, 8]
SCHEDULES = ["1f1b", "gpipe", "zb-h1", "zb-h2", "interleaved", "zb-v"]
QUICK = 2


def draw_cases():
    """Uneven replicas; ranks of several stages each take a divisor of a replica's microbatches."""
    generator = random.Random(7)
    for number in range(24):
        schedule, network = SCHEDULES[number % len(SCHEDULES)], ("skips", "knots")[number // len(SCHEDULES) % 2]
        replicas = [1]
        while len(set(replicas)) == 1:
            ranks = 2 if schedule in ("interleaved", "zb-v") else generator.randint(2, 4)
            replicas = [generator.choice([1, 2, 3]) for _ in range(ranks)]
            if schedule == "interleaved" and any(MICROBATCHES // count % ranks for count in replicas):
                replicas = [1]
        name = f"{network}-{schedule}-{'-'.join(map(str, replicas))}-{number}"
        yield pytest.param(network, schedule, replicas, "mpi" if number % 5 == 0 else "local", id=name,
                           marks=[] if number < QUICK else [pytest.mark.schedules])


def compile_exactly(model, folder, schedule, replicas):
    return pipeline.compile_model(
        model, folder, "--exact", "--schedule", schedule, "--stages", "-".join(map(str, replicas)), "--minibatch", MICROBATCHES * SIZE,
        "--microbatches", MICROBATCHES // replicas[0], "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}",
        workers=sum(replicas))


def draw(network, folder):
    """The inputs and labels of all steps; of each microbatch only the first samples are labelled."""
    folder.mkdir(parents=True, exist_ok=True)
    count = SIZE * MICROBATCHES * STEPS
    if network == "knots":
        knots.draw(folder, count)
    else:
        generator = numpy.random.default_rng(0)
        numpy.save(folder / "input.npy", generator.standard_normal((count, 24)).astype(numpy.float32))
        numpy.save(folder / "labels.npy", generator.integers(0, 10, count))
    labels = numpy.load(folder / "labels.npy").reshape(STEPS, MICROBATCHES, SIZE)
    for microbatch, labelled in enumerate(LABELLED):
        labels[:, microbatch, labelled:] = IGNORED
    numpy.save(folder / "labels.npy", labels.reshape(-1))
    return data_of(folder)


def data_of(folder):
    return [f"input={folder / 'input.npy'}", f"labels={folder / 'labels.npy'}"]


class Unsplit:
    """The gradient sums of some microbatches of a step at given weights, by name."""

    def __init__(self, network, models, work):
        self.work, self.runs, self.known = work, 0, {}
        self.project = compile_exactly(models(network, *(["--untied"] if network == "knots" else [])), work / "one", "1f1b", [1])
        data = draw(network, work / "data")
        # One checkpoint per step, for its step number and sample cursor only.
        self.template = pipeline.train(self.project, work / "template", "--order", "file", "--save-every", 1, data=data, steps=STEPS)

    def sums(self, step, replica, replicas, weights):
        key = step, replica, replicas, b"".join(weights[name].tobytes() for name in sorted(weights))
        if key not in self.known:
            self.known[key] = self.train(step, replica, replicas, weights)
        return self.known[key]

    def train(self, step, replica, replicas, weights):
        self.runs += 1
        work = self.work / f"run-{self.runs}"
        shutil.copytree(self.work / "data", work)
        labels = numpy.load(work / "labels.npy").reshape(STEPS, MICROBATCHES, SIZE)
        labels[:, [m for m in range(MICROBATCHES) if m % replicas != replica]] = IGNORED
        numpy.save(work / "labels.npy", labels.reshape(-1))
        options = []
        if step > 0:
            options = ["--resume", work / f"step-{step}"]
            shutil.copytree(self.template.checkpoint.parent / f"step-{step:06}", options[1])
            for path in options[1].glob("*.safetensors"):
                safetensors.save(path, {name: numpy.zeros_like(tensor) if name.endswith("/momentum") else weights.get(name, tensor)
                                        for name, tensor in safetensors.load(path).items()})
        result = pipeline.train(self.project, work, "--order", "file", *options, data=data_of(work), steps=step + 1)
        weight = numpy.float32(sum(LABELLED[m] for m in range(MICROBATCHES) if m % replicas == replica))
        return {name.removesuffix("/momentum"): value * weight for name, value in result.weights().items()
                if name.endswith("/momentum")}


@pytest.fixture(scope="module")
def unsplit(models, tmp_path_factory):
    made = {}

    def make(network):
        if network not in made:
            made[network] = Unsplit(network, models, tmp_path_factory.mktemp(network))
        return made[network]

    return make


@pytest.mark.parametrize("network,schedule,replicas,transport", draw_cases())
def test_synchronous(network, schedule, replicas, transport, models, unsplit, tmp_path):
    one, project = unsplit(network), compile_exactly(models(network), tmp_path / "split", schedule, replicas)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data_of(one.work / "data"), steps=STEPS, transport=transport)
    stages = json.loads((project / "plan.json").read_text())["stages"]
    owner = pipeline.stage_of_weights(project, result.checkpoint)
    trained = {name: owner[name] for name in owner if f"{name}/momentum" in owner}
    uses = {name: [(name, stage)] for name, stage in trained.items()}
    if network == "knots":
        stage_of = {node: stage["id"] for stage in stages for node in stage["nodes"]}
        uses["tokens.weight"] = [("tokens.weight", stage_of["/tokens/Gather"]), ("head", stage_of["/MatMul"])]

    def gradient(step, use, weights):
        name, stage = use
        count = stages[stage]["replicas"]
        shares = [one.sums(step, replica, count, weights)[name] for replica in range(count)]
        return added(shares)

    first = safetensors.load(project / "weights.safetensors")
    weights, buffers = {name: first[name] for name in trained}, {}
    for step in range(STEPS):
        here = weights | ({"head": weights["tokens.weight"]} if network == "knots" else {})
        for name in trained:
            total = added([gradient(step, use, here) for use in uses[name]]) * numpy.float32(1 / sum(LABELLED))
            buffers[name] = MOMENTUM * buffers[name] + total if step else total
        weights = {name: weights[name] - RATE * buffers[name] for name in trained}
    moved = result.weights()
    for name in trained:
        # A bias before a normalisation has no gradient.
        assert name.endswith("bias") or not numpy.array_equal(weights[name], first[name]), name
        assert numpy.array_equal(moved[f"{name}/momentum"], buffers[name]), name
        assert numpy.array_equal(moved[name], weights[name]), name


def added(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
