#!/usr/bin/python3
"""U-Net: input f32[batch, 3, size, size], output scores f32[batch, classes, size, size]; labels are i64[batch, size, size]."""
import sys

import torch
from torch import nn

from export import main_of

OUTPUTS = {"output": True}


def configure(parser):
    parser.add_argument("--size", type=int, default=512, help="of the images, a multiple of 16 (default 512)")
    parser.add_argument("--width", type=int, default=64, help="channels of the first level (default 64)")
    parser.add_argument("--levels", type=int, default=4, help="how often the image is halved (default 4)")
    parser.add_argument("--classes", type=int, default=2, help="(default 2)")
    parser.add_argument("--up", choices=["bilinear", "transposed"], default="bilinear",
                        help="how images grow: interpolation or a transposed convolution (default bilinear)")


def convolutions(before, after, between=None):
    between = between or after
    return nn.Sequential(
        nn.Conv2d(before, between, 3, padding=1, bias=False), nn.BatchNorm2d(between), nn.ReLU(),
        nn.Conv2d(between, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU())


class Up(nn.Module):
    """Doubles the image, puts the level's own channels before it and convolves both."""

    def __init__(self, before, after, up):
        super().__init__()
        if up == "bilinear":
            self.grow = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.mix = convolutions(before, after, before // 2)
        else:
            self.grow = nn.ConvTranspose2d(before, before // 2, 2, stride=2)
            self.mix = convolutions(before, after)

    def forward(self, x, level):
        return self.mix(torch.cat([level, self.grow(x)], dim=1))


class UNet(nn.Module):
    def __init__(self, width, levels, classes, up):
        super().__init__()
        wide = [width * 2 ** level for level in range(levels + 1)]
        if up == "bilinear":
            wide[-1] //= 2
        self.first = convolutions(3, width)
        self.down = nn.ModuleList(nn.Sequential(nn.MaxPool2d(2), convolutions(*pair)) for pair in zip(wide, wide[1:]))
        ups = []
        for level in reversed(range(levels)):
            after = width * 2 ** level
            ups.append(Up(2 * after, after // 2 if up == "bilinear" and level else after, up))
        self.up = nn.ModuleList(ups)
        self.last = nn.Conv2d(width, classes, 1)

    def forward(self, images):
        levels = [self.first(images)]
        for down in self.down:
            levels.append(down(levels[-1]))
        x = levels.pop()
        for up in self.up:
            x = up(x, levels.pop())
        return self.last(x)


def build(options):
    return UNet(options.width, options.levels, options.classes, options.up)


def examples(options, count):
    size = options.size
    return {"input": torch.randn(count, 3, size, size), "labels": torch.randint(0, options.classes, (count, size, size))}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
