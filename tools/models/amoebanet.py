#!/usr/bin/python3
"""AmoebaNet-D, the network of GPipe's largest image experiments: input f32[batch, 3, size, size], output scores.

The defaults are its 18 cells of 256 filters.
"""
import sys

import torch
from torch import nn

from export import add_sizes, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, cells=18, filters=256, size=224, classes=1000)
    parser.add_argument("--epsilon", type=float, default=1e-5, help="of all normalisations (default 1e-5)")


def convolution(before, after, size, stride=1, padding=0):
    return nn.Sequential(nn.ReLU(), nn.Conv2d(before, after, size, stride, padding, bias=False), nn.BatchNorm2d(after))


class Halves(nn.Module):
    """Halves an image without a path through every second pixel alone: two convolutions, one a pixel further."""

    def __init__(self, before, after):
        super().__init__()
        self.near = nn.Conv2d(before, after // 2, 1, 2, bias=False)
        self.far = nn.Conv2d(before, after - after // 2, 1, 2, bias=False)
        self.norm = nn.BatchNorm2d(after)

    def forward(self, x):
        x = torch.relu(x)
        further = nn.functional.pad(x, [0, 1, 0, 1])[:, :, 1:, 1:]
        return self.norm(torch.cat([self.near(x), self.far(further)], dim=1))


def identity(channels, stride):
    return nn.Identity() if stride == 1 else Halves(channels, channels)


def narrow_pair(channels, stride, long):
    """A convolution of 1 x long and one of long x 1 between two of 1x1, on a quarter of the channels."""
    between, side = channels // 4, long // 2
    return nn.Sequential(convolution(channels, between, 1), convolution(between, between, (1, long), (1, stride), (0, side)),
                         convolution(between, between, (long, 1), (stride, 1), (side, 0)), convolution(between, channels, 1))


def square(channels, stride):
    between = channels // 4
    return nn.Sequential(convolution(channels, between, 1), convolution(between, between, 3, stride, 1),
                         convolution(between, channels, 1))


def single(channels, stride):
    return convolution(channels, channels, 1, stride)


def mean(channels, stride):
    return nn.AvgPool2d(3, stride, 1, count_include_pad=False)


def maximum(channels, stride):
    return nn.MaxPool2d(3, stride, 1)


def maximum_of_two(channels, stride):
    return nn.Sequential(nn.MaxPool2d(2, stride), *([] if stride == 2 else [nn.ZeroPad2d((0, 1, 0, 1))]))


def seven(channels, stride):
    return narrow_pair(channels, stride, 7)


# Two by two, what a state is the sum of: an operation on one of the states before it. States 0 and 1 are the two cells
# before.
NORMAL = [(1, single), (1, maximum), (1, identity), (0, seven), (0, seven), (2, single), (2, identity), (1, seven),
          (5, seven), (5, mean)]
REDUCTION = [(0, maximum), (0, mean), (0, maximum_of_two), (1, maximum), (2, mean), (3, identity), (2, square),
             (3, seven), (0, maximum), (1, maximum)]
NORMAL_RESULT, REDUCTION_RESULT = [0, 3, 4, 6], [4, 5, 6]


class Cell(nn.Module):
    def __init__(self, before, last, filters, is_reduction, follows_reduction):
        super().__init__()
        self.reduce_last = convolution(last, filters, 1)
        if follows_reduction:
            self.reduce_before = Halves(before, filters)
        elif before != filters:
            self.reduce_before = convolution(before, filters, 1)
        else:
            self.reduce_before = nn.Identity()
        steps = REDUCTION if is_reduction else NORMAL
        self.sources = [source for source, _ in steps]
        self.result = REDUCTION_RESULT if is_reduction else NORMAL_RESULT
        self.steps = nn.ModuleList(make(filters, 2 if is_reduction and source < 2 else 1) for source, make in steps)
        self.channels = filters * len(self.result)

    def forward(self, before, last):
        states = [self.reduce_last(last), self.reduce_before(before)]
        for i in range(0, len(self.steps), 2):
            first, second = (self.steps[k](states[self.sources[k]]) for k in (i, i + 1))
            states.append(first + second)
        return last, torch.cat([states[i] for i in self.result], dim=1)


class AmoebaNet(nn.Module):
    """A stem, then three groups of cells; a cell that halves the image and doubles the filters begins each, and two
    such stand before the first."""

    def __init__(self, cells, filters, classes):
        super().__init__()
        filters //= 4
        self.stem = nn.Conv2d(3, filters, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(filters)
        before, last, follows = filters, filters, False
        layers = []
        plan = [True, True] + [False] * (cells // 3) + [True] + [False] * (cells // 3) + [True] + [False] * (cells // 3)
        for number, is_reduction in enumerate(plan):
            if is_reduction and number > 0:
                filters *= 2
            cell = Cell(before, last, filters, is_reduction, follows)
            layers.append(cell)
            before, last, follows = last, cell.channels, is_reduction
        self.cells = nn.ModuleList(layers)
        self.head = nn.Linear(last, classes)

    def forward(self, images):
        before = last = self.norm(self.stem(images))
        for cell in self.cells:
            before, last = cell(before, last)
        return self.head(last.mean(dim=(2, 3)))


def build(options):
    network = AmoebaNet(options.cells, options.filters, options.classes)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.eps = options.epsilon
    return network


def examples(options, count):
    return {"input": torch.randn(count, 3, options.size, options.size), "labels": torch.randint(0, options.classes, (count,))}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
