#!/usr/bin/python3
"""A language model of stacked LSTMs: input i64[batch, sequence] of tokens, output their logits.

Labels are i64[batch, sequence]. The sequence has a fixed length; the states begin as zeros.
"""
import torch
from torch import nn

from export import arguments, export_inputs


class LSTMLanguageModel(nn.Module):
    def __init__(self, layers=2, width=48, vocabulary=256, cell=nn.LSTM):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.recurrent = cell(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        states, _ = self.recurrent(self.tokens(ids))
        return self.head(states)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=48)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--sequence", type=int, default=12)
    parser.add_argument("--cell", choices=["LSTM", "GRU", "RNN"], default="LSTM")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    network = LSTMLanguageModel(options.layers, options.width, options.vocabulary, getattr(nn, options.cell))
    ids = torch.randint(0, options.vocabulary, (2, options.sequence))
    export_inputs(network, {"input": ids}, {"output": True}, options.path, options.opset)
