#!/usr/bin/python3
"""Attention over sequences whose masks are too large to be evaluated: places are compared, for all samples, as Hugging Face's models do."""
import math

import torch
from torch import nn

from export import main

ROWS = 2056


class Attention(nn.Module):
    """`window` limits how far back a query sees."""

    def __init__(self, width, heads, window, adds):
        super().__init__()
        self.inputs, self.outputs, self.heads, self.window, self.adds = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, window, adds

    def forward(self, x):
        samples, rows, width = x.shape
        places = torch.arange(rows)
        seen = places[None, :] <= places[:, None]
        if self.window:
            seen = seen & (places[None, :] > places[:, None] - self.window)
        seen = seen[None, None].expand(samples, 1, rows, rows)
        query, key, value = (part.view(-1, rows, self.heads, width // self.heads).transpose(1, 2) for part in self.inputs(x).split(width, 2))
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.adds:
            scores = scores + torch.where(seen, torch.zeros((), dtype=x.dtype), torch.full((), -3.4e38, dtype=x.dtype))
        else:
            scores = torch.where(seen, scores, torch.full((), -3.4e38, dtype=x.dtype))
        return x + self.outputs((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class Mean(nn.Module):
    """Of what comes before each row: no attention, so that the mask itself is read."""

    def forward(self, x):
        places = torch.arange(x.shape[1])
        before = (places[None, :] <= places[:, None]).expand(x.shape[0], x.shape[1], x.shape[1])
        shares = before.to(x.dtype) / (places + 1).to(x.dtype)[:, None]
        return x + torch.tanh(shares @ x)


class LongMasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Attention(4, 1, 0, True), Attention(4, 1, 100, False), Mean(), Attention(4, 2, 100, False))
        self.last = nn.Linear(4, 10)

    def forward(self, x):
        return self.last(self.layers(x).square().mean(1))


if __name__ == "__main__":
    main(LongMasks, (ROWS, 4), __doc__)
