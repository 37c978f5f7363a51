#!/usr/bin/python3
"""Convolutions and normalisations behind them, as ResNets have them: with a relu, before a sum and strided. The last one has
channels that do not come in eights."""
import torch
from torch import nn

from export import main


def layer(channels, filters, size, stride=1):
    return nn.Sequential(nn.Conv2d(channels, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters))


class Normalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = layer(8, 16, 3), layer(16, 16, 3)
        self.strided, self.odd = layer(16, 24, 1, 2), layer(24, 20, 3)
        self.last = nn.Linear(20, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x) + x)
        x = torch.relu(self.odd(torch.relu(self.strided(x))))
        return self.last(x.mean((2, 3)))


if __name__ == "__main__":
    main(Normalised, (8, 6, 7), __doc__)
