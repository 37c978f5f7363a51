"""Convolutions by Winograd's minimal filtering, in single precision: what those round that take fewer products.

Lavin and Gray (2016), section 4.1: Y = A' [(G g G') * (B' d B)] A for a tile of outputs. A and G evaluate polynomials at
chosen points and B' interpolates between them, transposed (Toom-Cook), so that Vandermonde's matrices are all there is to it.
"""

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

TILE, TAPS = 4, 3
# With the last one at infinity. Those of the paper, 0, 1, 2 and their opposites, round twice as much.
POINTS = (0, 5 / 8, -5 / 8, 3 / 2, -3 / 2)


def evaluations(coefficients):
    finite = [[point ** power for power in range(coefficients)] for point in POINTS]
    return torch.tensor([*finite, [0] * (coefficients - 1) + [1]], dtype=torch.double)


def convolve(x, weight, padding, dtype=torch.float32):
    """Images of (batch, in, height, width), weights of (out, in, 3, 3); steps of 1. Computed in `dtype`, returned in x's."""
    height, width = (size + 2 * pad - TAPS + 1 for size, pad in zip(x.shape[2:], padding))
    low, high = padding, [pad + -size % TILE for pad, size in zip(padding, (height, width))]
    padded = functional.pad(x.to(dtype), (low[1], high[1], low[0], high[0]))
    whole = TILE + TAPS - 1
    tiles = padded.unfold(2, whole, TILE).unfold(3, whole, TILE)
    a, g, b = (matrix.to(dtype) for matrix in (evaluations(TILE), evaluations(TAPS), evaluations(whole).inverse()))
    products = torch.einsum("nirspq,oipq->norspq", b.T @ tiles @ b, g @ weight.to(dtype) @ g.T)
    outputs = (a.T @ products @ a).transpose(3, 4).flatten(4).flatten(2, 3)
    return outputs[:, :, :height, :width].to(x.dtype)


class Winograd(TorchFunctionMode):
    """Takes the convolutions of dense windows of 3x3, of 48 channels and more, where the transforms pay."""

    def __torch_function__(self, function, types, arguments=(), options=None):
        if function is not torch.conv2d or options:
            return function(*arguments, **(options or {}))
        x, weight, bias, stride, padding, dilation, groups = arguments
        if weight.shape[2:] != (TAPS, TAPS) or (*stride, *dilation, groups) != (1,) * 5 or min(weight.shape[:2]) < 48:
            return function(*arguments)
        y = convolve(x, weight, padding)
        return y if bias is None else y + bias[:, None, None]
