#!/usr/bin/python3
"""T5 (encoder and decoder, positions as a bias on the scores): inputs i64[batch, sequence] of tokens of the source and
of the target one step behind, output the logits of the target. Its three embeddings are one matrix. The defaults are
T5-base's sizes.
"""
import math
import sys

import torch
from torch import nn

from export import add_sizes, draw_translations, main_of

OUTPUTS = {"output": True}


def configure(parser):
    add_sizes(parser, layers=12, width=768, heads=12, hidden=3072, vocabulary=32128, sequence=512)


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class Attention(nn.Module):
    """Heads of 64 or fewer numbers; scores are not scaled."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width, bias=False) for _ in range(4))
        nn.init.normal_(self.query.weight, std=(width * width / heads) ** -0.5)

    def forward(self, x, source, bias=None):
        def split(y):
            return y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

        scores = split(self.query(x)) @ split(self.key(source)).transpose(3, 2)
        if bias is not None:
            scores = scores + bias
        mixed = scores.softmax(dim=-1) @ split(self.value(source))
        return self.output(mixed.transpose(1, 2).reshape(x.shape))


class RelativeBias(nn.Module):
    """One number per head and bucket of distances: near ones have a bucket each, far ones share by logarithm."""

    def __init__(self, heads, causal, buckets=32, farthest=128):
        super().__init__()
        self.causal, self.buckets, self.farthest = causal, buckets, farthest
        self.bias = nn.Embedding(buckets, heads)

    def bucket(self, distance):
        buckets, offset = self.buckets, 0
        if self.causal:
            distance = -torch.minimum(distance, torch.zeros_like(distance))
        else:
            buckets //= 2
            offset = (distance > 0).to(torch.long) * buckets
            distance = torch.abs(distance)
        exact = buckets // 2
        far = exact + (torch.log(distance.float() / exact) / math.log(self.farthest / exact) * (buckets - exact)).to(torch.long)
        far = torch.minimum(far, torch.full_like(far, buckets - 1))
        return offset + torch.where(distance < exact, distance, far)

    def forward(self, length):
        positions = torch.arange(length)
        buckets = self.bucket(positions[None, :] - positions[:, None])
        bias = self.bias(buckets).permute(2, 0, 1)[None]
        if self.causal:
            bias = bias + torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        return bias


class Layer(nn.Module):
    def __init__(self, width, heads, hidden, is_decoder):
        super().__init__()
        self.norm1, self.attention = Norm(width), Attention(width, heads)
        if is_decoder:
            self.norm2, self.cross = Norm(width), Attention(width, heads)
        self.norm3 = Norm(width)
        self.feed_forward = nn.Sequential(nn.Linear(width, hidden, bias=False), nn.ReLU(),
                                          nn.Linear(hidden, width, bias=False))

    def forward(self, x, bias, source=None):
        y = self.norm1(x)
        x = x + self.attention(y, y, bias)
        if source is not None:
            x = x + self.cross(self.norm2(x), source)
        return x + self.feed_forward(self.norm3(x))


class Stack(nn.Module):
    def __init__(self, options, is_decoder):
        super().__init__()
        self.positions = RelativeBias(options.heads, is_decoder)
        self.layers = nn.ModuleList(Layer(options.width, options.heads, options.hidden, is_decoder)
                                    for _ in range(options.layers))
        self.norm = Norm(options.width)

    def forward(self, x, source=None):
        bias = self.positions(x.shape[1])
        for layer in self.layers:
            x = layer(x, bias, source)
        return self.norm(x)


class T5(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(options.vocabulary, options.width)
        self.encoder = Stack(options, False)
        self.decoder = Stack(options, True)
        self.scale = options.width ** -0.5

    def forward(self, source, target):
        encoded = self.encoder(self.tokens(source))
        decoded = self.decoder(self.tokens(target), encoded)
        return (decoded * self.scale) @ self.tokens.weight.t()


def build(options):
    return T5(options)


examples = draw_translations


if __name__ == "__main__":
    main_of(sys.modules[__name__])
