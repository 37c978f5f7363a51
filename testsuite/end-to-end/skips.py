#!/usr/bin/python3
"""A network of six layers that is no chain: one value goes to two later layers, two skip several, and one is added twice."""
import torch
from torch import nn

from export import main


class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(24, 24) for _ in range(5))
        self.norm = nn.BatchNorm1d(24)
        self.last = nn.Linear(24, 10)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x):
        one, two, three, four, five = self.layers
        first = torch.relu(one(x))
        second = self.dropout(torch.relu(self.norm(two(first))))
        third = torch.relu(three(second))
        fourth = torch.relu(four(third + first))
        fifth = torch.relu(five(fourth * second))
        return self.last(fifth + first)


if __name__ == "__main__":
    main(Skips, (24,), __doc__)
