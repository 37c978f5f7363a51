"""Runs that go on in another way than they began, against PyTorch and against runs without a stop; and files that are in the way."""

import json
import os

import numpy
import pytest
import torch

import pipeline
import safetensors
from test_refusals import refused

SAMPLES, SIZE = 24, 4


def draw(folder):
    torch.manual_seed(4)
    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    x, labels = torch.randn(SAMPLES, 6), torch.randint(0, 3, (SAMPLES,))
    folder.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(net, x[:SIZE], str(folder / "net.onnx"), training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=16, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    return net.double(), x.double(), labels, pipeline.save_inputs({"x": x, "labels": labels}, folder / "data")


def compile_model(folder, name, *options, workers=1, microbatches=2, replicas=1):
    return pipeline.compile_model(folder / "net.onnx", folder / name, "--minibatch", SIZE * microbatches * replicas, "--microbatches",
                                  microbatches, *options, workers=workers)


def train(folder, project, name, data, *options, steps=None):
    return pipeline.train(project, folder / name, "--order", "file", *options, data=data, steps=steps)


def test_frozen_weights_are_the_checkpoint_s(tmp_path):
    """What was trained before it was frozen stays as it was trained, through any number of checkpoints."""
    net, x, labels, data = draw(tmp_path)
    options = ["--optimizer", "sgd,lr=0.5"]
    first = train(tmp_path, compile_model(tmp_path, "all", *options), "first", data, steps=3)
    frozen = compile_model(tmp_path, "frozen", *options, "--freeze", "0.*", "--freeze", "2.*")
    second = train(tmp_path, frozen, "second", data, "--resume", tmp_path / "first/checkpoints", steps=5)
    third = train(tmp_path, frozen, "third", data, "--resume", tmp_path / "second/checkpoints", steps=6)
    losses = []
    optimizer = torch.optim.SGD(net.parameters(), 0.5)
    for step in range(6):
        if step == 3:
            optimizer = torch.optim.SGD(net[4].parameters(), 0.5)
        part = slice(step * 8 % SAMPLES, step * 8 % SAMPLES + 8)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert first.losses + second.losses + third.losses == pytest.approx(losses, rel=1e-5)
    assert set(third.weights()) == {name for name, _ in net.named_parameters()}


def test_a_run_goes_on_as_it_was_told(tmp_path):
    """Without an option that decides how it trains a resumed run has the earlier one's, and says so; what it is given counts."""
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "project", "--optimizer", "sgd,lr=0.1")
    told = ["--order", "file", "--lr", "0.7", "--lr-schedule", "linear,warmup=2", "--clip-norm", "0.5"]
    whole = pipeline.train(project, tmp_path / "whole", *told, data=data, steps=6)
    pipeline.train(project, tmp_path / "parts", *told, "--save-every", 2, data=data, steps=6)
    second, fourth = (tmp_path / f"parts/checkpoints/step-{step:06}" for step in (2, 4))
    rest = pipeline.train(project, tmp_path / "rest", "--resume", second, "--save-every", 2, data=data, steps=6)
    assert rest.losses == whole.losses[2:]
    assert "resumed at step 2, as before with --clip-norm 0.5 --lr 0.7 --lr-schedule linear,warmup=2 --order file\n" in rest.output
    # A checkpoint of a resumed run, too.
    last = pipeline.train(project, tmp_path / "last", "--resume", tmp_path / "rest/checkpoints/step-000004", data=data, steps=6)
    assert last.losses == whole.losses[4:]
    still = pipeline.train(project, tmp_path / "still", "--resume", fourth, "--lr", 0, "--clip-norm", 0, data=data, steps=6)
    assert "as before with --lr-schedule linear,warmup=2 --order file\n" in still.output
    weights = still.weights()
    assert all((value == weights[name]).all() for name, value in safetensors.load_folder(fourth).items())
    state = json.loads((fourth / "state.json").read_text())
    for options, message in (({"--lr": "fast"}, "--lr: found 'fast', expected a finite number"), ({"--steps": "9"}, "--steps"),
                             ({"--lr": 0.1}, "option '--lr' is 0.1, expected a string"), ([1], "expected an object")):
        (fourth / "state.json").write_text(json.dumps(state | {"options": options}))
        refused(pipeline.BIN / "pdc-run", project, "--resume", fourth, "--steps", 6, *(f"--data={entry}" for entry in data),
                says=["state.json", message])


@pytest.mark.parametrize("first, second, left", [((2, "1f1b"), (3, "1f1b"), 2), ((3, "1f1b"), (1, "1f1b"), 6),
                                                 ((1, "pipedream"), (3, "1f1b"), 2), ((2, "1f1b"), (1, "pipedream"), 6)])
def test_epochs_are_passes_over_the_data(first, second, left, tmp_path):
    """With other microbatches per step: the second epoch is whole, whatever the steps' numbers."""
    *_, data = draw(tmp_path)
    programs = [compile_model(tmp_path, f"{count}-{schedule}-{i}", "--schedule", schedule, "--stages", "1-1", workers=2, microbatches=count)
                for i, (count, schedule) in enumerate((first, second))]
    train(tmp_path, programs[0], "first", data, "--epochs", 1)
    goes_on = train(tmp_path, programs[1], "second", data, "--epochs", 2, "--resume", tmp_path / "first/checkpoints")
    steps = [record for record in goes_on.records if "epoch" in record]
    assert [record["epoch"] for record in steps] == [1] * left and sum(record["samples"] for record in steps) == SAMPLES


@pytest.mark.parametrize("optimizer", ["adam,lr=0.05", "momentum,lr=0.3,momentum=0.9"])
def test_updates_of_replicas_are_counted(optimizer, tmp_path):
    """A drained pipeline has weights of one age: it trains as PyTorch does, also where a stop leaves an update of one replica."""
    net, x, labels, data = draw(tmp_path)
    project = compile_model(tmp_path, "net", "--optimizer", optimizer, "--schedule", "pipedream", "--stages", "2-1", workers=3, microbatches=1,
                            replicas=2)
    first = train(tmp_path, project, "first", data, "--save-every", 1, steps=5)
    second = train(tmp_path, project, "second", data, "--save-every", 1, "--resume", tmp_path / "first/checkpoints", steps=8)
    kinds = {"adam": lambda: torch.optim.Adam(net.parameters(), 0.05), "momentum": lambda: torch.optim.SGD(net.parameters(), 0.3, 0.9)}
    optimizer, losses = kinds[optimizer.split(",")[0]](), []
    for step in range(8):
        part = slice(step * SIZE % SAMPLES, step * SIZE % SAMPLES + SIZE)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[part]), labels[part])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert first.losses + second.losses == pytest.approx(losses, rel=1e-5)


def test_logs_go_on(tmp_path):
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "net")
    train(tmp_path, project, "run", data, steps=2)
    train(tmp_path, project, "run", data, "--resume", tmp_path / "run/checkpoints", steps=4)
    records = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "epoch" in record] == [1, 2, 3, 4]
    # From an earlier step on: what was told of those behind it is told anew.
    train(tmp_path, project, "run", data, "--resume", tmp_path / "run/checkpoints/step-000002", steps=3)
    records = [json.loads(line) for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records if "epoch" in record] == [1, 2, 3]


def test_a_trace_that_does_not_fit_loses_nothing_else(tmp_path):
    """The summary is told and logged before it is written, and the reason is."""
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "net")
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
    words = [str(project / "build/all_stages"), *(word for entry in data for word in ("--data", entry)), "--transport", "local"]
    for option, epochs in (("--trace", 100), ("--record", 600)):
        logged = ["--log", str(tmp_path / "log")] if option == "--trace" else []
        command = [*words, "--epochs", str(epochs), *logged, option, str(tmp_path / "written")]
        result = pipeline.run("bash", "-c", f"ulimit -f 60; exec {' '.join(command)}", check=False)
        assert result.returncode == 1 and result.stderr == f"error: {tmp_path}/written: cannot be written: File too large; all else is done\n"
        assert f"trained to step {3 * epochs}" in result.stdout and not (tmp_path / "written").exists()
    assert pipeline.read_log(tmp_path / "log")[-1]["summary"]


def test_what_evaluation_refuses_loses_no_weights(tmp_path):
    *_, data = draw(tmp_path)
    wrong = numpy.load(tmp_path / "data/labels.npy")
    wrong[7] = 3
    numpy.save(tmp_path / "wrong.npy", wrong)
    failed = pipeline.train(compile_model(tmp_path, "net"), tmp_path / "run", "--epochs", 1, "--eval-data", data[0], "--eval-data",
                            f"labels={tmp_path / 'wrong.npy'}", data=data, check=False)
    assert failed.returncode == 1 and "sample 7 (counted from 0) of input 'labels' holds 3" in failed.stderr
    assert [folder.name for folder in (tmp_path / "run/checkpoints").glob("step-*")] == ["step-000003"]


def test_flags_are_numbers(tmp_path):
    """Of booleans a network's floats are 0 and 1; bytes are images, which are divided by 255."""
    net = torch.nn.Linear(6, 3)
    flags, labels = torch.rand(8, 6) < 0.5, torch.randint(0, 3, (8,))
    torch.onnx.export(net, flags[:2].float(), str(tmp_path / "net.onnx"), training=torch.onnx.TrainingMode.TRAINING, opset_version=16,
                      do_constant_folding=False, input_names=["x"], output_names=["y"], dynamic_axes={"x": {0: "batch"}})
    project = pipeline.compile_model(tmp_path / "net.onnx", tmp_path / "project", "--minibatch", 8, "--microbatches", 1)
    for name, values, unit in (("flags", flags, 1), ("bytes", flags.byte() * 255, 255)):
        data = pipeline.save_inputs({"x": values, "labels": labels}, tmp_path / name)
        loss = torch.nn.functional.cross_entropy(net.double()(values.double() / unit), labels).item()
        assert pipeline.train(project, tmp_path / f"of-{name}", data=data, steps=1).losses[0] == pytest.approx(loss, rel=1e-6)


def test_ranks_read_the_same_files(tmp_path):
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "net", "--stages", "2", workers=2, microbatches=1)
    train(tmp_path, project, "run", data, steps=1)
    other = tmp_path / "other.safetensors"
    held = bytearray((project / "weights.safetensors").read_bytes())
    held[-3] ^= 1
    other.write_bytes(held)
    program = [project / "build/all_stages", "--transport", "mpi", "--steps", 1, *(f"--data={entry}" for entry in data)]
    refused("mpirun", "--oversubscribe", "-n", 1, *program, ":", "-n", 1, *program, "--weights", other,
            says=["ranks 0 and 1 have read different files 'weights'", "give all ranks the same --weights"])


def test_files_in_the_way(tmp_path):
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "net", "--stages", "1-1", workers=2)
    command = [pipeline.BIN / "pdc-run", project, "--steps", 1, *(f"--data={entry}" for entry in data)]
    os.mkfifo(tmp_path / "pipe")
    refused(*command, "--trace", tmp_path / "pipe", says=["--trace", "is no file"])
    refused(*command[:-1], f"--data=labels={tmp_path / 'pipe'}", says=["pipe: cannot be read: not a file"])
    refused(*command, "--record", tmp_path, says=["--record", "is no file"])
    labels = tmp_path / "data/labels.npy"
    before = labels.read_bytes()
    refused(*command, "--log", labels, says=["--log", "would be written over", "which is read"])
    assert labels.read_bytes() == before
    target = tmp_path / "target.json"
    target.write_text("old")
    (tmp_path / "link.json").symlink_to(target)
    pipeline.run(*command, "--trace", tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink() and json.loads(target.read_text())["traceEvents"]


def test_mpirun_that_starts_nothing(tmp_path):
    *_, data = draw(tmp_path)
    project = compile_model(tmp_path, "net", "--stages", "1-1", workers=2)
    refused(pipeline.BIN / "pdc-run", project, "--steps", 1, *(f"--data={entry}" for entry in data), "--hostfile", tmp_path / "nothing",
            says=["mpirun ended before a rank began on this host; to see why, run mpirun"])
