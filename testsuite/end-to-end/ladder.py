#!/usr/bin/python3
"""A network of 41 layers, each of which adds to what it gets: gradients reach the first as they reach the last."""
import torch
from torch import nn

from export import main

WIDTH, LAYERS = 8, 40


class Ladder(nn.Module):
    def __init__(self):
        super().__init__()
        self.rungs = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.last = nn.Linear(WIDTH, 10)

    def forward(self, x):
        for rung in self.rungs:
            x = x + torch.tanh(rung(x))
        return self.last(x)


if __name__ == "__main__":
    main(Ladder, (WIDTH,), __doc__)
