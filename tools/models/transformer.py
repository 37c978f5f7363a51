"""The parts that the transformers here share."""
import math

import torch
from torch import nn


class Attention(nn.Module):
    """Self-attention of several heads; queries, keys and values come from one matrix.

    `causal` hides later positions; `length` is then the longest sequence.
    """

    def __init__(self, width, heads, dropout=0.0, causal=False, length=0):
        super().__init__()
        self.heads = heads
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.causal = causal
        if causal:
            self.register_buffer("mask", torch.tril(torch.ones(1, 1, length, length)).bool(), persistent=False)

    def forward(self, x, hidden=None):
        """`hidden`: added to the scores of [batch, 1, 1, sequence]; large negative where a position is padding."""
        batch, length, width = x.shape
        parts = self.inputs(x).split(width, dim=2)
        query, key, value = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                             for part in parts)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        if self.causal:
            scores = scores.masked_fill(~self.mask[:, :, :length, :length], float("-inf"))
        if hidden is not None:
            scores = scores + hidden
        mixed = self.dropout(scores.softmax(dim=-1)) @ value
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class GeluTanh(nn.Module):
    """GPT-2's approximation of the Gaussian error linear unit."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def feed_forward(width, activation, dropout=0.0, hidden=0):
    hidden = hidden or 4 * width
    return nn.Sequential(nn.Linear(width, hidden), activation, nn.Linear(hidden, width), nn.Dropout(dropout))


class PreNormLayer(nn.Module):
    """Normalises before attention and before the feed-forward network: GPT-2, ViT. `hidden`: of that network, else
    four times the width."""

    def __init__(self, width, heads, activation, dropout=0.0, causal=False, length=0, hidden=0):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout, causal, length)
        self.norm2 = nn.LayerNorm(width)
        self.feed_forward = feed_forward(width, activation, dropout, hidden)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class PostNormLayer(nn.Module):
    """Normalises behind them: BERT."""

    def __init__(self, width, heads, dropout=0.0):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.feed_forward = feed_forward(width, nn.GELU(), dropout)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x, hidden):
        x = self.norm1(x + self.attention(x, hidden))
        return self.norm2(x + self.feed_forward(x))
