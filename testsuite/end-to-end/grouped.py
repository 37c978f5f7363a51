#!/usr/bin/python3
"""Groups of channels that are normalised, as diffusion networks have them: behind convolutions and before a SiLU or not, with
numbers of their own or without, of images and of rows of pixels, and each channel by itself."""
import torch
from torch import nn

from export import main


class Block(nn.Module):
    """Two convolutions, each behind a normalisation and a SiLU, beside what they add to."""

    def __init__(self, channels, filters, groups):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, channels), nn.Conv2d(channels, filters, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(filters // 4, filters, eps=1e-6), nn.Conv2d(filters, filters, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, filters, 1)

    def forward(self, x):
        y = self.conv1(nn.functional.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(nn.functional.silu(self.norm2(y)))


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.block, self.odd = nn.Conv2d(8, 16, 3, padding=1), Block(16, 32, 4), Block(48, 20, 8)
        self.each, self.bare = nn.InstanceNorm2d(20, affine=True), nn.GroupNorm(2, 20, affine=False)
        self.whole, self.line = nn.GroupNorm(1, 20), nn.Conv1d(20, 12, 3, padding=1)
        self.flat, self.last = nn.GroupNorm(3, 12), nn.Linear(12, 10)

    def forward(self, x):
        x = self.first(x)
        x = self.each(self.odd(torch.cat([self.block(x), x], 1)))
        x = self.line(self.whole(torch.tanh(self.bare(x)).flatten(2)))
        return self.last(torch.relu(self.flat(x)).mean(2))


if __name__ == "__main__":
    main(Grouped, (8, 6, 7), __doc__)
