"""A resumed run goes on bit for bit, at any number of stages."""

import numpy
import pytest

import pipeline

SHAPE, SIZE, MICROBATCHES = (1, 28, 28), 8, 2


def make(model, folder, stages, schedule="1f1b"):
    return pipeline.compile_model(
        model, folder, "--exact", "--schedule", schedule, "--minibatch", SIZE * MICROBATCHES, "--microbatches",
        MICROBATCHES, "--optimizer", "adam,lr=0.003", workers=stages)


@pytest.mark.parametrize("before,after,schedule,transport", [
    (1, 1, "1f1b", "local"), (2, 2, "1f1b", "local"), (2, 2, "1f1b", "mpi"), (2, 3, "1f1b", "local"), (2, 2, "gpipe", "local"),
    (3, 1, "1f1b", "local")])
def test_continues(before, after, schedule, transport, models, tmp_path):
    """fashion has Dropout and running statistics; 7 steps cross an epoch of 5 steps."""
    images, labels = pipeline.draw_images(tmp_path, SIZE * MICROBATCHES * 5, SHAPE, 10)
    data = [f"input={images}", f"labels={labels}"]
    rates = ["--lr-schedule", "cosine,warmup=2", "--epochs", 2]
    first = make(models("fashion"), tmp_path / "first", before, schedule)
    whole = pipeline.train(first, tmp_path / "whole", *rates, data=data, transport=transport)
    half = pipeline.train(first, tmp_path / "half", "--save-every", 3, *rates, data=data, transport=transport)
    third = sorted((tmp_path / "half" / "checkpoints").glob("step-*"))[0]
    second = first if before == after else make(models("fashion"), tmp_path / "second", after, schedule)
    rest = pipeline.train(second, tmp_path / "rest", "--resume", third, *rates, data=data, transport=transport)
    assert half.losses == whole.losses
    assert rest.losses == whole.losses[-len(rest.losses):] and len(rest.losses) == len(whole.losses) - 3
    expected, found = whole.weights(), rest.weights()
    assert expected.keys() == found.keys()
    for name in expected:
        assert numpy.array_equal(found[name], expected[name]), name


@pytest.mark.parametrize("before,after", [
    (("interleaved", 2), ("1f1b", 3)), (("1f1b", 1), ("zb-v", 2)), (("zb-v", 2), ("interleaved", 2))])
def test_continues_with_other_stages_per_rank(before, after, models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, SIZE * MICROBATCHES * 4, SHAPE, 10)
    data = [f"input={images}", f"labels={labels}"]
    first = make(models("fashion"), tmp_path / "first", before[1], before[0])
    whole = pipeline.train(first, tmp_path / "whole", "--save-every", 3, data=data, steps=6)
    third = sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))[0]
    second = make(models("fashion"), tmp_path / "second", after[1], after[0])
    rest = pipeline.train(second, tmp_path / "rest", "--resume", third, data=data, steps=6)
    assert rest.losses == whole.losses[3:]
    expected, found = whole.weights(), rest.weights()
    for name in expected:
        assert numpy.array_equal(found[name], expected[name]), name


def test_checkpoint_of_another_model_is_refused(models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 32, (784,), 10)
    small = pipeline.compile_model(models("mlp"), tmp_path / "mlp", "--minibatch", 16, "--microbatches", 1)
    run = pipeline.train(small, tmp_path / "run", data=[f"input={images}", f"labels={labels}"], steps=1)
    other = make(models("fashion"), tmp_path / "fashion", 1)
    images, labels = pipeline.draw_images(tmp_path / "images", 32, SHAPE, 10)
    result = pipeline.train(other, tmp_path / "other", "--resume", run.checkpoint, steps=1, check=False,
                            data=[f"input={images}", f"labels={labels}"])
    assert result.returncode == 1 and "error: " in result.stderr, result.stderr


def test_weights_that_are_no_numbers(models, tmp_path):
    """No training begins with them."""
    project = pipeline.compile_model(models("mlp", "--hidden", 8), tmp_path / "project", "--minibatch", 8)
    images, labels = pipeline.draw_images(tmp_path, 8, (784,), 10)
    weights = bytearray((project / "weights.safetensors").read_bytes())
    begin = 8 + int.from_bytes(weights[:8], "little")
    weights[begin + 8:begin + 12] = numpy.float32("nan").tobytes()
    (tmp_path / "broken.safetensors").write_bytes(weights)
    with pytest.raises(AssertionError, match="broken.safetensors: tensor '.*' holds at element 2 nan or infinity"):
        pipeline.train(project, tmp_path / "run", "--weights", tmp_path / "broken.safetensors", steps=1,
                       data=[f"input={images}", f"labels={labels}"])


def test_another_optimizer_is_named(models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 16, (784,), 10)
    data = [f"input={images}", f"labels={labels}"]
    made = {kind: pipeline.compile_model(models("mlp", "--hidden", 8), tmp_path / kind, "--minibatch", 8, "--optimizer", kind)
            for kind in ("momentum", "adam", "sgd")}
    saved = {kind: pipeline.train(project, tmp_path / f"{kind}-run", data=data, steps=1).checkpoint for kind, project in made.items()}
    for program, of, says in (("adam", "momentum", "is of a run with optimizer momentum or nesterov (momentum), and this program's is "
                                                   "adam, adamw or lamb (exp_avg, exp_avg_sq); resume with the program of that run"),
                              ("momentum", "sgd", "is of a run with optimizer sgd, which has no states, and this program's is momentum")):
        result = pipeline.train(made[program], tmp_path / "refused", "--resume", saved[of], data=data, steps=2, check=False)
        assert result.returncode == 1 and f"{saved[of]}/model.safetensors.index.json: {says}" in result.stderr, result.stderr
    # States that the program does not have are left behind.
    assert len(pipeline.train(made["sgd"], tmp_path / "less", "--resume", saved["adam"], data=data, steps=2).losses) == 1


def test_weights_are_the_program_s(models, tmp_path):
    """Not those that lie in the current folder, or above the program's."""
    images, labels = pipeline.draw_images(tmp_path, 8, (784,), 10)
    project = pipeline.compile_model(models("mlp", "--hidden", 8), tmp_path / "project", "--minibatch", 8)
    pipeline.run(pipeline.BIN / "pdc-run", project, "--build-only")
    (project / "weights.safetensors").rename(tmp_path / "weights.safetensors")
    result = pipeline.train(project, tmp_path / "run", steps=1, data=[f"input={images}", f"labels={labels}"], check=False, cwd=tmp_path)
    assert result.returncode == 1 and result.stderr == (
        f"error: {project}/build/weights.safetensors: is not there, nor in the folder above, where pdc wrote it with the program; "
        "run pdc again, or give --weights FILE\n")


def test_token_files(tmp_path):
    """Bare numbers, as tokenizers write them: labels are the tokens behind, and train as arrays of the same do."""
    tokens = numpy.random.default_rng(1).integers(0, 50, 8 * 16 + 5).astype(numpy.uint16)
    tokens.tofile(tmp_path / "train.bin")
    numpy.save(tmp_path / "input.npy", tokens[:128].reshape(8, 16).astype(numpy.int64))
    numpy.save(tmp_path / "labels.npy", tokens[1:129].reshape(8, 16))
    model = pipeline.export("gpt2", tmp_path / "model.onnx", "--layers", 1, "--width", 16, "--heads", 2, "--vocabulary", 50, "--sequence", 16)
    project = pipeline.compile_model(model, tmp_path / "project", "--minibatch", 4)
    arrays = pipeline.train(project, tmp_path / "arrays", data=[f"input={tmp_path}/input.npy", f"labels={tmp_path}/labels.npy"], steps=3)
    bare = pipeline.train(project, tmp_path / "bare", data=[f"input={tmp_path}/train.bin,type=u16", f"labels={tmp_path}/train.bin,type=u16,skip=1"],
                          steps=3)
    assert bare.losses == arrays.losses
