"""2bw against the letter of its update rule.

The reference knows no schedule: update b takes the mean over its m microbatches (fewer at the end of the data),
added in their order, of gradients at the weights of version max(d, b - 1), d being the update count at the last
drain; where stages have replicas, each replica's are added in their order, then the replicas'. Gradients come from
the same kernels on one stage, as in test_pipedream. Kernels add to what is there: a product over the 64 tokens of a
microbatch of gpt2 block by block, an embedding row by row, so that there one stage adds the microbatches of an update
to each other, too. Running statistics see the microbatches in their order.
"""

import numpy
import pytest

import pipeline
import safetensors
from test_pipedream import MOMENTUM, NETWORKS, RATE, make_references

MICROBATCHES = 13
# Networks with more rows in a microbatch than kernels sum before they add, or a tied weight, whose uses have sums of their own.
ADDED_BY_KERNELS = ["gpt2", "knots"]


@pytest.fixture(scope="module")
def references(models, tmp_path_factory):
    return make_references(models, tmp_path_factory, MICROBATCHES)


def added(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def check_update_rule(network, replicas, count, save_every, transport, models, references, tmp_path, microbatches=MICROBATCHES):
    """Saved, and so drained, after each so many steps (0: at the end); returns the project and its training."""
    size, together = NETWORKS[network][1], count * replicas[0]
    at_once = together if network in ADDED_BY_KERNELS else 1
    one = references(network, at_once)
    split = pipeline.compile_model(
        models(network), tmp_path / "split", "--exact", "--schedule", "2bw", "--minibatch", size * together,
        "--microbatches", count, "--stages", "-".join(map(str, replicas)),
        "--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}", workers=sum(replicas))
    updates = -(-microbatches // together)
    result = pipeline.train(split, tmp_path / "split-run", *(["--save-every", save_every] if save_every else []),
                            data=one.data, steps=updates, transport=transport)
    owner = pipeline.stage_of_weights(split, result.checkpoint)

    first = safetensors.load(split / "weights.safetensors")
    trained = [name for name in owner if f"{name}/momentum" in owner]
    versions = {name: [first[name]] for name in trained}
    buffers = {}
    # Constants of the model are in no checkpoint.
    statistics = {name: first[name] for name in owner if name in first and name not in trained}
    for update in range(updates):
        drained = update // save_every * save_every if save_every else 0
        used = {name: versions[name][max(drained, update - 1)] for name in trained}
        sums = {name: [[] for _ in range(replicas[owner[name]])] for name in trained}
        members = range(update * together, min(microbatches, (update + 1) * together))
        losses = []
        for t in range(members.start, members.stop, at_once):
            after, loss = one.gradients(t // at_once, used | statistics, update)
            losses.append(loss)
            statistics = {name: after[name] for name in statistics}
            for name in trained:
                sums[name][t % len(sums[name])].append(after[f"{name}/momentum"])
        assert numpy.isclose(result.losses[update], numpy.mean(losses), rtol=1e-6), f"loss of update {update}"
        for name in trained:
            total = added([added(terms) for terms in sums[name] if terms])
            parts = len(members) if at_once == 1 else 1
            gradient = numpy.float32(1) / numpy.float32(parts) * total
            buffers[name] = MOMENTUM * buffers[name] + gradient if name in buffers else gradient
            versions[name].append(versions[name][-1] - RATE * buffers[name])
    weights = result.weights()
    for name in trained:
        assert numpy.array_equal(weights[name], versions[name][-1]), name
    for name, value in statistics.items():
        assert numpy.array_equal(weights[name], value), name
    return split, result


@pytest.mark.parametrize("network,replicas,count,save_every,transport", [
    ("mlp", [1], 4, 0, "local"), ("mlp", [1, 1], 2, 0, "local"), ("fashion", [1, 1, 1], 4, 0, "local"),
    ("lenet5", [1, 1, 1, 1], 4, 0, "mpi"), ("mlp", [1, 1, 1], 3, 2, "local"), ("lenet5", [2, 1], 2, 0, "local"),
    ("fashion", [1], 3, 0, "local"), ("fashion", [1, 1], 3, 3, "mpi"), ("mlp", [1, 1, 1, 1], 5, 0, "local"),
    ("lenet5", [1, 2], 4, 2, "mpi"), ("mlp", [2, 2], 3, 0, "local"), ("gpt2", [1, 1, 1], 3, 0, "mpi"),
    ("skips", [1] * 6, 6, 0, "local"), ("fashion", [1] * 5, 5, 0, "mpi"), ("viewed", [1], 4, 0, "local"),
    ("viewed", [1, 1, 1], 3, 0, "local")])
def test_update_rule(network, replicas, count, save_every, transport, models, references, tmp_path):
    check_update_rule(network, replicas, count, save_every, transport, models, references, tmp_path)


@pytest.mark.parametrize("schedule", ["2bw", "pipedream", "1f1b"])
def test_mean_of_means_is_told(schedule, models, tmp_path):
    """Where it is one: pipedream updates by each microbatch."""
    result = pipeline.run(pipeline.BIN / "pdc", models("lenet5"), "--gpus", 2, "--device", "cpu", "-o", tmp_path / "project",
                          "--schedule", schedule, "--stages", "1-1", "--minibatch", 8)
    assert ("updates by the mean of its microbatches' means" in result.stdout + result.stderr) == (schedule == "2bw")
