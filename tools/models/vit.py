#!/usr/bin/python3
"""A vision transformer with a class token for images of 3 x size x size. The defaults are tiny; ViT-B/16 is
--layers 12 --width 768 --heads 12 --size 224 --patch 16 --classes 1000.
"""
import sys

import torch
from torch import nn

from export import add_sizes, main_of
from transformer import PreNormLayer

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=3, width=64, heads=4, size=32, patch=8, classes=10, dropout=0.0)


class VisionTransformer(nn.Module):
    def __init__(self, layers=3, width=64, heads=4, size=32, patch=8, classes=10, dropout=0.0):
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(*(PreNormLayer(width, heads, nn.GELU(), dropout) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.layers(self.dropout(x + self.positions))
        return self.head(self.norm(x)[:, 0])


def build(options):
    return VisionTransformer(options.layers, options.width, options.heads, options.size, options.patch,
                             options.classes, options.dropout)


def examples(options, count):
    return {"input": torch.randn(count, 3, options.size, options.size),
            "labels": torch.randint(0, options.classes, (count,))}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
