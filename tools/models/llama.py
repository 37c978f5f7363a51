#!/usr/bin/python3
"""A decoder of Llama's kind (RMSNorm, rotary positions, SwiGLU, queries that share keys and values):
input i64[batch, sequence] of tokens, output their logits; labels are i64[batch, sequence].

The defaults are the sizes of TinyLlama (1.1 billion weights).
"""
import sys

import torch
from torch import nn

from export import add_sizes, draw_tokens, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=22, width=2048, heads=32, groups=4, hidden=5632, vocabulary=32000, sequence=2048)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Rotary(nn.Module):
    """Turns pairs of a head's numbers by angles that grow with the position."""

    def __init__(self, width, length):
        super().__init__()
        frequencies = 1.0 / 10000 ** (torch.arange(0, width, 2) / width)
        angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
        self.register_buffer("cos_cached", angles.cos()[None, None])
        self.register_buffer("sin_cached", angles.sin()[None, None])

    def forward(self, x):
        first, second = x.chunk(2, dim=-1)
        return x * self.cos_cached + torch.cat([-second, first], dim=-1) * self.sin_cached


class GroupedAttention(nn.Module):
    """Causal attention; `groups` heads of keys and values serve `heads` heads of queries."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def shared(self, x):
        batch, _, length, size = x.shape
        repeats = self.heads // self.groups
        return x[:, :, None].expand(batch, self.groups, repeats, length, size).reshape(batch, self.heads, length, size)

    def forward(self, x, rotary, mask):
        batch, length, width = x.shape
        query = rotary(self.query(x).view(batch, length, self.heads, self.size).transpose(1, 2))
        key = rotary(self.key(x).view(batch, length, self.groups, self.size).transpose(1, 2))
        value = self.value(x).view(batch, length, self.groups, self.size).transpose(1, 2)
        scores = query @ self.shared(key).transpose(-1, -2) * self.size ** -0.5
        mixed = (scores + mask).softmax(dim=-1) @ self.shared(value)
        return self.output(mixed.transpose(1, 2).reshape(batch, length, width))


class SwiGLU(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.norm1 = RMSNorm(options.width)
        self.attention = GroupedAttention(options.width, options.heads, options.groups)
        self.norm2 = RMSNorm(options.width)
        self.feed_forward = SwiGLU(options.width, options.hidden)

    def forward(self, x, rotary, mask):
        x = x + self.attention(self.norm1(x), rotary, mask)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(options.vocabulary, options.width)
        self.rotary = Rotary(options.width // options.heads, options.sequence)
        self.layers = nn.ModuleList(Layer(options) for _ in range(options.layers))
        self.norm = RMSNorm(options.width)
        self.head = nn.Linear(options.width, options.vocabulary, bias=False)

    def forward(self, ids):
        length = ids.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        x = self.tokens(ids)
        for layer in self.layers:
            x = layer(x, self.rotary, mask)
        return self.head(self.norm(x))


def build(options):
    return Llama(options)


def examples(options, count):
    tokens, labels = draw_tokens(count, options.sequence, options.vocabulary)
    return {"input": tokens, "labels": labels}


if __name__ == "__main__":
    main_of(sys.modules[__name__])
