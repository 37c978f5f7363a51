"""Runs pdc and pdc-run as a user does, and reads what they leave behind."""

import importlib.machinery
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import time

import numpy

import safetensors

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PDC_BIN", SOURCE / "build" / "bin"))
MODELS = SOURCE / "tools" / "models"


def run(*command, timeout=600, check=True, cwd=None, env=None):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, errors="replace",
                            timeout=timeout, cwd=cwd, check=False, env=env)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))} exited with {result.returncode}\n"
                             f"{result.stdout[-4000:]}\n{result.stderr[-4000:]}")
    return result


def load(script):
    """A script of this repository as a module, whatever its name ends in."""
    loader = importlib.machinery.SourceFileLoader("loaded", str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("loaded", loader))
    loader.exec_module(module)
    return module


def await_true(condition, seconds=120):
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def free_port():
    """One of this host that no program listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def export(script, path, *options):
    """Runs a script of tools/models or of this folder; returns the ONNX file."""
    here = pathlib.Path(__file__).parent / f"{script}.py"
    paths = os.pathsep.join([str(MODELS), os.environ.get("PYTHONPATH", "")])
    run("/usr/bin/python3", here if here.exists() else MODELS / f"{script}.py", path, *options,
        env=os.environ | {"PYTHONPATH": paths}, timeout=3600)  # networks of full size take an exporter minutes
    return path


def compile_model(model, folder, *options, workers=1):
    """pdc MODEL --gpus WORKERS --device cpu -o FOLDER ..."""
    run(BIN / "pdc", model, "--gpus", workers, "--device", "cpu", "-o", folder, *options)
    return pathlib.Path(folder)


def nodes_of(project):
    """Those of a project of one stage, in their order."""
    return json.loads((project / "plan.json").read_text())["stages"][0]["nodes"]


def write_cut(nodes, first, path):
    """What --stages takes: from the node at that position on, all are in stage 1."""
    path.write_text(json.dumps({node: int(number >= first) for number, node in enumerate(nodes)}))
    return path


def stage_of_weights(project, checkpoint):
    """Which stage owns a tensor: rank r writes model-(r+1)-of-P.safetensors, its first replica does."""
    stages = json.loads((project / "plan.json").read_text())["stages"]
    stage_of_rank = {rank: stage["id"] for stage in stages for rank in stage["ranks"]}
    owner = {}
    for path in checkpoint.glob("model-*.safetensors"):
        rank = int(path.stem.split("-")[1]) - 1
        for name in safetensors.load(path):
            owner[name] = stage_of_rank[rank]
    return owner


def read_log(log):
    """The records of a run's log."""
    return [json.loads(line) for line in pathlib.Path(log).read_text().splitlines()]


def step_losses(records):
    """The losses of the steps among them."""
    return [record["loss"] for record in records if {"loss", "seconds"} <= record.keys()]


class Training:
    """The log and the last checkpoint of one pdc-run."""

    def __init__(self, log, checkpoints, output):
        self.records = read_log(log)
        self.losses = step_losses(self.records)
        steps = sorted(pathlib.Path(checkpoints).glob("step-*"))
        self.checkpoint = steps[-1] if steps else None
        self.output = output

    def weights(self):
        return safetensors.load_folder(self.checkpoint)


def train(project, work, *options, transport="local", **given):
    """Trains as train_by does, by pdc-run."""
    return train_by([BIN / "pdc-run", project, "--transport", transport], work, *options, **given)


def train_by(starter, work, *options, data=(), steps=None, seed=1, check=True, cwd=None, env=None):
    """Trains and saves at the end. `data` holds INPUT=FILE strings."""
    work = pathlib.Path(work)
    work.mkdir(parents=True, exist_ok=True)
    log, checkpoints = work / "log.jsonl", work / "checkpoints"
    command = [*starter, "--seed", seed, "--log", log, "--save", checkpoints]
    for entry in data:
        command += ["--data", entry]
    if steps is not None:
        command += ["--steps", steps]
    result = run(*command, *options, check=check, cwd=cwd, env=env)
    return Training(log, checkpoints, result.stdout + result.stderr) if check else result


def expect_same_bits(training, unsplit, network):
    """The losses and weights of the network's first training in `unsplit`, bit for bit."""
    weights = training.weights()
    losses, expected = unsplit.setdefault(network, (training.losses, weights))
    assert training.losses == losses
    assert weights.keys() == expected.keys()
    for name in expected:
        assert numpy.array_equal(weights[name], expected[name]), name


def expect_gradients(training, net, rate):
    """Of one update from the weights that `net` has in double, whose `.grad` are PyTorch's: each within 1e-5 of its norm.
    Parameters without one are left out."""
    after = training.weights()
    for name, parameter in net.named_parameters():
        if parameter.grad is None:
            continue
        found, expected = (parameter.detach().numpy() - after[name]) / rate, parameter.grad.numpy()
        assert numpy.linalg.norm(found - expected) <= 1e-5 * numpy.linalg.norm(expected), name


def save_inputs(inputs, folder):
    """PyTorch's tensors by name as NPY files; returns what --data takes."""
    folder.mkdir(exist_ok=True)
    for name, value in inputs.items():
        numpy.save(folder / f"{name}.npy", value.numpy())
    return [f"{name}={folder / name}.npy" for name in inputs]


def draw_images(folder, count, shape, classes, seed=0):
    """Random float images and labels as NPY files; returns the two paths."""
    generator = numpy.random.default_rng(seed)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = folder / "images.npy", folder / "labels.npy"
    numpy.save(images, generator.standard_normal((count, *shape)).astype(numpy.float32))
    numpy.save(labels, generator.integers(0, classes, count).astype(numpy.int64))
    return images, labels
