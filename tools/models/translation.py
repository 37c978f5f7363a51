#!/usr/bin/python3
"""A Transformer that translates, of encoder and decoder: inputs i64[batch, sequence] of tokens of the source and of the
target one step behind, output the logits of the target.

The defaults are the smallest of GPipe's multilingual networks; --layers 24 --hidden 8192 --heads 16 has 48 layers, and
--layers 64 --hidden 16384 --heads 32 is the one of 128 layers and 6 billion weights.
"""
import math
import sys

import torch
from torch import nn

from export import add_sizes, draw_translations, main_of
from transformer import PreNormLayer

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=6, width=1024, heads=16, hidden=8192, vocabulary=64000, sequence=64, dropout=0.1)


class CrossAttention(nn.Module):
    """The target asks, the source answers."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width)
        self.pair = nn.Linear(width, 2 * width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, source):
        def split(y):
            return y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

        key, value = self.pair(source).chunk(2, dim=2)
        query = split(self.query(x))
        scores = query @ split(key).transpose(-1, -2) / math.sqrt(query.shape[-1])
        return self.output((self.dropout(scores.softmax(dim=-1)) @ split(value)).transpose(1, 2).reshape(x.shape))


class DecoderLayer(PreNormLayer):
    def __init__(self, width, heads, hidden, dropout, length):
        super().__init__(width, heads, nn.ReLU(), dropout, causal=True, length=length, hidden=hidden)
        self.norm3 = nn.LayerNorm(width)
        self.cross = CrossAttention(width, heads, dropout)

    def forward(self, x, source):
        x = x + self.attention(self.norm1(x))
        x = x + self.cross(self.norm3(x), source)
        return x + self.feed_forward(self.norm2(x))


class Translation(nn.Module):
    def __init__(self, options):
        super().__init__()
        width, heads, hidden, dropout = options.width, options.heads, options.hidden, options.dropout
        self.source, self.target = nn.Embedding(options.vocabulary, width), nn.Embedding(options.vocabulary, width)
        self.positions = nn.Embedding(options.sequence, width)
        self.dropout = nn.Dropout(dropout)
        self.encoder = nn.ModuleList(PreNormLayer(width, heads, nn.ReLU(), dropout, hidden=hidden)
                                     for _ in range(options.layers))
        self.between = nn.LayerNorm(width)
        self.decoder = nn.ModuleList(DecoderLayer(width, heads, hidden, dropout, options.sequence)
                                     for _ in range(options.layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, options.vocabulary)

    def forward(self, source, target):
        positions = self.positions(torch.arange(source.shape[1]))
        x = self.dropout(self.source(source) + positions)
        for layer in self.encoder:
            x = layer(x)
        encoded = self.between(x)
        x = self.dropout(self.target(target) + positions)
        for layer in self.decoder:
            x = layer(x, encoded)
        return self.head(self.norm(x))


def build(options):
    return Translation(options)


examples = draw_translations


if __name__ == "__main__":
    main_of(sys.modules[__name__])
