"""Attention whose mask is trained: against PyTorch, and in 16 bits on the emulation of a GPU against the CPU's training."""

import re

import numpy
import torch

import biased
import pipeline
import safetensors
import several_masks
from emulation import emit, on_host, train_on_host
from test_pytorch import check_gradients

RATE = 64
OPTIONS = ["--minibatch", 8, "--microbatches", 2, "--optimizer", f"sgd,lr={RATE}", "--schedule", "1f1b"]


def check_biases(model, data, shape, count, tmp_path):
    """Gradients in 16 bits of biases of that shape: close to the CPU's, and the same bits for one stage and two."""
    cpu = pipeline.train(pipeline.compile_model(model, tmp_path / "cpu", *OPTIONS, workers=1), tmp_path / "expected", data=data, steps=1)
    before = safetensors.load(tmp_path / "cpu" / "weights.safetensors")
    one, two = (train_on_host(emit(model, tmp_path / stages, *OPTIONS, "--exact", "--precision", "bf16", "--stages", stages, workers=workers),
                              tmp_path / f"found-{stages}", data=data, steps=1) for workers, stages in ((1, "1"), (2, "1-1")))
    assert "warning: attention" not in (tmp_path / "1" / "plan.txt").read_text()
    weights = one.weights()
    assert all(numpy.array_equal(value, weights[name]) for name, value in two.weights().items())
    biases = [name for name, value in weights.items() if value.shape == shape]
    assert len(biases) == count
    for name in biases:
        expected, found = (before[name] - after[name] for after in (cpu.weights(), weights))
        assert numpy.linalg.norm(found - expected) < 0.05 * numpy.linalg.norm(expected), name


@on_host
def test_trained_masks_in_16_bits(models, tmp_path):
    """T5's biases of scores: the gradient of each is a sum over the samples, which is made by the library, microbatch by microbatch."""
    model = models("t5", "--layers", 1, "--width", 32, "--heads", 4, "--hidden", 48, "--vocabulary", 64, "--sequence", 20)
    tokens = numpy.random.default_rng(5)
    data = []
    for name in ("source", "target", "labels"):
        numpy.save(tmp_path / f"{name}.npy", tokens.integers(0, 64, (8, 20)))
        data.append(f"{name}={tmp_path / name}.npy")
    check_biases(model, data, (32, 4), 2, tmp_path)


@on_host
def test_chosen_masks_in_16_bits(models, tmp_path):
    images, labels = pipeline.draw_images(tmp_path, 8, (biased.ROWS, biased.WIDTH), 10, seed=3)
    check_biases(models("biased"), [f"input={images}", f"labels={labels}"], (2 * biased.ROWS, biased.HEADS), 2, tmp_path)


def test_chosen_masks_are_pytorchs(models, tmp_path):
    torch.manual_seed(1)
    check_gradients(biased.Biased(), models("biased"), (biased.ROWS, biased.WIDTH), 6, False, tmp_path, 2)


def test_chosen_masks_are_no_samples(models):
    """What is added is the bias alone; what comes before is an attribute."""
    graph = pipeline.run(pipeline.BIN / "pdc", models("biased"), "--gpus", 1, "--minibatch", 6, "--stop-after", "graph").stdout
    attentions = re.findall(r'pdc.node "SoftmaxAttention" [^{]*{([^}]*)}.*?, (tensor<[0-9x]*xf32>)\) ->', graph.split("@evaluate")[0])
    mask = f"tensor<1x{biased.HEADS}x{biased.ROWS}x{biased.ROWS}xf32>"
    assert [("is_causal = 1" in attributes, last) for attributes, last in attentions] == [(False, mask)] * 2 + [(True, mask)] * 2


def test_several_masks_are_pytorchs(models, tmp_path):
    torch.manual_seed(1)
    check_gradients(several_masks.SeveralMasks(), models("several_masks"), (several_masks.ROWS, several_masks.WIDTH), 6, False, tmp_path, 2)


def test_several_masks_are_one(models):
    """Also of windows, of which each image has four: there are no masks of more than those."""
    graph = pipeline.run(pipeline.BIN / "pdc", models("several_masks"), "--gpus", 1, "--minibatch", 6, "--stop-after", "graph").stdout
    attentions = re.findall(r'pdc.node "SoftmaxAttention" .*?, (tensor<[0-9x]*xf32>)\) ->', graph.split("@evaluate")[0])
    rows, heads, window = several_masks.ROWS, several_masks.HEADS, several_masks.WINDOW ** 2
    windows = f"tensor<{rows // window}x{heads}x{window}x{window}xf32>"
    assert attentions == [windows, windows, f"tensor<6x{heads}x1x{rows}xf32>", f"tensor<6x{heads}x{rows}x{rows}xf32>"]


@on_host
def test_several_masks_in_16_bits(models, tmp_path):
    """The gradients of windows' biases are sums over images, and of windows."""
    images, labels = pipeline.draw_images(tmp_path, 8, (several_masks.ROWS, several_masks.WIDTH), 10, seed=3)
    window = several_masks.WINDOW ** 2
    check_biases(models("several_masks"), [f"input={images}", f"labels={labels}"], (several_masks.HEADS, window, window), 2, tmp_path)
