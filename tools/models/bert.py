#!/usr/bin/python3
"""BERT's encoder with its masked-word head and loss: inputs are tokens, segments (0 or 1), attention
(0 for padding) and labels (-100 where no word is to be guessed), all i64[batch, sequence]; the output
is the loss. The output matrix is the embedding. The defaults are tiny; BERT-base is
--layers 12 --width 768 --heads 12 --vocabulary 30522 --sequence 512.
"""
import torch
from torch import nn

from export import arguments, export_inputs
from transformer import PostNormLayer, size_arguments


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


def examples(vocabulary, sequence, batch=2):
    """Drawn inputs by name."""
    draw = torch.randint
    labels = draw(0, vocabulary, (batch, sequence))
    labels[draw(0, 4, (batch, sequence)) > 0] = -100
    attention = torch.ones(batch, sequence, dtype=torch.int64)
    attention[:, sequence - sequence // 8:] = draw(0, 2, (batch, sequence // 8))
    return {"tokens": draw(0, vocabulary, (batch, sequence)), "segments": draw(0, 2, (batch, sequence)),
            "attention": attention, "labels": labels}


if __name__ == "__main__":
    parser = arguments(__doc__)
    size_arguments(parser, layers=3, width=64, heads=4, vocabulary=512, sequence=32)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    network = Bert(options.layers, options.width, options.heads, options.vocabulary, options.sequence, options.dropout)
    export_inputs(network, examples(options.vocabulary, options.sequence), {"loss": False}, options.path,
                  options.opset)
