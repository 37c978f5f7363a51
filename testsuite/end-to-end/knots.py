#!/usr/bin/python3
"""A network of thirteen layers with what a cut can get wrong: integers go in, the output matrix is the embedding, one value is read
by two later layers, several skip others; BatchNormalization and Dropout between them. No token comes twice in `draw`."""
import pathlib

import numpy
import torch
from torch import nn

from export import arguments, export_inputs

TOKENS, WIDTH, LAYERS = 192, 16, 12


class Knots(nn.Module):
    def __init__(self, tied):
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, WIDTH)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(2))
        self.dropout = nn.Dropout(0.25)
        self.head = None if tied else nn.Parameter(self.tokens.weight.detach().clone())

    def forward(self, ids):
        x = first = self.tokens(ids)
        kept = []
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            if i % 6 == 1:
                x = self.dropout(self.norms[i // 6](x))
            if i % 4 == 3:
                x = x + (kept[i - 3] if i != 7 else kept[0])
            kept.append(x)
        return (x + first) @ (self.tokens.weight if self.head is None else self.head).t()


def draw(folder, count, seed=0):
    """The INPUT=FILE of pdc-run."""
    generator = numpy.random.default_rng(seed)
    data = []
    for name in ("input", "labels"):
        path = pathlib.Path(folder) / f"{name}.npy"
        numpy.save(path, generator.permutation(TOKENS)[:count].astype(numpy.int64))
        data.append(f"{name}={path}")
    return data


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--untied", action="store_true", help="the output matrix is one of its own, equal to the embedding")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    export_inputs(Knots(not options.untied), {"input": torch.randint(0, TOKENS, (2,))}, {"output": True}, options.path, options.opset)
