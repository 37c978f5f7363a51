#!/usr/bin/python3
"""BERT's encoder with its masked-word head and loss: inputs are tokens, segments (0 or 1), attention
(0 for padding) and labels (-100 where no word is to be guessed), all i64[batch, sequence]; the output
is the loss. The output matrix is the embedding. The defaults are tiny; BERT-base is
--layers 12 --width 768 --heads 12 --vocabulary 30522 --sequence 512, BERT-large has --layers 24 --width 1024 --heads 16.
"""
import sys

import torch
from torch import nn

from export import add_sizes, main_of
from transformer import PostNormLayer

OUTPUTS = {"loss": False}


def configure(parser):
    add_sizes(parser, layers=3, width=64, heads=4, vocabulary=512, sequence=32, dropout=0.0)


class Bert(nn.Module):
    def __init__(self, layers=3, width=64, heads=4, vocabulary=512, sequence=32, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.ModuleList(PostNormLayer(width, heads, dropout) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width, eps=1e-12))
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for embedding in (self.tokens, self.positions, self.segments):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens, segments, attention, labels):
        hidden = (1.0 - attention[:, None, None, :].to(torch.float32)) * -10000.0
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1])) + self.segments(segments)
        x = self.dropout(self.norm(x))
        for layer in self.layers:
            x = layer(x, hidden)
        x = self.head(x)
        logits = x @ self.tokens.weight.t() + self.bias
        return nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


def build(options):
    return Bert(options.layers, options.width, options.heads, options.vocabulary, options.sequence, options.dropout)


def examples(options, count):
    shape, draw = (count, options.sequence), torch.randint
    labels = draw(0, options.vocabulary, shape)
    labels[draw(0, 4, shape) > 0] = -100
    attention = torch.ones(shape, dtype=torch.int64)
    padding = options.sequence // 8
    attention[:, options.sequence - padding:] = draw(0, 2, (count, padding))
    return {"tokens": draw(0, options.vocabulary, shape), "segments": draw(0, 2, shape),
            "attention": attention, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
