"""An evaluation that cannot go on loses nothing that was trained: the checkpoint is PyTorch's weights, and runs go on from it."""

import signal
import subprocess
import time

import numpy
import pytest
import torch

import pipeline
import safetensors

SAMPLES, SIZE, RATE, ENDLESS = 24, 8, 0.5, 40_000_000
PER_EPOCH = SAMPLES // SIZE


class Words(torch.nn.Module):
    """The first stage reads tokens, the last one labels."""

    def __init__(self):
        super().__init__()
        self.embedding, self.hidden, self.last = torch.nn.Embedding(7, 6), torch.nn.Linear(30, 8), torch.nn.Linear(8, 3)

    def forward(self, tokens):
        return self.last(torch.tanh(self.hidden(self.embedding(tokens).flatten(1))))


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """Of the model its file, its weights after an epoch as PyTorch has them, and what it is trained on."""
    folder = tmp_path_factory.mktemp("words")
    torch.manual_seed(8)
    net, tokens, labels = Words(), torch.randint(7, (SAMPLES, 5)), torch.randint(3, (SAMPLES,))
    torch.onnx.export(net, tokens[:2], str(folder / "words.onnx"), training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=16, input_names=["tokens"], output_names=["y"], dynamic_axes={"tokens": {0: "batch"}})
    net.double()
    optimizer = torch.optim.SGD(net.parameters(), RATE)
    for step in range(PER_EPOCH):
        part = slice(step * SIZE, step * SIZE + SIZE)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(tokens[part]), labels[part]).backward()
        optimizer.step()
    weights = {name: parameter.detach().numpy() for name, parameter in net.named_parameters()}
    return folder, weights, {"tokens": tokens, "labels": labels}


def given(inputs, folder, option="--data"):
    return [word for entry in pipeline.save_inputs(inputs, folder) for word in (option, entry)]


def evaluation(folder, inputs):
    return given(inputs, folder, "--eval-data")


def compile_words(network, tmp_path, stages, *options):
    workers = sum(int(count) for count in stages.split("-"))
    return pipeline.compile_model(network[0] / "words.onnx", tmp_path / "project", "--minibatch", SIZE, "--stages", stages, "--optimizer",
                                  f"sgd,lr={RATE}", *(options or ("--microbatches", 2)), workers=workers)


def test_each_input_that_may_be_meant_is_told(network, tmp_path):
    """A label of 5 is none of 3 classes, and a word of 5 is one of 7: the loss knows its number alone."""
    labels = network[2]["labels"].clone()
    tokens = network[2]["tokens"].clone()
    labels[9], tokens[9] = 5, torch.tensor([1, 5, 2, 3, 4])
    data = pipeline.save_inputs({"tokens": tokens, "labels": labels}, tmp_path / "data")
    result = pipeline.train(compile_words(network, tmp_path, "1"), tmp_path / "run", "--order", "file", data=data, steps=3, check=False)
    assert result.returncode == 1
    told = [f"{tmp_path}/data/{name}.npy: sample 9 (counted from 0) of input '{name}'" for name in ("tokens", "labels")]
    either = (f"{first}, or {second} holds 5, expected 0 to 2; " for first, second in (told, told[::-1]))
    assert any(text in result.stderr for text in either), result.stderr


@pytest.mark.parametrize("refused,bad,says", [("tokens", 99, "input 'tokens' holds 99, expected "), ("labels", 55, "input 'labels' holds 55, expected 0 to 2")])
@pytest.mark.parametrize("stages,transport", [("1-1", "local"), ("1-1", "mpi"), ("2-1", "local"), ("2-1", "mpi"), ("1", "local")])
def test_what_is_refused_loses_no_weights(stages, transport, refused, bad, says, network, tmp_path):
    _, expected, inputs = network
    project = compile_words(network, tmp_path, stages)
    data = pipeline.save_inputs(inputs, tmp_path / "data")
    good = evaluation(tmp_path / "good", inputs)
    wrong = inputs | {refused: inputs[refused].clone()}
    wrong[refused][9, ...] = bad
    options = ["--order", "file", "--epochs", 3]
    result = pipeline.train(project, tmp_path / "run", *options, *evaluation(tmp_path / "wrong", wrong), data=data, transport=transport, check=False)
    saved = tmp_path / f"run/checkpoints/step-{PER_EPOCH:06}"
    assert result.returncode == 1
    assert f"error: evaluation after step {PER_EPOCH}: " in result.stderr and says in result.stderr, result.stderr
    assert result.stderr.endswith(f"; what was trained is saved: go on with --resume {saved}\n"), result.stderr
    found = safetensors.load_folder(saved)
    for name, weight in expected.items():
        numpy.testing.assert_allclose(found[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)

    resumed = pipeline.train(project, tmp_path / "run", *options, *good, "--resume", saved, data=data, transport=transport)
    whole = pipeline.train(project, tmp_path / "whole", *options, *good, data=data, transport=transport)
    assert resumed.losses[-2 * PER_EPOCH:] == whole.losses[PER_EPOCH:]
    for name, weight in whole.weights().items():
        assert numpy.array_equal(resumed.weights()[name], weight), name


def test_asynchronous_stages_lose_none_either(network, tmp_path):
    inputs = network[2]
    project = compile_words(network, tmp_path, "1-1", "--schedule", "pipedream")
    data = pipeline.save_inputs(inputs, tmp_path / "data")
    wrong = inputs | {"labels": inputs["labels"] + 1}
    options = ["--order", "file", "--epochs", 2, *evaluation(tmp_path / "wrong", wrong)]
    result = pipeline.train(project, tmp_path / "run", *options, data=data, transport="mpi", check=False)
    assert result.returncode == 1 and "what was trained is saved: go on with --resume" in result.stderr, result.stderr
    once = pipeline.train(project, tmp_path / "once", "--order", "file", data=data, transport="mpi")
    found = safetensors.load_folder(tmp_path / "run/checkpoints" / once.checkpoint.name)
    for name, weight in once.weights().items():
        assert numpy.array_equal(found[name], weight), name


def test_says_what_was_not_saved(network, tmp_path):
    inputs = network[2]
    project = compile_words(network, tmp_path, "1-1")
    data = given(inputs, tmp_path / "data")
    wrong = evaluation(tmp_path / "wrong", inputs | {"labels": inputs["labels"] + 1})
    result = pipeline.run(pipeline.BIN / "pdc-run", project, *data, *wrong, "--epochs", 2, check=False)
    assert result.returncode == 1 and result.stderr.endswith("; nothing was saved, for there was no --save\n"), result.stderr


@pytest.fixture(scope="module")
def endless(tmp_path_factory):
    """Minutes of evaluation."""
    folder = tmp_path_factory.mktemp("endless")
    for name, shape in ("tokens", (ENDLESS, 5)), ("labels", (ENDLESS,)):
        numpy.lib.format.open_memmap(folder / f"{name}.npy", "w+", numpy.uint8, shape).flush()
    return [word for name in ("tokens", "labels") for word in ("--eval-data", f"{name}={folder}/{name}.npy")]


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("stages,transport", [("1-1", "local"), ("1-1", "mpi"), ("2-1", "local"), ("2-1", "mpi")])
def test_a_signal_ends_it(stages, transport, epochs, network, endless, tmp_path):
    _, expected, inputs = network
    project = compile_words(network, tmp_path, stages)
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
    data = given(inputs, tmp_path / "data")
    log = tmp_path / "log.jsonl"
    run = subprocess.Popen([pipeline.BIN / "pdc-run", project, *data, *endless, "--order", "file", "--epochs", str(epochs), "--save", tmp_path / "saved",
                            "--log", log, "--transport", transport], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while run.poll() is None and not (log.exists() and log.stat().st_size):
        time.sleep(0.05)
    time.sleep(1.5)
    run.terminate()
    try:
        said = run.communicate(timeout=30)[0]
    finally:
        run.kill()
    assert run.returncode == 128 + signal.SIGTERM, said
    checkpoint = tmp_path / f"saved/step-{PER_EPOCH:06}"
    assert f"evaluation after step {PER_EPOCH}: was asked to end\n" in said and f"go on with --resume {checkpoint}\n" in said, said
    found = safetensors.load_folder(checkpoint)
    for name, weight in expected.items():
        numpy.testing.assert_allclose(found[name], weight, rtol=1e-5, atol=1e-6, err_msg=name)
