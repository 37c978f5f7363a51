#!/usr/bin/python3
"""A multilayer perceptron 784-...-10; --hidden 2048 2048 2048 is the benchmark's."""
from collections import OrderedDict

import torch
from torch import nn

from export import arguments, export


def mlp(hidden):
    sizes = [784, *hidden, 10]
    layers = OrderedDict()
    for i, (rows, columns) in enumerate(zip(sizes, sizes[1:]), start=1):
        layers[f"fc{i}"] = nn.Linear(rows, columns)
        if i < len(sizes) - 1:
            layers[f"relu{i}"] = nn.ReLU()
    return nn.Sequential(layers)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--hidden", type=int, nargs="*", default=[64, 32],
                        help="sizes of the hidden layers (default 64 32)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    export(mlp(options.hidden), (784,), options.path, options.opset)
