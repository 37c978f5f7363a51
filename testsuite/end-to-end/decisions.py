"""Gradients against PyTorch in double precision, each parameter's within a thousandth (2-norm).

Where a rectifier's input lies so close to zero, or two values of a maximum so close to each other, that rounding
decides, the gradients of float32 jump, PyTorch's own too, by up to a hundredth. Nothing is allowed for that: where a
gradient is further off, it must be within the thousandth of what PyTorch computes in double precision with few of its
decisions, all of them near ties, made otherwise.
"""

import contextlib
import copy
import dataclasses

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from winograd import Winograd

BOUND = 1e-3
# How close a near tie is, as a part of the values' root mean square: what float32 is off by after some layers, the worst
# of millions of values. A step of ResNet-18 has some sixty. Where normalisations over few values make more of rounding, it
# is twice what weights that are rounded otherwise change the values by; or twice what Winograd's convolutions do.
NEAR = 128 * torch.finfo(torch.float32).eps
MOST_TURNED, MOST_TRIED = 10, 8
# Keeps the order of what a rectifier makes zero: of a window of zeros, pooling takes the one that is nearest to passing.
TINY = 1e-30


@dataclasses.dataclass
class Call:
    """Of a function with ties: its other arguments, its input, and the gradient of what it returned."""

    function: object
    arguments: tuple
    options: dict
    x: torch.Tensor
    upstream: torch.Tensor = None


@dataclasses.dataclass
class Decision:
    """Which element of which call's input would have to move, how far, what part of the root mean square that is; and
    by how much turning the decision changes the loss's derivative by elements of that input."""

    call: int
    element: int
    move: float
    part: float
    effect: dict


def bends(*values):
    """The ties of an elementwise function whose derivative jumps at these values."""
    def ties(call, near):
        x, upstream = call.x.flatten(), call.upstream.flatten()
        for value in values:
            moves = value - x
            for element in ((moves.abs() < near) & (moves != 0)).nonzero().flatten().tolist():
                sides = (x[element] + torch.tensor([0, 2], dtype=x.dtype) * moves[element]).requires_grad_()
                call.function(sides + 0, *call.arguments, **call.options).sum().backward()
                jump = sides.grad[1] - sides.grad[0]
                yield element, moves[element].item(), {element: (jump * upstream[element]).item()}
    return ties


def maxima(call, near):
    """The windows whose two largest elements are close to each other."""
    first, second, gaps = two_largest(call.x, call.upstream.shape, *call.arguments, **call.options)
    # A much smaller gap is one between zeros.
    for window in ((gaps < near) & (gaps > 1e-9 * near)).nonzero().flatten().tolist():
        gradient = call.upstream.flatten()[window].item()
        yield second[window].item(), gaps[window].item(), {second[window].item(): gradient, first[window].item(): -gradient}


def two_largest(x, pooled, kernel_size, stride=None, padding=0, dilation=1, **_):
    """Where they stand in x, for each window, and by how much they differ."""
    pair = lambda value: tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    sizes, strides, dilations, low = pair(kernel_size), pair(stride or kernel_size), pair(dilation), pair(padding)
    high = [(count - 1) * step + spread * (size - 1) + 1 - side - before for count, step, spread, size, side, before
            in zip(pooled[-2:], strides, dilations, sizes, x.shape[-2:], low)]

    def windows(values, fill):
        planes = functional.pad(values.reshape(-1, 1, *x.shape[-2:]), (low[1], high[1], low[0], high[0]), value=fill)
        return functional.unfold(planes, sizes, dilations, 0, strides)

    largest, index = windows(x, -torch.inf).topk(2, 1)
    places = windows(torch.arange(x.numel(), dtype=x.dtype), 0).gather(1, index).long()
    return places[:, 0].flatten(), places[:, 1].flatten(), (largest[:, 0] - largest[:, 1]).flatten()


TIES = {torch.relu: bends(0), torch.relu_: bends(0), torch.Tensor.relu: bends(0), functional.relu: bends(0),
        functional.leaky_relu: bends(0), functional.relu6: bends(0, 6), functional.hardtanh: bends(0, 6),
        functional.hardswish: bends(-3, 3), functional.hardsigmoid: bends(-3, 3), functional.max_pool2d: maxima,
        functional.max_pool2d_with_indices: maxima, torch.max_pool2d: maxima}


class Upstream(torch.autograd.Function):
    """Gives the call the gradient of what it returned."""

    @staticmethod
    def forward(context, y, call):
        context.call = call
        return y.clone()

    @staticmethod
    def backward(context, gradient):
        context.call.upstream = gradient
        return gradient, None


class Calls(TorchFunctionMode):
    """Lists the calls of functions with ties, and makes the decisions `turned` otherwise."""

    def __init__(self, turned):
        super().__init__()
        self.turned, self.calls = turned, []

    def __torch_function__(self, function, types, arguments=(), options=None):
        options = options or {}
        if function not in TIES:
            return function(*arguments, **options)
        x, *arguments = arguments
        x = x + self.moves(x)
        call = Call(function, arguments, options, x.detach().clone())
        self.calls.append(call)
        y = function(x, *arguments, **options)
        if isinstance(y, tuple):
            return Upstream.apply(y[0], call), *y[1:]
        return Upstream.apply(y if TIES[function] is maxima else y + TINY * call.x, call)

    def moves(self, x):
        """As far as to the border and as far again."""
        moves = torch.zeros(x.numel(), dtype=x.dtype)
        for decision in self.turned:
            if decision.call == len(self.calls):
                moves[decision.element] += 2 * decision.move
        return moves.view(x.shape)


def run(net, loss, turned):
    """The gradients in double precision, and the calls."""
    net = copy.deepcopy(net)
    with Calls(turned) as mode:
        value = loss(net)
    value.backward()
    return {name: parameter.grad for name, parameter in net.named_parameters()}, mode.calls


def scales(gradients):
    """The norm of each; of all where it vanishes, as that of a bias before a normalisation."""
    whole = torch.stack([gradient.norm() for gradient in gradients.values()]).norm()
    return {name: gradient.norm() if gradient.norm() > 1e-9 * whole else whole for name, gradient in gradients.items()}


def distances(found, expected):
    return {name: ((found[name] - expected[name]).norm() / scale).item() for name, scale in scales(expected).items()}


def squares(off):
    return sum(value ** 2 for value in off.values())


def root_mean_square(values):
    return values.square().mean().sqrt().item()


def widths(net, loss, calls, winograd=False):
    """How close a near tie is in each call."""
    moved, generator = copy.deepcopy(net), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in moved.parameters():
            drawn = torch.rand(parameter.shape, generator=generator, dtype=parameter.dtype) - 0.5
            parameter *= 1 + torch.finfo(torch.float32).eps * drawn
        with Winograd() if winograd else contextlib.nullcontext(), Calls([]) as mode:
            loss(moved)
    return [max(NEAR, 2 * (other.x - call.x).abs().max().item() / root_mean_square(call.x))
            for call, other in zip(calls, mode.calls, strict=True)]


def near_ties(calls, near):
    for index, call in enumerate(calls):
        if call.upstream is None:  # nothing that the loss depends on
            continue
        size = root_mean_square(call.x)
        for element, move, effect in TIES[call.function](call, near[index] * size):
            yield Decision(index, element, move, abs(move) / size, effect)


def gains_of(net, loss, turned, found, gradients, calls, near):
    """The near ties, and by how much turning each brings the squares of what is left down, as far as it does; most first.

    That is the product of what is left with what turning the decision adds to the gradients: the derivative of the
    elements in question along what is left, of all of them at once, which is what they differ by in a network whose
    parameters have moved that way.
    """
    along = {name: (found[name] - gradients[name]) / scale ** 2 for name, scale in scales(gradients).items()}
    moved = copy.deepcopy(net)
    size = lambda values: torch.stack([value.norm() for value in values]).norm().item()
    step = 1e-7 * size([parameter.detach() for parameter in net.parameters()]) / size(along.values())
    with torch.no_grad():
        for name, parameter in moved.named_parameters():
            parameter += step * along[name]
        with Calls(turned) as mode:
            loss(moved)
    slope = lambda call, element: (mode.calls[call].x.flatten()[element] - calls[call].x.flatten()[element]).item() / step
    gains = [(sum(value * slope(decision.call, element) for element, value in decision.effect.items()), decision)
             for decision in near_ties(calls, near)]
    return sorted(gains, key=lambda pair: -pair[0])


def choices(gains, left):
    """What may be turned next and what it should gain: those that explain nine tenths of what is left, a fiftieth each at
    least; else one alone: of those that gain most, as many distant ones do by chance, then of those nearest to a tie."""
    together, explained = [], 0.0
    for gain, decision in gains:
        if explained < 0.9 * left and gain > 0.02 * left:
            together.append(decision)
            explained += gain
    nearest = sorted((pair for pair in gains if pair[0] > 0.02 * left), key=lambda pair: pair[1].part)
    alone = [([decision], gain) for gain, decision in gains[:MOST_TRIED] + nearest[:MOST_TRIED]]
    return [(together, explained), *alone] if together else alone


def bounds_of(theirs, truth):
    """By parameter. Where rounding alone moves PyTorch's gradient by more, as of a sum whose terms nearly cancel, twice as far;
    three thousandths at most: PyTorch may have decided otherwise, too."""
    off = {} if theirs is None else distances({name: torch.from_numpy(value) for name, value in theirs.items()}, truth)
    return {name: min(max(BOUND, 2 * off.get(name, 0)), 3 * BOUND) for name in truth}


def expect_alike(found, net, loss, step=0, theirs=None, winograd=False):
    """`loss` is that of a network in double precision as `net` is one; `theirs`: PyTorch's gradients in single precision;
    `winograd`: convolutions may have been computed so.
    Returns the decisions that are turned: each choice
    brings the squares of what is left down by half of its gain at least, as one does that was made otherwise. One that was
    not, and that lies along an error by chance, adds as much as it takes away."""
    net, found = copy.deepcopy(net).double(), {name: torch.from_numpy(value).double() for name, value in found.items()}
    assert all(value.isfinite().all() for value in found.values())
    turned = []
    gradients, calls = run(net, loss, turned)
    near, bounds = None, bounds_of(theirs, gradients)
    while any((off := distances(found, gradients))[name] > bound for name, bound in bounds.items()):
        worst, near = max(off, key=off.get), near or widths(net, loss, calls, winograd)
        for choice, gain in choices(gains_of(net, loss, turned, found, gradients, calls, near), squares(off)):
            otherwise = run(net, loss, [*turned, *choice])
            if gain > 0 and squares(distances(found, otherwise[0])) < squares(off) - 0.5 * gain:
                break
        else:
            raise AssertionError(f"step {step}: {worst} is off by {off[worst]}, and no near tie explains it; turned: {turned}")
        (gradients, calls), turned = otherwise, [*turned, *choice]
        assert len(turned) <= MOST_TURNED, f"step {step}: {worst} was off by {off[worst]} before the last of {turned}"
    return turned
