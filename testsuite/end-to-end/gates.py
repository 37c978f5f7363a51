#!/usr/bin/python3
"""Gated linear units of all kinds, whose gates are functions of one tensor that their backward pass makes again."""
import torch
from torch import nn

from export import main


class GatedUnit(nn.Module):
    """function(gate(x)) * other(up(x)), narrowed and added."""

    def __init__(self, width, function, other=lambda x: x):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.function, self.other = function, other

    def forward(self, x):
        return x + self.down(self.function(self.gate(x)) * self.other(self.up(x)))


class Gates(nn.Module):
    """One, too, whose gate is read twice in the forward pass, and one whose values a layer reads beside the gate."""

    def __init__(self):
        super().__init__()
        functions = [torch.sigmoid, nn.functional.silu, nn.functional.gelu, torch.tanh, nn.functional.relu, lambda x: torch.exp(-x * x)]
        self.first = nn.Linear(336, 24)
        self.units = nn.ModuleList(GatedUnit(24, function) for function in functions)
        self.units.append(GatedUnit(24, torch.tanh, torch.sigmoid))
        self.shared, self.last = nn.Linear(24, 24), nn.Linear(24, 10)

    def forward(self, x):
        x = self.first(x.flatten(1))
        for unit in self.units:
            x = unit(x)
        gate = torch.sigmoid(x)
        x = gate * x + gate * self.shared(gate)
        square = torch.relu(x)
        return self.last(square * square)


if __name__ == "__main__":
    main(Gates, (8, 6, 7), __doc__)
