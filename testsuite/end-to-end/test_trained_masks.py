"""Attention whose mask is trained, in 16 bits on the emulation of a GPU, against the CPU's training."""

import numpy

import pipeline
import safetensors
from emulation import emit, on_host, train_on_host


@on_host
def test_trained_masks_in_16_bits(models, tmp_path):
    """T5's biases of scores: the gradient of each is a sum over the samples, which is made by the library, microbatch by microbatch."""
    rate = 64
    model = models("t5", "--layers", 1, "--width", 32, "--heads", 4, "--hidden", 48, "--vocabulary", 64, "--sequence", 20)
    tokens = numpy.random.default_rng(5)
    data = []
    for name in ("source", "target", "labels"):
        numpy.save(tmp_path / f"{name}.npy", tokens.integers(0, 64, (8, 20)))
        data.append(f"{name}={tmp_path / name}.npy")
    options = ["--minibatch", 8, "--microbatches", 2, "--optimizer", f"sgd,lr={rate}", "--schedule", "1f1b"]
    cpu = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *options, workers=1), tmp_path / "expected", data=data, steps=1)
    before = safetensors.load(tmp_path / "cpu" / "weights.safetensors")
    one, two = (train_on_host(emit(model, tmp_path / stages, *options, "--exact", "--precision", "bf16", "--stages", stages, workers=workers),
                              tmp_path / f"found-{stages}", data=data, steps=1) for workers, stages in ((1, "1"), (2, "1-1")))
    assert "warning: attention" not in (tmp_path / "1" / "plan.txt").read_text()
    weights = one.weights()
    assert all(numpy.array_equal(value, weights[name]) for name, value in two.weights().items())
    biases = [name for name, value in weights.items() if value.shape == (32, 4)]
    assert len(biases) == 2
    for name in biases:
        expected, found = (before[name] - after[name] for after in (cpu.weights(), weights))
        assert numpy.linalg.norm(found - expected) < 0.05 * numpy.linalg.norm(expected), name
