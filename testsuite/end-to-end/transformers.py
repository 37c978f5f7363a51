"""The transformers of tools/models, and one of PyTorch's own layers, as the tests train them: scripts, drawn data, PyTorch's loss."""

import importlib

import numpy
import torch

import export
import pipeline
from bert import Bert

BATCH = 8
NETWORKS = ("gpt2", "bert", "vit", "seq2seq")


def tiny(network):
    """The script of a network, and the sizes that it has by default."""
    script = importlib.import_module(network)
    return script, export.options_of(script, ["-"])


def build(network):
    torch.manual_seed(1)
    script, options = tiny(network)
    return script.build(options).train()


def loss_of(net, inputs):
    """The mean over all labels that count."""
    if isinstance(net, Bert):
        return net(**inputs)
    scores = net(*(value for name, value in inputs.items() if name != "labels"))
    return torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), inputs["labels"].reshape(-1))


def draw(network, folder, seed, count=BATCH):
    """Inputs as tensors, and as the INPUT=FILE of pdc-run."""
    torch.manual_seed(seed)
    script, options = tiny(network)
    inputs = script.examples(options, count)
    data = []
    for name, tensor in inputs.items():
        path = pipeline.pathlib.Path(folder) / f"{name}-{seed}.npy"
        numpy.save(path, numpy.ascontiguousarray(tensor.numpy()))
        data.append(f"{name}={path}")
    return inputs, data
