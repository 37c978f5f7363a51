#!/usr/bin/python3
"""torchvision's classifiers of images: input f32[batch, 3, size, size], output their scores."""
import sys

import torch
from torch import nn
from torchvision import models

from export import main_of

# Stochastic depth draws one number per sample, which torch.onnx does not export; Inception's auxiliary
# classifier is a second output that training may leave out.
NETWORKS = {
    "vgg16": (models.vgg16, {}, 224),
    "alexnet": (models.alexnet, {}, 224),
    "resnet50": (models.resnet50, {}, 224),
    "inception_v3": (models.inception_v3, {"aux_logits": False, "init_weights": False}, 299),
    "densenet121": (models.densenet121, {}, 224),
    "mobilenet_v3_large": (models.mobilenet_v3_large, {}, 224),
    "efficientnet_b0": (models.efficientnet_b0, {"stochastic_depth_prob": 0.0}, 224),
}
OUTPUTS = {"output": True}


def configure(parser):
    parser.add_argument("--network", choices=NETWORKS, default="resnet50")
    parser.add_argument("--size", type=int, default=0, help="of the images (default 224, inception_v3 299)")
    parser.add_argument("--classes", type=int, default=1000, help="(default 1000)")
    parser.add_argument("--narrow", type=int, default=1, help="divides the channels of all layers (default 1)")
    parser.add_argument("--dropout", type=float, help="(default the network's own)")
    parser.add_argument("--epsilon", type=float, help="of all normalisations (default the network's own)")


def divided(channels, divisor):
    return -(-channels // divisor)


def narrow(layer, divisor, classes):
    """The layer with its channels divided; images keep their 3 and scores their classes."""
    if isinstance(layer, nn.Conv2d):
        return nn.Conv2d(
            3 if layer.in_channels == 3 else divided(layer.in_channels, divisor), divided(layer.out_channels, divisor),
            layer.kernel_size, layer.stride, layer.padding, layer.dilation,
            1 if layer.groups == 1 else divided(layer.groups, divisor), layer.bias is not None)
    if isinstance(layer, nn.BatchNorm2d):
        return nn.BatchNorm2d(divided(layer.num_features, divisor), layer.eps, layer.momentum)
    if isinstance(layer, nn.Linear):
        last = layer.out_features == classes
        return nn.Linear(divided(layer.in_features, divisor), classes if last else divided(layer.out_features, divisor))
    for name, part in layer.named_children():
        setattr(layer, name, narrow(part, divisor, classes))
    return layer


def build(options):
    make, settings, _ = NETWORKS[options.network]
    network = make(num_classes=options.classes, **settings)
    if options.narrow > 1:
        network = narrow(network, options.narrow, options.classes)
    for layer in network.modules():
        if isinstance(layer, nn.Dropout) and options.dropout is not None:
            layer.p = options.dropout
        if isinstance(layer, nn.BatchNorm2d) and options.epsilon is not None:
            layer.eps = options.epsilon
    return network


def examples(options, count):
    size = options.size or NETWORKS[options.network][2]
    return {"input": torch.randn(count, 3, size, size), "labels": torch.randint(0, options.classes, (count,))}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
