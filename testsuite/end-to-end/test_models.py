"""The networks that pipelines are for: at full size as far as the sources, and small against PyTorch.

`tools/check --models` runs all of them, a plain check the cheapest.
"""

import copy
import importlib
import json

import numpy
import pytest
import torch

import export
import pipeline
import safetensors
from decisions import expect_alike

BATCH, STEPS, RATE = 4, 3, 65536.0


def vision(network, *reduced, minibatch=64):
    return ("vision", ["--network", network], ["--network", network, "--classes", 10, "--dropout", 0, *reduced], minibatch)


# A normalisation takes back what one before it has scaled: but for epsilon the gradients of such scales vanish, alone or along a
# direction, and with the networks' own, 1e-5 or 1e-3, rounding of a few channels' large sums leaves them 1e-3 to 2e-2 off.
CONDITIONED = ["--epsilon", 0.01]
AWD_LM = ["--layers", 2, "--width", 12, "--hidden", 16, "--vocabulary", 40, "--sequence", 4]

# Script, options of the full size and of the small one, samples of the full size's minibatch.
MODELS = {
    "vgg16": vision("vgg16", "--narrow", 16),
    "alexnet": vision("alexnet", "--narrow", 16),
    "resnet50": vision("resnet50", "--narrow", 8, "--size", 64),
    "inception_v3": vision("inception_v3", "--narrow", 16, "--size", 107, *CONDITIONED),
    "densenet121": vision("densenet121", "--narrow", 8, "--size", 64, *CONDITIONED),
    "mobilenet_v3_large": vision("mobilenet_v3_large", "--narrow", 4, "--size", 64),
    "efficientnet_b0": vision("efficientnet_b0", "--narrow", 4, "--size", 64),
    "unet": ("unet", [], ["--size", 32, "--width", 8], 8),
    "unet_transposed": ("unet", ["--up", "transposed"], ["--up", "transposed", "--size", 32, "--width", 8], 8),
    "llama": ("llama", [], ["--layers", 3, "--width", 64, "--heads", 4, "--groups", 2, "--hidden", 96, "--vocabulary", 128,
                            "--sequence", 12], 8),
    "t5": ("t5", [], ["--layers", 2, "--width", 64, "--heads", 4, "--hidden", 96, "--vocabulary", 128, "--sequence", 20], 8),
    "translation": ("translation", [],
                    ["--layers", 2, "--width", 64, "--heads", 4, "--hidden", 96, "--vocabulary", 128, "--sequence", 12,
                     "--dropout", 0], 8),
    "amoebanet": ("amoebanet", [], ["--cells", 3, "--filters", 32, "--size", 64, "--classes", 10, *CONDITIONED], 64),
    "gnmt": ("gnmt", [], ["--layers", 3, "--width", 24, "--vocabulary", 64, "--sequence", 5, "--dropout", 0], 64),
    "awd_lm": ("awd_lm", [], AWD_LM + ["--dropout", 0], 64),
    "yolov3": ("yolov3", [], ["--size", 64, "--width", 8, "--blocks", 1, 1, 1, 1, 1, "--classes", 3], 64),
    "s2vt": ("s2vt", [], ["--frames", 4, "--features", 20, "--words", 4, "--width", 12, "--hidden", 16, "--vocabulary", 50,
                          "--dropout", 0], 64),
}
# Those that test_transformers.py trains.
TRANSFORMERS = {
    "gpt2_xl": ("gpt2", ["--layers", 48, "--width", 1600, "--heads", 25, "--vocabulary", 50257, "--sequence", 1024], [], 64),
    "bert_large": ("bert", ["--layers", 24, "--width", 1024, "--heads", 16, "--vocabulary", 30522, "--sequence", 512], [], 64),
    "vit_b16": ("vit", ["--layers", 12, "--width", 768, "--heads", 12, "--size", 224, "--patch", 16, "--classes", 1000], [], 64),
}

OPTIONS = {"yolov3": ["--loss", "output"]}
QUICK = {"alexnet"}


def each(names):
    return pytest.mark.parametrize(
        "network", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.models]) for name in names])


def words(options):
    return [str(option) for option in options]


@pytest.mark.parametrize("network, expected", [("gpt2", 3), ("bert", 3), ("vit", 3), ("llama", 3), ("t5", 6),
                                               ("translation", 6), ("seq2seq", 4)])
def test_attention_is_kept_whole(network, expected, models, tmp_path):
    """One node per attention, and no softmax besides."""
    model = models(network, *(MODELS[network][2] if network in MODELS else []))
    printed = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "--minibatch", 4, "--stop-after",
                           "graph").stdout
    train = printed.split("@evaluate")[0]
    assert train.count('"SoftmaxAttention"') == train.count('"SoftmaxAttentionGrad"') == expected
    assert '"Softmax"' not in train


@each({**MODELS, **TRANSFORMERS})
def test_full_size(network, tmp_path):
    script, full, _, minibatch = {**MODELS, **TRANSFORMERS}[network]
    model = pipeline.export(script, tmp_path / f"{network}.onnx", "--without-weights", *full)
    for device in ("cuda", "cpu"):
        project = tmp_path / device
        pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 4, "--device", device, "--minibatch", minibatch,
                     "--memory", "64G", "--schedule", "1f1b", "--stages", "1-1-1-1", "-o", project, *OPTIONS.get(network, []))
        stages = json.loads((project / "plan.json").read_text())["stages"]
        assert len(stages) == 4
        assert all((project / f"stage_{stage['id']}.cpp").exists() for stage in stages)


def loss_of(net, inputs):
    """Of the network's own, or over all labels; the scores of classes are the last dimension, those of images the second."""
    if "labels" not in inputs:
        return net(*inputs.values())
    scores = net(*(value for name, value in inputs.items() if name != "labels"))
    if scores.dim() == 3:
        scores = scores.flatten(0, 1)
    labels = inputs["labels"]
    return torch.nn.functional.cross_entropy(scores, labels.flatten() if scores.dim() == 2 else labels)


def mean_loss(net, inputs):
    """Of two microbatches: each has its own statistics."""
    halves = (slice(None, BATCH // 2), slice(BATCH // 2, None))
    return sum(loss_of(net, {name: value[half] for name, value in inputs.items()}) for half in halves) / 2


def gradients(net, inputs):
    net.zero_grad()
    loss = mean_loss(net, inputs)
    loss.backward()
    return loss.item(), {name: parameter.grad.double().numpy().copy() for name, parameter in net.named_parameters()}


def in_double(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def store_weights(project, net):
    stored = safetensors.load(project / "weights.safetensors")
    weights = {name: value.detach().numpy().copy() for name, value in net.named_parameters()}
    assert weights.keys() <= stored.keys()
    buffers = {name: value.numpy().copy() for name, value in net.named_buffers() if name in stored}
    safetensors.save(project / "weights.safetensors", {**stored, **weights, **buffers})
    return weights


def expect_vanishing(ours, theirs, truth):
    """A gradient that is zero but for rounding, as that of a bias before a normalisation, is so up to three times what
    rounding makes of PyTorch's."""
    whole = numpy.linalg.norm([numpy.linalg.norm(gradient) for gradient in truth.values()])
    vanishing = [name for name, gradient in truth.items() if numpy.linalg.norm(gradient) <= 1e-9 * whole]
    off = lambda found: max((numpy.linalg.norm(found[name] - truth[name]) for name in vanishing), default=0.0)
    assert off(ours) <= 3 * off(theirs)


@each(MODELS)
def test_trains(network, tmp_path, record_property):
    """Three stages against one, bit for bit, and against PyTorch, weights reloaded at each step: each parameter's gradient
    within a thousandth. It is what an update subtracts, with a rate so large that rounding of the weight hides no small one."""
    script, _, small, _ = MODELS[network]
    module = importlib.import_module(script)
    options = export.options_of(module, ["-", *words(small)])
    model = pipeline.export(script, tmp_path / f"{network}.onnx", *small)
    projects = {stages: pipeline.compile_model(
        model, tmp_path / stages, "--exact", "--minibatch", BATCH, "--microbatches", 2, "--stages", stages,
        "--optimizer", f"sgd,lr={RATE}", *OPTIONS.get(network, []), workers=stages.count("1")) for stages in ("1", "1-1-1")}
    torch.manual_seed(options.seed)
    net = module.build(options).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    turned = []
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        inputs, unsplit = module.examples(options, BATCH), {}
        data, doubles = pipeline.save_inputs(inputs, tmp_path / f"data{step}"), in_double(inputs)
        for stages, project in projects.items():
            before = store_weights(project, net)
            result = pipeline.train(project, tmp_path / f"{stages}-{step}", data=data, steps=1)
            pipeline.expect_same_bits(result, unsplit, network)
        after = result.weights()
        ours = {name: (value.astype(numpy.float64) - after[name]) / RATE for name, value in before.items()}
        _, truth = gradients(copy.deepcopy(net).double(), doubles)
        loss, theirs = gradients(net, inputs)
        turned += expect_alike(ours, net, lambda copied: mean_loss(copied, doubles), step, theirs)
        assert result.losses[0] == pytest.approx(loss, rel=1e-4)
        expect_vanishing(ours, theirs, truth)
        optimizer.step()
    record_property("summary", f"{network}: {len(turned)} decisions in {STEPS} steps that rounding made otherwise")


@pytest.mark.models
def test_drops_weights(tmp_path):
    """Dropout of words, of weights and of the same numbers at each step: the same bits in three stages as in one, and
    others from another seed."""
    script = importlib.import_module("awd_lm")
    options = export.options_of(script, ["-", *words(AWD_LM)])
    model = pipeline.export("awd_lm", tmp_path / "awd_lm.onnx", *AWD_LM)
    torch.manual_seed(7)
    data, unsplit = pipeline.save_inputs(script.examples(options, 2 * BATCH), tmp_path / "data"), {}
    for stages in ("1", "1-1-1"):
        project = pipeline.compile_model(model, tmp_path / stages, "--exact", "--minibatch", BATCH, "--microbatches", 2,
                                         "--stages", stages, workers=stages.count("1"))
        result = pipeline.train(project, tmp_path / f"{stages}-run", data=data, steps=2)
        pipeline.expect_same_bits(result, unsplit, "awd_lm")
    again = pipeline.train(project, tmp_path / "again", data=data, steps=2, seed=2)
    assert again.losses[0] != result.losses[0]
