#!/usr/bin/python3
"""YOLOv3: Darknet-53, three heads and their loss. Inputs: images f32[batch, 3, size, size] and, per head, targets
f32[batch, 3, size/S, size/S, 5 + classes] for S of 32, 16 and 8: offsets and logarithms of sizes of a box, 1 where there is
one, its classes. The output is the loss.
"""
import sys

import torch
from torch import nn

from export import main_of

OUTPUTS = {"loss": False}
ANCHORS = 3


def configure(parser):
    parser.add_argument("--size", type=int, default=416, help="of the images, a multiple of 32 (default 416)")
    parser.add_argument("--width", type=int, default=32, help="channels of the first layer (default 32)")
    parser.add_argument("--blocks", type=int, nargs=5, default=[1, 2, 8, 8, 4], help="residual blocks per level (default 1 2 8 8 4)")
    parser.add_argument("--classes", type=int, default=80, help="(default 80)")


def convolution(before, after, size, stride=1):
    return nn.Sequential(nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(after),
                         nn.LeakyReLU(0.1))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(convolution(width, width // 2, 1), convolution(width // 2, width, 3))

    def forward(self, x):
        return x + self.layers(x)


class Head(nn.Module):
    """Five convolutions, what the next head takes of them, and the scores."""

    def __init__(self, before, width, scores):
        super().__init__()
        self.layers = nn.Sequential(convolution(before, width, 1), convolution(width, 2 * width, 3),
                                    convolution(2 * width, width, 1), convolution(width, 2 * width, 3),
                                    convolution(2 * width, width, 1))
        self.scores = nn.Sequential(convolution(width, 2 * width, 3), nn.Conv2d(2 * width, ANCHORS * scores, 1))

    def forward(self, x):
        x = self.layers(x)
        return x, self.scores(x)


def cross_entropy(scores, targets):
    """Of yes and no, from logits."""
    return nn.functional.softplus(scores) - scores * targets


def box_loss(scores, targets):
    """Where there is a box its place, size and classes count; whether there is one counts everywhere."""
    batch, _, rows, columns = scores.shape
    scores = scores.view(batch, ANCHORS, -1, rows, columns).permute(0, 1, 3, 4, 2)
    present = targets[..., 4:5]
    place = (torch.sigmoid(scores[..., :2]) - targets[..., :2]) ** 2
    size = (scores[..., 2:4] - targets[..., 2:4]) ** 2
    classes = cross_entropy(scores[..., 5:], targets[..., 5:])
    return ((place + size) * present).mean() + cross_entropy(scores[..., 4:5], present).mean() + (classes * present).mean()


class YOLOv3(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.first = convolution(3, width, 3)
        levels = []
        for count in blocks:
            levels.append(nn.Sequential(convolution(width, 2 * width, 3, 2), *(Residual(2 * width) for _ in range(count))))
            width *= 2
        self.levels = nn.ModuleList(levels)
        self.heads = nn.ModuleList([Head(width, width // 2, 5 + classes), Head(width // 2 + width // 4, width // 4, 5 + classes),
                                    Head(width // 4 + width // 8, width // 8, 5 + classes)])
        self.between = nn.ModuleList([convolution(width // 2, width // 4, 1), convolution(width // 4, width // 8, 1)])
        self.grow = nn.Upsample(scale_factor=2, mode="nearest")

    def forward(self, images, coarse, middle, fine):
        x, seen = self.first(images), []
        for level in self.levels:
            x = level(x)
            seen.append(x)
        x, scores = self.heads[0](seen[4])
        loss = box_loss(scores, coarse)
        x, scores = self.heads[1](torch.cat([self.grow(self.between[0](x)), seen[3]], dim=1))
        loss = loss + box_loss(scores, middle)
        _, scores = self.heads[2](torch.cat([self.grow(self.between[1](x)), seen[2]], dim=1))
        return loss + box_loss(scores, fine)


def build(options):
    return YOLOv3(options.width, options.blocks, options.classes)


def targets(count, cells, classes):
    boxes = torch.rand(count, ANCHORS, cells, cells, 5 + classes)
    boxes[..., 4:] = (boxes[..., 4:] < 0.1).float()
    return boxes


def examples(options, count):
    cells = {"coarse": options.size // 32, "middle": options.size // 16, "fine": options.size // 8}
    return {"input": torch.randn(count, 3, options.size, options.size),
            **{name: targets(count, number, options.classes) for name, number in cells.items()}}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
