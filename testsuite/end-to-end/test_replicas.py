"""Stages with replicas.

Synchronous truth, which knows no schedule: replica j of a stage with r of them sums microbatches j, j + r, ...
of the minibatch in ascending order, and the replicas' sums are added in their order. Those sums come from the
unsplit program, one step of momentum from an empty buffer over the samples of one replica. A power of two of
samples makes the division by their number exact, so the sum itself is known; the update is three float32
operations, done by numpy.
"""

import json
import shutil

import numpy
import pytest

import pipeline
import safetensors

RATE, MOMENTUM = numpy.float32(0.05), numpy.float32(0.9)
OPTIMIZER = ["--optimizer", f"momentum,lr={RATE},momentum={MOMENTUM}"]
SHAPES = {"mlp": (784,), "lenet5": (1, 28, 28), "fashion": (1, 28, 28)}
SIZE, STEPS = 8, 2


def replicas_of(stages):
    return [int(count) for count in stages.split("-")]


def compile_replicas(model, folder, stages, microbatches, *options, schedule="1f1b"):
    """microbatches: per update of the whole model."""
    replicas = replicas_of(stages)
    return pipeline.compile_model(
        model, folder, "--exact", "--schedule", schedule, "--stages", stages, "--minibatch", microbatches * SIZE,
        "--microbatches", microbatches // replicas[0], *OPTIMIZER, *options, workers=sum(replicas))


class Unsplit:
    """One step over some microbatches of the data at given weights: the loss and the momentum buffers."""

    def __init__(self, model, work, images, labels):
        self.model, self.work, self.runs, self.projects = model, work, 0, {}
        self.images, self.labels = numpy.load(images), numpy.load(labels)

    def step(self, microbatches, weights):
        work = self.work / f"unsplit-{self.runs}"
        self.runs += 1
        work.mkdir()
        rows = numpy.concatenate([numpy.arange(m * SIZE, (m + 1) * SIZE) for m in microbatches])
        numpy.save(work / "images.npy", self.images[rows])
        numpy.save(work / "labels.npy", self.labels[rows])
        data = [f"input={work / 'images.npy'}", f"labels={work / 'labels.npy'}"]
        count = len(microbatches)
        if count not in self.projects:
            self.projects[count] = compile_replicas(self.model, self.work / f"project-{count}", "1", count)
        project = self.projects[count]
        first = pipeline.train(project, work / "first", "--order", "file", data=data, steps=1)
        if weights is None:
            return first.losses[0], first.weights()
        folder = work / "step-1"
        shutil.copytree(first.checkpoint, folder)
        for path in folder.glob("*.safetensors"):
            tensors = {name: numpy.zeros_like(tensor) if name.endswith("/momentum") else weights[name]
                       for name, tensor in safetensors.load(path).items()}
            safetensors.save(path, tensors)
        second = pipeline.train(project, work / "second", "--order", "file", "--resume", folder, data=data, steps=2)
        return second.losses[-1], second.weights()


@pytest.mark.parametrize("network,stages,microbatches,schedule,transport", [
    ("mlp", "2", 4, "1f1b", "local"), ("mlp", "2-1", 4, "1f1b", "local"), ("lenet5", "1-2", 4, "1f1b", "local"),
    ("mlp", "3", 6, "1f1b", "local"), ("lenet5", "3-1", 6, "1f1b", "local"),
    ("lenet5", "2-1", 4, "interleaved", "mpi"), ("lenet5", "1-2", 4, "zb-v", "local")])
def test_grouped_sums(network, stages, microbatches, schedule, transport, models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, SIZE * microbatches, SHAPES[network], 10)
    data = [f"input={images}", f"labels={labels}"]
    project = compile_replicas(models(network), tmp_path / "split", stages, microbatches, schedule=schedule)
    replicas = [stage["replicas"] for stage in json.loads((project / "plan.json").read_text())["stages"]]
    result = pipeline.train(project, tmp_path / "run", "--order", "file", data=data, steps=STEPS, transport=transport)
    owner = pipeline.stage_of_weights(project, result.checkpoint)
    trained = [name for name in owner if f"{name}/momentum" in owner]

    unsplit = Unsplit(models(network), tmp_path, images, labels)
    weights = safetensors.load(project / "weights.safetensors")
    buffers = {name: numpy.zeros_like(weights[name]) for name in trained}
    scale = numpy.float32(1 / (microbatches * SIZE))
    for step in range(STEPS):
        gradients = {}
        for count in set(replicas):
            shares = [unsplit.step(range(replica, microbatches, count), None if step == 0 else weights)
                      for replica in range(count)]
            if count == replicas[-1] and count == 1:
                assert shares[0][0] == result.losses[step]
            for name in trained:
                if replicas[owner[name]] != count:
                    continue
                parts = [share[1][f"{name}/momentum"] for share in shares]
                if count > 1:  # back to sums: exact, by a power of two
                    samples = numpy.float32(microbatches // count * SIZE)
                    total = parts[0] * samples
                    for part in parts[1:]:
                        total = total + part * samples
                    parts = [scale * total]
                gradients[name] = parts[0]
        for name in trained:
            buffers[name] = MOMENTUM * buffers[name] + gradients[name] if step else gradients[name]
            weights[name] = weights[name] - RATE * buffers[name]
    for name in trained:
        assert numpy.array_equal(result.weights()[name], weights[name]), name


@pytest.fixture(scope="module")
def one_stage():
    return {}


@pytest.mark.parametrize("stages,schedule,transports", [
    ("2", "1f1b", ["local", "mpi"]), ("2-2", "1f1b", ["local"]), ("2-2", "zb-h1", ["local", "mpi"]),
    ("2-2", "interleaved", ["local"]), ("2-2", "zb-v", ["local"]), ("2-2-2", "gpipe", ["local"])])
def test_replicas_of_all_stages_are_replicas_of_one(stages, schedule, transports, models, one_stage, tmp_path):
    """BatchNormalization and Dropout included; the last minibatch of an epoch has 3 of 4 microbatches."""
    images, labels = pipeline.draw_images(tmp_path, SIZE * 11, SHAPES["fashion"], 10)
    project = compile_replicas(models("fashion"), tmp_path / "project", stages, 4, schedule=schedule)
    for transport in transports:
        result = pipeline.train(project, tmp_path / transport, data=[f"input={images}", f"labels={labels}"], steps=5,
                                transport=transport)
        pipeline.expect_same_bits(result, one_stage, "fashion")


@pytest.mark.parametrize("stages", ["1-3-2", "1-3-1", "2-1-3"])
def test_any_ratio_under_delays(stages, models, tmp_path):
    """Schedules and arrivals change no bit. The network has as many units as stages, so that all schedules cut alike: a
    gradient is summed over the replicas of its stage."""
    images, labels = pipeline.draw_images(tmp_path, SIZE * 16, SHAPES["mlp"], 10)
    same, cuts = {}, set()
    for schedule in ("1f1b", "gpipe", "zb-h1"):
        project = compile_replicas(models("mlp", "--hidden", 16), tmp_path / schedule, stages, 6, schedule=schedule)
        cuts.add(str([stage["units"] for stage in json.loads((project / "plan.json").read_text())["stages"]]))
        for delays in ([], ["--rendezvous", "--delays", "7"]):
            result = pipeline.train(project, tmp_path / f"{schedule}-{len(delays)}", *delays, steps=4,
                                    data=[f"input={images}", f"labels={labels}"])
            pipeline.expect_same_bits(result, same, "mlp")
    assert len(cuts) == 1


def test_running_statistics_are_averaged(models, tmp_path):
    """Behind one update each replica has seen one microbatch; the first normalisation sees the images alone."""
    images, labels = pipeline.draw_images(tmp_path, SIZE * 2, SHAPES["fashion"], 10)
    pairs = numpy.load(images), numpy.load(labels)
    project = compile_replicas(models("fashion"), tmp_path / "project", "2", 2)
    result = pipeline.train(project, tmp_path / "run", "--order", "file", steps=1,
                            data=[f"input={images}", f"labels={labels}"])
    alone = compile_replicas(models("fashion"), tmp_path / "alone", "1", 1)
    states = []
    for replica in range(2):
        rows = slice(replica * SIZE, (replica + 1) * SIZE)
        files = [tmp_path / f"images-{replica}.npy", tmp_path / f"labels-{replica}.npy"]
        for path, values in zip(files, pairs):
            numpy.save(path, values[rows])
        states.append(pipeline.train(alone, tmp_path / f"alone-{replica}", "--order", "file", steps=1,
                                     data=[f"input={files[0]}", f"labels={files[1]}"]).weights())
    names = sorted(name for name in states[0] if "running" in name)
    assert names
    # Room for them is planned.
    assert json.loads((project / "plan.json").read_text())["stages"][0]["state_bytes"] == sum(states[0][name].nbytes for name in names)
    first = [name for name in names if name.split(".")[0] == names[0].split(".")[0]]
    for name in first:
        mean = (states[0][name] + states[1][name]) / numpy.float32(2)
        assert numpy.array_equal(result.weights()[name], mean), name


def test_evaluates_each_sample_once_and_resumes_at_other_replicas(models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, SIZE * 5 + 3, SHAPES["lenet5"], 10)
    data = [f"input={images}", f"labels={labels}"]
    options = ["--eval-data", data[0], "--eval-data", data[1]]
    plans = {stages: compile_replicas(models("lenet5"), tmp_path / stages, stages, 6) for stages in ("1", "3-1", "2-3")}
    trained = pipeline.train(plans["3-1"], tmp_path / "trained", data=data, steps=3)
    found = {}
    for stages, project in plans.items():
        again = pipeline.train(project, tmp_path / f"again-{stages}", *options, "--resume", trained.checkpoint,
                               data=data, steps=3)
        evaluations = [record for record in again.records if "evaluation_loss" in record]
        assert evaluations[-1]["samples"] == SIZE * 5 + 3
        found[stages] = evaluations[-1]["accuracy"], round(evaluations[-1]["evaluation_loss"], 5)
        more = pipeline.train(project, tmp_path / f"more-{stages}", "--resume", trained.checkpoint, data=data, steps=4)
        for name, tensor in more.weights().items():
            assert numpy.isfinite(tensor).all(), name
            assert tensor.shape == trained.weights()[name].shape
    assert len(set(found.values())) == 1, found
    files = {path.name for path in trained.checkpoint.glob("*.safetensors")}
    assert len(files) == 2, "one file per stage"


def test_auto_emits_data_parallelism(models, tmp_path):
    """Where it is the fastest, as with few weights and fast links: over the microbatches that are asked for."""
    topology = tmp_path / "topology.json"
    topology.write_text(json.dumps({"levels": [{"workers": 2, "bandwidth": 1e12}]}))
    images, labels = pipeline.draw_images(tmp_path, 64, SHAPES["lenet5"], 10)
    batch = ["--minibatch", 32, "--microbatches", 2, *OPTIMIZER]
    one = pipeline.compile_model(models("lenet5"), tmp_path / "one", *batch)
    two = tmp_path / "two"
    told = pipeline.run(pipeline.BIN / "pdc", models("lenet5"), "--topology", topology, "--device", "cpu", "-o", two, *batch)
    assert "the plan is data parallelism" in told.stdout
    plan = json.loads((two / "plan.json").read_text())
    assert [stage["replicas"] for stage in plan["stages"]] == [2]
    assert (plan["minibatch"], plan["microbatches"]) == (32, 1)
    assert [path.name for path in two.glob("stage_[0-9].cpp")] == ["stage_0.cpp"]
    runs = [pipeline.train(project, tmp_path / f"run-{project.name}", "--order", "file",
                           data=[f"input={images}", f"labels={labels}"], steps=STEPS) for project in (one, two)]
    assert runs[1].losses == pytest.approx(runs[0].losses, rel=1e-5)
    weights = runs[1].weights()
    for name, expected in runs[0].weights().items():
        assert numpy.allclose(weights[name], expected, rtol=1e-4, atol=1e-6), name
