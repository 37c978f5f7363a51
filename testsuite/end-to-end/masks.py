#!/usr/bin/python3
"""Causal attention as small GPTs write it: its mask is a buffer of flags, or of what is added to scores, under any name."""
import math

import torch
from torch import nn

from export import main


class Attention(nn.Module):
    def __init__(self, width, heads, rows, has_flags):
        super().__init__()
        self.inputs, self.outputs, self.heads, self.has_flags = nn.Linear(width, 3 * width), nn.Linear(width, width), heads, has_flags
        lower = torch.ones(1, 1, rows, rows).tril()
        self.register_buffer("bias", lower if has_flags else torch.zeros(rows, rows).masked_fill(lower[0, 0] == 0, -math.inf))

    def forward(self, x):
        rows, width = x.shape[1:]
        query, key, value = (part.view(-1, rows, self.heads, width // self.heads).transpose(1, 2) for part in self.inputs(x).split(width, 2))
        scores = query @ key.transpose(-2, -1) / math.sqrt(width // self.heads)
        if self.has_flags:
            scores = scores.masked_fill(self.bias[:, :, :rows, :rows] == 0, -math.inf)
        else:
            scores = scores + self.bias[:rows, :rows]
        return x + self.outputs((scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.Sequential(Attention(16, 2, 9, True), Attention(16, 4, 6, False)), nn.Linear(16, 10)

    def forward(self, x):
        return self.last(self.layers(x).mean(1))


if __name__ == "__main__":
    main(Masked, (6, 16), __doc__)
