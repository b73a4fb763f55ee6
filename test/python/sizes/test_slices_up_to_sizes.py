"""Slices whose ends are computed from dynamic sizes and ints: one entry for all of them."""

from __future__ import annotations

import dynamlir
import pytest
import torch


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def up_to_less(x, n):
    return x[: n - 3] * 2


def up_to_own_size(x, n):
    return x[: x.shape[0] - 2] + n


def narrowed(x, n):
    return torch.narrow(x, 0, 0, x.shape[0] - 5) + 1


def stepped(x, n):
    return x[1 : n - 2 : 2].sin()


def half(x, n):
    return x[: (x.shape[0] - 1) // 2].sin()


@pytest.mark.parametrize("function", [up_to_less, up_to_own_size, narrowed, stepped, half])
def test_one_entry_for_all_sizes(function):
    compiled = dynamlir.compile(function)
    for size in (12, 13, 16, 19, 14):
        x = torch.arange(float(size))
        assert torch.equal(compiled(x, size - 2), function(x, size - 2))
    assert len(compiled._cache) == 2


def test_an_end_that_is_none_of_these():
    compiled = dynamlir.compile(up_to_less)
    for size, n in ((12, 9), (13, 10), (14, 11), (14, 3), (14, 1), (14, 40), (15, 12)):
        x = torch.arange(float(size))
        assert torch.equal(compiled(x, n), up_to_less(x, n))
