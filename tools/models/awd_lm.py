#!/usr/bin/python3
"""AWD-LM, a language model of LSTMs that drops words, weights and, for a whole sequence at a time, numbers between
layers: input i64[batch, sequence] of tokens, output their logits. The output matrix is the embedding.
"""
import sys

import torch
from torch import nn

from export import add_sizes, draw_tokens, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=3, width=400, hidden=1150, vocabulary=33278, sequence=70)
    parser.add_argument("--dropout", type=float, default=1.0, help="multiplies all ratios of dropout (default 1)")


class Locked(nn.Module):
    """Drops the same numbers at each step of a sequence."""

    def __init__(self, ratio):
        super().__init__()
        self.dropout = nn.Dropout(ratio)

    def forward(self, x):
        return x * self.dropout(torch.ones_like(x[:, :1]))


class Recurrent(nn.Module):
    """An LSTM that drops weights of its state."""

    def __init__(self, before, width, ratio):
        super().__init__()
        self.layer = nn.LSTM(before, width, batch_first=True)
        self.dropout = nn.Dropout(ratio)

    def forward(self, x):
        layer = self.layer
        zeros = torch.zeros(1, x.shape[0], layer.hidden_size, dtype=x.dtype)
        weights = [layer.weight_ih_l0, self.dropout(layer.weight_hh_l0), layer.bias_ih_l0, layer.bias_hh_l0]
        return torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, self.training, False, True)[0]


class AwdLm(nn.Module):
    def __init__(self, options):
        super().__init__()
        widths = [options.width] + [options.hidden] * (options.layers - 1) + [options.width]
        ratio = options.dropout
        self.tokens = nn.Embedding(options.vocabulary, options.width)
        self.words = nn.Dropout(0.1 * ratio)
        self.input = Locked(0.65 * ratio)
        self.layers = nn.ModuleList(Recurrent(*pair, 0.5 * ratio) for pair in zip(widths, widths[1:]))
        self.between = nn.ModuleList(Locked((0.3 if number else 0.4) * ratio) for number in reversed(range(options.layers)))
        self.bias = nn.Parameter(torch.zeros(options.vocabulary))
        nn.init.uniform_(self.tokens.weight, -0.1, 0.1)

    def forward(self, ids):
        kept = self.words(torch.ones(self.tokens.num_embeddings, 1, dtype=self.tokens.weight.dtype))
        x = self.input(nn.functional.embedding(ids, self.tokens.weight * kept))
        for layer, dropout in zip(self.layers, self.between):
            x = dropout(layer(x))
        return x @ self.tokens.weight.t() + self.bias


def build(options):
    return AwdLm(options)


def examples(options, count):
    tokens, labels = draw_tokens(count, options.sequence, options.vocabulary)
    return {"input": tokens, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
