"""decisions.py finds the decisions that were made otherwise, and none that explain what is wrong."""

import copy

import numpy
import pytest
import torch

import decisions
import winograd


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(2, 6, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(6)
        self.second = torch.nn.Conv2d(6, 8, 3, padding=1)
        self.last = torch.nn.Linear(8, 5)

    def forward(self, x):
        x = torch.nn.functional.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        x = torch.nn.functional.max_pool2d(self.second(x), 2, ceil_mode=True)
        return self.last(torch.nn.functional.relu6(4 * x, inplace=True).mean((2, 3)))


@pytest.fixture
def case(monkeypatch):
    """Of much wider ties there are enough to choose from."""
    monkeypatch.setattr(decisions, "NEAR", 2e-3)
    torch.manual_seed(3)
    images, labels = torch.randn(16, 2, 12, 12, dtype=torch.float64), torch.randint(0, 5, (16,))
    return Network().double(), lambda net: torch.nn.functional.cross_entropy(net(images), labels)


def in_numpy(gradients):
    return {name: value.numpy().copy() for name, value in gradients.items()}


def test_finds_what_was_turned(case):
    """One in each call: rectifiers, and maxima before and behind one."""
    truth, calls = decisions.run(*case, [])
    most = {}
    for tie in decisions.near_ties(calls, decisions.widths(*case, calls)):
        moved = decisions.distances(decisions.run(*case, [tie])[0], truth)
        most[tie.call] = max(most.get(tie.call, (0.0, None)), (max(moved.values()), tie), key=lambda pair: pair[0])
    assert len(most) == len(calls) == 4 and all(moved > 3 * decisions.BOUND for moved, _ in most.values())
    chosen = [tie for _, tie in most.values()]
    turned = decisions.expect_alike(in_numpy(decisions.run(*case, chosen)[0]), *case)
    assert {(tie.call, tie.element) for tie in turned} == {(tie.call, tie.element) for tie in chosen}


def test_explains_nothing_where_nothing_is_off(case):
    assert not decisions.expect_alike(in_numpy(decisions.run(*case, [])[0]), *case)


ERRORS = {"scaled": lambda value: 0.01 * value,
          "drawn": lambda value: 0.01 * numpy.linalg.norm(value) * directions(value.shape),
          "lost": lambda value: numpy.nan * value}


def directions(shape):
    drawn = numpy.random.default_rng(1).standard_normal(shape)
    return drawn / numpy.linalg.norm(drawn)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("name", ["first.weight", "norm.weight", "norm.bias", "second.weight", "second.bias", "last.weight",
                                  "last.bias"])
def test_explains_nothing_wrong(name, error, case):
    found = in_numpy(decisions.run(*case, [])[0])
    found[name] += ERRORS[error](found[name])
    with pytest.raises(AssertionError):
        decisions.expect_alike(found, *case)


@pytest.mark.parametrize("padding", [0, 1])
def test_winograd(padding):
    """In double precision it is the convolution that it stands for; in single precision it rounds more than that does."""
    torch.manual_seed(1)
    net, x = torch.nn.Conv2d(48, 50, 3, padding=padding), torch.randn(2, 48, 9, 14)
    direct, double = net(x), copy.deepcopy(net).double()
    truth, bias = double(x.double()), double.bias[:, None, None]
    exact = winograd.convolve(x.double(), double.weight, double.padding, torch.double) + bias
    assert torch.allclose(exact, truth, rtol=0, atol=1e-12)
    with winograd.Winograd():
        mistake = double(x.double()) - truth
    assert 1e-4 > mistake.abs().max() > (direct - truth).abs().max() > 0
