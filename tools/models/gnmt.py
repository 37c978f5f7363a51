#!/usr/bin/python3
"""GNMT: an LSTM encoder, its first layer in both directions, and an LSTM decoder that attends to it. Inputs i64[batch,
sequence] of tokens of the source and of the target one step behind, output the logits of the target.

--layers counts those of each side: 4 is GNMT-8, 8 is GNMT-16.
"""
import sys

import torch
from torch import nn

from export import add_sizes, draw_translations, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=4, width=1024, vocabulary=32320, sequence=25, dropout=0.2)


def recurrent(before, width, both=False):
    return nn.LSTM(before, width, batch_first=True, bidirectional=both)


class Attention(nn.Module):
    """Bahdanau's, with a vector of learned length."""

    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.vector = nn.Parameter(torch.randn(width) * width ** -0.5)
        self.length = nn.Parameter(torch.full((1,), width ** -0.5))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, target, source):
        both = self.query(target)[:, :, None] + self.key(source)[:, None] + self.bias
        scores = torch.tanh(both) @ (self.vector / self.vector.norm() * self.length)
        return scores.softmax(dim=-1) @ source


class Encoder(nn.Module):
    def __init__(self, layers, width, dropout):
        super().__init__()
        self.layers = nn.ModuleList([recurrent(width, width, True), recurrent(2 * width, width),
                                     *(recurrent(width, width) for _ in range(layers - 2))])
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            y, _ = layer(self.dropout(x))
            x = y + x if number > 1 else y
        return x


class Decoder(nn.Module):
    def __init__(self, layers, width, dropout):
        super().__init__()
        self.first = recurrent(width, width)
        self.attention = Attention(width)
        self.layers = nn.ModuleList(recurrent(2 * width, width) for _ in range(layers - 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, source):
        x, _ = self.first(self.dropout(x))
        seen = self.attention(x, source)
        for number, layer in enumerate(self.layers):
            y, _ = layer(self.dropout(torch.cat([x, seen], dim=2)))
            x = y + x if number > 0 else y
        return x


class GNMT(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.ModuleList(nn.Embedding(options.vocabulary, options.width) for _ in range(2))
        self.encoder = Encoder(options.layers, options.width, options.dropout)
        self.decoder = Decoder(options.layers, options.width, options.dropout)
        self.head = nn.Linear(options.width, options.vocabulary)

    def forward(self, source, target):
        encoded = self.encoder(self.tokens[0](source))
        return self.head(self.decoder(self.tokens[1](target), encoded))


def build(options):
    return GNMT(options)


examples = draw_translations


if __name__ == "__main__":
    main_of(sys.modules[__name__])
