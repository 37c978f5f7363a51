#!/usr/bin/python3
"""PyTorch's own encoder and decoder layers, as many write their networks: inputs are tokens of the source (0: padding) and
of the target one step behind, i64[batch, sequence]; the output the logits of the target."""
import sys

import torch
from torch import nn

from export import add_sizes, draw_translations, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, width=32, heads=4, hidden=48, vocabulary=64, sequence=10, dropout=0.0)
    parser.add_argument("--batch-second", action="store_true", help="layers take [sequence, batch, width]")


class Seq2Seq(nn.Module):
    def __init__(self, options):
        super().__init__()
        sizes = (options.width, options.heads, options.hidden, options.dropout)
        self.batch_second = options.batch_second
        self.source = nn.Embedding(options.vocabulary, options.width)
        self.target = nn.Embedding(options.vocabulary, options.width)
        first = not options.batch_second
        self.encoder = nn.TransformerEncoderLayer(*sizes, batch_first=first, norm_first=True)
        self.decoder = nn.TransformerDecoderLayer(*sizes, batch_first=first)
        self.last = nn.MultiheadAttention(options.width, options.heads, batch_first=first)
        self.head = nn.Linear(options.width, options.vocabulary)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(options.sequence))

    def forward(self, source, target):
        padding = source == 0
        x, y = self.source(source), self.target(target)
        if self.batch_second:
            x, y = x.transpose(0, 1), y.transpose(0, 1)
        encoded = self.encoder(x, src_key_padding_mask=padding)
        decoded = self.decoder(y, encoded, tgt_mask=self.mask)
        mixed, _ = self.last(decoded, encoded, encoded, need_weights=False)
        decoded = decoded + mixed
        return self.head(decoded.transpose(0, 1) if self.batch_second else decoded)


def build(options):
    return Seq2Seq(options)


def examples(options, count):
    inputs = draw_translations(options, count)
    inputs["source"][:, -options.sequence // 4:] *= torch.randint(0, 2, (count, 1))
    return inputs


if __name__ == "__main__":
    main_of(sys.modules[__name__])
