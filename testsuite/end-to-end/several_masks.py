#!/usr/bin/python3
"""Attention whose scores several masks tell of, under views of several shapes: in shifted windows as Swin's, with slopes and a causal
mask as Bloom's, and with what queries say of positions, as XLNet's."""
import torch
from torch import nn

from export import main

SIDE, WIDTH, HEADS, WINDOW = 4, 16, 2, 2
ROWS = SIDE * SIDE


def in_windows(image):
    """[samples, side, side, ...] as [samples * windows, rows of one, ...]."""
    parts = image.view(-1, SIDE // WINDOW, WINDOW, SIDE // WINDOW, WINDOW, image.shape[-1]).permute(0, 1, 3, 2, 4, 5)
    return parts.reshape(-1, WINDOW * WINDOW, image.shape[-1])


def of_windows(parts):
    image = parts.view(-1, SIDE // WINDOW, SIDE // WINDOW, WINDOW, WINDOW, WIDTH).permute(0, 1, 3, 2, 4, 5)
    return image.reshape(-1, SIDE, SIDE, WIDTH)


class Windows(nn.Module):
    """`has_more`: five dimensions before the softmax, else four but for the mask of windows."""

    def __init__(self, has_more):
        super().__init__()
        self.inputs, self.outputs, self.has_more = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), has_more
        self.bias = nn.Parameter(torch.randn(HEADS, WINDOW * WINDOW, WINDOW * WINDOW))
        places = torch.arange(SIDE)
        regions = (places >= SIDE - WINDOW).int() + (places >= SIDE - WINDOW // 2).int()
        parts = in_windows((3 * regions[:, None] + regions)[None, :, :, None].float())[..., 0]
        self.register_buffer("apart", -100.0 * (parts[:, None, :] != parts[:, :, None]).float())

    def forward(self, x):
        shifted = in_windows(torch.roll(x.view(-1, SIDE, SIDE, WIDTH), (-1, -1), (1, 2)))
        windows, rows = self.apart.shape[:2]
        split = self.inputs(shifted).view(-1, rows, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)
        if self.has_more:
            query, key, value = (part.reshape(-1, windows, HEADS, rows, WIDTH // HEADS) for part in (query, key, value))
        scores = (query * (WIDTH // HEADS) ** -0.5) @ key.transpose(-2, -1) + self.bias
        if self.has_more:
            mixed = ((scores + self.apart[None, :, None]).softmax(-1) @ value).permute(0, 1, 3, 2, 4)
        else:
            scores = scores.view(-1, windows, HEADS, rows, rows) + self.apart[None, :, None]
            mixed = (scores.view(-1, HEADS, rows, rows).softmax(-1) @ value).transpose(1, 2)
        mixed = of_windows(self.outputs(mixed.reshape(shifted.shape)))
        return x + torch.roll(mixed, (1, 1), (1, 2)).view(x.shape)


class Sloped(nn.Module):
    """Products of all heads of all samples in one dimension."""

    def __init__(self):
        super().__init__()
        self.inputs, self.outputs = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.register_buffer("slopes_mask", torch.tensor([0.5, 0.25])[:, None, None] * torch.arange(ROWS))
        self.register_buffer("later", torch.full((ROWS, ROWS), -torch.inf).triu(1))

    def forward(self, x):
        samples = x.shape[0]
        query, key, value = (part.view(samples, ROWS, HEADS, -1).transpose(1, 2).reshape(samples * HEADS, ROWS, -1)
                             for part in self.inputs(x).split(WIDTH, 2))
        slopes = self.slopes_mask.repeat(samples, 1, 1)
        scores = slopes.baddbmm(query, key.transpose(1, 2), beta=1.0, alpha=(WIDTH // HEADS) ** -0.5)
        shares = (scores.view(samples, HEADS, ROWS, ROWS) + self.later).softmax(-1).view(samples * HEADS, ROWS, ROWS)
        mixed = torch.bmm(shares, value).view(samples, HEADS, ROWS, -1).transpose(1, 2)
        return x + self.outputs(mixed.reshape(x.shape))


class Relative(nn.Module):
    """Scores of positions are computed, too; all are scaled, and what is taken away hides the last keys."""

    def __init__(self):
        super().__init__()
        self.inputs, self.outputs = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.positions = nn.Parameter(torch.randn(HEADS, WIDTH // HEADS, 2 * ROWS))
        places = torch.arange(ROWS)
        self.register_buffer("distances", places[None, :] - places[:, None] + ROWS)
        self.register_buffer("hidden", (places >= ROWS - 2).float())

    def forward(self, x):
        query, key, value = (part.view(-1, ROWS, HEADS, WIDTH // HEADS).transpose(1, 2) for part in self.inputs(x).split(WIDTH, 2))
        distances = self.distances.expand(x.shape[0], HEADS, ROWS, ROWS)
        scores = query @ key.transpose(-2, -1) + torch.gather(query @ self.positions, 3, distances)
        shares = (scores * (WIDTH // HEADS) ** -0.5 - 1e30 * self.hidden).softmax(-1)
        return x + self.outputs((shares @ value).transpose(1, 2).reshape(x.shape))


class SeveralMasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.last = nn.Sequential(Windows(False), Windows(True), Sloped(), Relative()), nn.Linear(WIDTH, 10)

    def forward(self, x):
        return self.last(self.layers(x).mean(1))


if __name__ == "__main__":
    main(SeveralMasks, (ROWS, WIDTH), __doc__)
