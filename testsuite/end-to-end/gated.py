#!/usr/bin/python3
"""What is done to images besides convolving: gates of channels, as squeeze-and-excitation has them, layers that work on channels
behind the other dimensions, as ConvNeXt's do, means over channels, rows and columns, and weights with their channels last."""
import torch
from torch import nn

from export import main


class LastChannels(nn.Module):
    """A normalisation and two linear layers of each pixel, and a scale for each channel of what they add."""

    def __init__(self, channels):
        super().__init__()
        self.spread = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm, self.wide, self.narrow = nn.LayerNorm(channels), nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)
        self.scale = nn.Parameter(torch.full((channels,), 0.5))

    def forward(self, x):
        y = self.norm(self.spread(x).permute(0, 2, 3, 1))
        y = self.narrow(nn.functional.gelu(self.wide(y))).permute(0, 3, 1, 2)
        return x + y * self.scale.reshape(1, -1, 1, 1)


class Gate(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.less, self.more = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.more(torch.relu(self.less(x.mean((2, 3), keepdim=True)))))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.layer, self.gate = nn.Conv2d(8, 16, 3, padding=1), LastChannels(16), Gate(16)
        self.mix = nn.Linear(16, 16)
        self.second, self.odd = nn.Conv2d(16, 20, 3, 2, 1), Gate(20)
        self.norm, self.last = nn.LayerNorm(20), nn.Linear(20, 10)
        self.places, self.kernel = nn.Parameter(torch.randn(1, 6, 7, 16) / 4), nn.Parameter(torch.randn(16, 1, 1, 16) / 4)

    def forward(self, x):
        x = nn.functional.conv2d(self.first(x) + self.places.permute(0, 3, 1, 2), self.kernel.permute(0, 3, 1, 2))
        x = self.gate(self.layer(nn.functional.silu(x)))
        x = nn.functional.gelu(self.mix(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), approximate="tanh")
        x = self.odd(nn.functional.silu(self.second(x)))
        x = self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        x = x * torch.sigmoid(x.mean(1, keepdim=True)) + x.mean(2, keepdim=True) * x.mean((0, 3), keepdim=True)
        return self.last(x.mean((2, 3)))


if __name__ == "__main__":
    main(Gated, (8, 6, 7), __doc__)
