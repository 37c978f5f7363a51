"""The transformers of tools/models as the tests train them: scripts, drawn data, PyTorch's loss."""

import importlib

import numpy
import torch

import pipeline

BATCH = 8


def gpt2(folder, seed, count=BATCH):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 512, (count, 33), generator=generator)
    return {"input": tokens[:, :-1], "labels": tokens[:, 1:]}


def bert(folder, seed, count=BATCH):
    torch.manual_seed(seed)
    return importlib.import_module("bert").examples(512, 32, count)


def vit(folder, seed, count=BATCH):
    generator = torch.Generator().manual_seed(seed)
    return {"input": torch.randn(count, 3, 32, 32, generator=generator),
            "labels": torch.randint(0, 10, (count,), generator=generator)}


CLASSES = {"gpt2": "GPT2", "bert": "Bert", "vit": "VisionTransformer"}
DRAWN = {"gpt2": gpt2, "bert": bert, "vit": vit}


def build(network):
    torch.manual_seed(1)
    return getattr(importlib.import_module(network), CLASSES[network])().train()


def loss_of(network, net, inputs):
    """The mean over all labels that count."""
    if network == "bert":
        return net(**inputs)
    scores = net(inputs["input"])
    return torch.nn.functional.cross_entropy(scores.reshape(-1, scores.shape[-1]), inputs["labels"].reshape(-1))


def draw(network, folder, seed, count=BATCH):
    """Inputs as tensors, and as the INPUT=FILE of pdc-run."""
    inputs = DRAWN[network](folder, seed, count)
    data = []
    for name, tensor in inputs.items():
        path = pipeline.pathlib.Path(folder) / f"{name}-{seed}.npy"
        numpy.save(path, numpy.ascontiguousarray(tensor.numpy()))
        data.append(f"{name}={path}")
    return inputs, data
