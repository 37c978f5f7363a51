#!/usr/bin/python3
"""GPT-2: input i64[batch, sequence] of tokens, output their logits. The output matrix is the embedding.

Labels are i64[batch, sequence]. The defaults are tiny; the 124M network is
--layers 12 --width 768 --heads 12 --vocabulary 50257 --sequence 1024, XL (1.5 billion weights) has
--layers 48 --width 1600 --heads 25.
"""
import sys

import torch
from torch import nn

from export import add_sizes, draw_tokens, main_of
from transformer import GeluTanh, PreNormLayer

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=3, width=64, heads=4, vocabulary=512, sequence=32, dropout=0.0)


class GPT2(nn.Module):
    def __init__(self, layers=3, width=64, heads=4, vocabulary=512, sequence=32, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(PreNormLayer(width, heads, GeluTanh(), dropout, causal=True, length=sequence)
                                    for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, ids):
        x = self.dropout(self.tokens(ids) + self.positions(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return x @ self.tokens.weight.t()


def build(options):
    return GPT2(options.layers, options.width, options.heads, options.vocabulary, options.sequence, options.dropout)


def examples(options, count):
    tokens, labels = draw_tokens(count, options.sequence, options.vocabulary)
    return {"input": tokens, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
