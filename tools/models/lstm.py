#!/usr/bin/python3
"""A language model of stacked LSTMs: input i64[batch, sequence] of tokens, output their logits.

Labels are i64[batch, sequence]. The sequence has a fixed length; the states begin as zeros.
"""
import sys

from torch import nn

from export import add_sizes, draw_tokens, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=2, width=48, vocabulary=256, sequence=12)
    parser.add_argument("--cell", choices=["LSTM", "GRU", "RNN"], default="LSTM", help="(default LSTM)")


class LSTMLanguageModel(nn.Module):
    def __init__(self, layers=2, width=48, vocabulary=256, cell=nn.LSTM):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.recurrent = cell(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        states, _ = self.recurrent(self.tokens(ids))
        return self.head(states)


def build(options):
    return LSTMLanguageModel(options.layers, options.width, options.vocabulary, getattr(nn, options.cell))


def examples(options, count):
    tokens, labels = draw_tokens(count, options.sequence, options.vocabulary)
    return {"input": tokens, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
