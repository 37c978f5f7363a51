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

BATCH, STEPS, RATE = 4, 3, 65536.0


def vision(network, *reduced, minibatch=64):
    return ("vision", ["--network", network], ["--network", network, "--classes", 10, "--dropout", 0, *reduced], minibatch)


AWD_LM = ["--layers", 2, "--width", 12, "--hidden", 16, "--vocabulary", 40, "--sequence", 4]

# Script, options of the full size and of the small one, samples of the full size's minibatch.
MODELS = {
    "vgg16": vision("vgg16", "--narrow", 16),
    "alexnet": vision("alexnet", "--narrow", 16),
    "resnet50": vision("resnet50", "--narrow", 8, "--size", 64),
    "inception_v3": vision("inception_v3", "--narrow", 16, "--size", 107),
    "densenet121": vision("densenet121", "--narrow", 8, "--size", 64),
    "mobilenet_v3_large": vision("mobilenet_v3_large", "--narrow", 4, "--size", 64),
    "efficientnet_b0": vision("efficientnet_b0", "--narrow", 4, "--size", 64),
    "unet": ("unet", [], ["--size", 32, "--width", 8], 8),
    "unet_transposed": ("unet", ["--up", "transposed"], ["--up", "transposed", "--size", 32, "--width", 8], 8),
    "llama": ("llama", ["--layers", 2, "--sequence", 128], ["--layers", 3, "--width", 64, "--heads", 4, "--groups", 2, "--hidden", 96, "--vocabulary", 128,
                            "--sequence", 12], 8),
    "t5": ("t5", [], ["--layers", 2, "--width", 64, "--heads", 4, "--hidden", 96, "--vocabulary", 128, "--sequence", 20], 8),
    "translation": ("translation", [],
                    ["--layers", 2, "--width", 64, "--heads", 4, "--hidden", 96, "--vocabulary", 128, "--sequence", 12,
                     "--dropout", 0], 8),
    "amoebanet": ("amoebanet", [], ["--cells", 3, "--filters", 32, "--size", 64, "--classes", 10], 64),
    "gnmt": ("gnmt", [], ["--layers", 3, "--width", 24, "--vocabulary", 64, "--sequence", 5, "--dropout", 0], 64),
    "awd_lm": ("awd_lm", [], AWD_LM + ["--dropout", 0], 64),
    "yolov3": ("yolov3", [], ["--size", 64, "--width", 8, "--blocks", 1, 1, 1, 1, 1, "--classes", 3], 64),
    "s2vt": ("s2vt", [], ["--frames", 4, "--features", 20, "--words", 4, "--width", 12, "--hidden", 16, "--vocabulary", 50,
                          "--dropout", 0], 64),
}
OPTIONS = {"yolov3": ["--loss", "output"]}
QUICK = {"alexnet"}


def each(names):
    return pytest.mark.parametrize(
        "network", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.models]) for name in names])


def words(options):
    return [str(option) for option in options]


@pytest.mark.parametrize("network, expected", [("gpt2", 3), ("bert", 3), ("vit", 3), ("llama", 3), ("t5", 6),
                                               ("translation", 6)])
def test_attention_is_kept_whole(network, expected, models, tmp_path):
    """One node per attention, and no softmax besides."""
    model = models(network, *(MODELS[network][2] if network in MODELS else []))
    printed = pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 2, "--device", "cpu", "--minibatch", 4, "--stop-after",
                           "graph").stdout
    train = printed.split("@evaluate")[0]
    assert train.count('"SoftmaxAttention"') == train.count('"SoftmaxAttentionGrad"') == expected
    assert '"Softmax"' not in train


@each(MODELS)
def test_full_size(network, tmp_path):
    script, full, _, minibatch = MODELS[network]
    model = pipeline.export(script, tmp_path / f"{network}.onnx", "--without-weights", *full)
    for device in ("cuda", "cpu"):
        project = tmp_path / device
        pipeline.run(pipeline.BIN / "pdc", model, "--gpus", 4, "--device", device, "--minibatch", minibatch,
                     "--memory", "64G", "--schedule", "1f1b", "-o", project, *OPTIONS.get(network, []))
        stages = json.loads((project / "plan.json").read_text())["stages"]
        assert len(stages) >= 3
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


def gradients(net, inputs):
    """Of two microbatches: each has its own statistics."""
    net.zero_grad()
    total = 0.0
    for half in (slice(None, BATCH // 2), slice(BATCH // 2, None)):
        loss = loss_of(net, {name: value[half] for name, value in inputs.items()}) / 2
        loss.backward()
        total += loss.item()
    return total, {name: parameter.grad.double().numpy().copy() for name, parameter in net.named_parameters()}


def in_double(inputs):
    return {name: value.double() if value.is_floating_point() else value for name, value in inputs.items()}


def save_inputs(inputs, folder):
    folder.mkdir()
    for name, value in inputs.items():
        numpy.save(folder / f"{name}.npy", value.numpy())
    return [f"{name}={folder / name}.npy" for name in inputs]


def store_weights(project, net):
    stored = safetensors.load(project / "weights.safetensors")
    weights = {name: value.detach().numpy().copy() for name, value in net.named_parameters()}
    assert weights.keys() <= stored.keys()
    buffers = {name: value.numpy().copy() for name, value in net.named_buffers() if name in stored}
    safetensors.save(project / "weights.safetensors", {**stored, **weights, **buffers})
    return weights


def distance(found, expected):
    return numpy.linalg.norm(found - expected) / max(numpy.linalg.norm(expected), 1e-9)


def rounded_otherwise(net, inputs, truth, name):
    """How far PyTorch's gradient of a parameter goes from the truth when each weight moves by half its last bit at most:
    far, where the gradient is a small difference of large sums."""
    worst = 0.0
    for draw in range(8):
        moved, generator = copy.deepcopy(net), torch.Generator().manual_seed(draw)
        with torch.no_grad():
            for parameter in moved.parameters():
                parameter *= 1 + (torch.rand(parameter.shape, generator=generator) - 0.5) * 2 ** -23
        worst = max(worst, distance(gradients(moved, inputs)[1][name], truth[name]))
    return worst


@each(MODELS)
def test_trains(network, tmp_path):
    """Three stages against one, bit for bit, and against PyTorch, weights reloaded at each step. The gradient is what
    an update subtracts, with a rate so large that rounding of the weight hides no small one;
    rounding may move it as far as three times PyTorch's own in any parameter, or as far as PyTorch's own gradient of that parameter goes
    when weights are rounded otherwise."""
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
    ours, noise, steps = {}, 0.0, []
    for step in range(STEPS):
        torch.manual_seed(100 + step)
        inputs, unsplit = module.examples(options, BATCH), {}
        data = save_inputs(inputs, tmp_path / f"data{step}")
        for stages, project in projects.items():
            before = store_weights(project, net)
            result = pipeline.train(project, tmp_path / f"{stages}-{step}", data=data, steps=1)
            pipeline.expect_same_bits(result, unsplit, network)
        _, truth = gradients(copy.deepcopy(net).double(), in_double(inputs))
        loss, theirs = gradients(net, inputs)
        assert result.losses[0] == pytest.approx(loss, rel=1e-4)
        after = result.weights()
        for name, expected in truth.items():
            ours[step, name] = distance((before[name].astype(numpy.float64) - after[name]) / RATE, expected)
            noise = max(noise, distance(theirs[name], expected))
        steps.append((copy.deepcopy(net), inputs, truth))
        optimizer.step()
    for (step, name), found in ours.items():
        if not found <= max(1e-3, 3 * noise):
            assert found <= rounded_otherwise(*steps[step], name), (step, name, found, noise)


@pytest.mark.models
def test_drops_weights(tmp_path):
    """Dropout of words, of weights and of the same numbers at each step: the same bits in three stages as in one, and
    others from another seed."""
    script = importlib.import_module("awd_lm")
    options = export.options_of(script, ["-", *words(AWD_LM)])
    model = pipeline.export("awd_lm", tmp_path / "awd_lm.onnx", *AWD_LM)
    torch.manual_seed(7)
    data, unsplit = save_inputs(script.examples(options, 2 * BATCH), tmp_path / "data"), {}
    for stages in ("1", "1-1-1"):
        project = pipeline.compile_model(model, tmp_path / stages, "--exact", "--minibatch", BATCH, "--microbatches", 2,
                                         "--stages", stages, workers=stages.count("1"))
        result = pipeline.train(project, tmp_path / f"{stages}-run", data=data, steps=2)
        pipeline.expect_same_bits(result, unsplit, "awd_lm")
    again = pipeline.train(project, tmp_path / "again", data=data, steps=2, seed=2)
    assert again.losses[0] != result.losses[0]
