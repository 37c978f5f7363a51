#!/usr/bin/python3
"""GPT-2: input i64[batch, sequence] of tokens, output their logits. The output matrix is the embedding.

Labels are i64[batch, sequence]. The defaults are tiny; the 124M network is
--layers 12 --width 768 --heads 12 --vocabulary 50257 --sequence 1024.
"""
import torch
from torch import nn

from export import arguments, export_inputs
from transformer import GeluTanh, PreNormLayer, size_arguments


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


if __name__ == "__main__":
    parser = arguments(__doc__)
    size_arguments(parser, layers=3, width=64, heads=4, vocabulary=512, sequence=32)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    network = GPT2(options.layers, options.width, options.heads, options.vocabulary, options.sequence, options.dropout)
    ids = torch.randint(0, options.vocabulary, (2, options.sequence))
    export_inputs(network, {"input": ids}, {"output": True}, options.path, options.opset)
