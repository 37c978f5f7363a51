#!/usr/bin/python3
"""Tensors that are made together and used apart: packed projections of gated units, halves of channels, gates of a cell."""
import torch
from torch import nn

from export import main


class Halves(nn.Module):
    """Of channels, as in a gated convolution; what is added takes part in the loop."""

    def __init__(self, channels):
        super().__init__()
        self.both, self.norm = nn.Conv2d(channels, 2 * channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x):
        a, b = self.both(x).chunk(2, 1)
        return self.norm(x + torch.tanh(a) * torch.sigmoid(b))


class Chosen(nn.Module):
    """A gate of one channel, which fills no block of them, chooses between halves that do, as attention over places does."""

    def __init__(self, channels):
        super().__init__()
        self.both, self.gate = nn.Conv2d(channels, 2 * channels, 1), nn.Conv2d(channels, 1, 1)

    def forward(self, x):
        (a, b), gate = self.both(x).chunk(2, 1), torch.sigmoid(self.gate(x))
        return a * gate + b * (1 - gate)


class Twice(nn.Module):
    """Parts of one tensor by two divisions, in one result."""

    def forward(self, x):
        (a, b), (_, c, _) = x.split([4, 4], 1), x.split([2, 4, 2], 1)
        return torch.cat([torch.sigmoid(b) * a, torch.tanh(c) * 2 + 1], 1)


class Blocks(nn.Module):
    """Parts that begin inside of what a processor stores together, of 16 channels, or end there, as where what several layers make is
    put together for the next."""

    def __init__(self, channels):
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, 24, 3, padding=1), nn.Conv2d(24, 16, 1)
        self.all, self.last = nn.Conv2d(40, 32, 1), nn.Conv2d(24, channels, 3, padding=1)

    def forward(self, x):
        a = torch.tanh(self.first(x))
        b, c, d = self.all(torch.cat([a, torch.sigmoid(self.second(a))], 1)).split([8, 16, 8], 1)
        return self.last(torch.cat([nn.functional.silu(c), torch.sigmoid(b) * d], 1))


class Packed(nn.Module):
    """One product makes both halves of each row."""

    def __init__(self, width, gate):
        super().__init__()
        self.gate, self.wide, self.narrow = gate, nn.Linear(width, 4 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        value, gate = self.wide(x).chunk(2, -1)
        return x + self.narrow(value * self.gate(gate))


class Cell(nn.Module):
    """Three thirds, one of which two loops read."""

    def __init__(self, width):
        super().__init__()
        self.all = nn.Linear(width, 3 * width)

    def forward(self, x):
        a, b, c = self.all(x).chunk(3, -1)
        return torch.tanh(a) * torch.sigmoid(b) + torch.relu(c) * x - c


class Uneven(nn.Module):
    """Parts of two sizes; a product reads one of them, which is copied for it."""

    def __init__(self, width):
        super().__init__()
        self.all, self.more = nn.Linear(width, 2 * width), nn.Linear(width, width // 2)

    def forward(self, x):
        a, b, c = self.all(x).split([x.shape[-1], x.shape[-1] // 2, x.shape[-1] // 2], -1)
        return x + torch.cat([self.more(a) * b, torch.sigmoid(c) * b], -1)


class Parts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.halves = nn.Sequential(Twice(), nn.Conv2d(8, 16, 3, padding=1), Blocks(16)), Halves(16)
        self.chosen = Chosen(16)
        self.rows = nn.Sequential(Packed(16, nn.GELU()), Packed(16, nn.SiLU()), Cell(16), Uneven(16))
        self.last = nn.Linear(16, 10)

    def forward(self, x):
        x = self.chosen(self.halves(self.first(x)))
        return self.last(self.rows(x.flatten(2).transpose(1, 2)).mean(1))


if __name__ == "__main__":
    main(Parts, (8, 6, 7), __doc__)
