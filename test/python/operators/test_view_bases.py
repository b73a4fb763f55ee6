"""The bases of outputs that are views (``_base``): eager's answer, also where views are created another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from harness import check
from torch import Tensor


def zeros_and_view(x: Tensor) -> tuple[Tensor, ...]:
    z = torch.zeros_like(x)
    return z, z[0], z.view(-1)


def view_of_detached(x: Tensor) -> tuple[Tensor, ...]:
    d = x.detach()
    return d.t(), d, d[0]


def views_of_hidden_detached(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    d = y.detach()
    return y, d[0], d[1], y[0]


def base_that_changes_shape(x: Tensor) -> tuple[Tensor, ...]:
    y = x + 1
    first = y[0]
    y.unsqueeze_(0)
    return first, y, y[0]


def only_views(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    return y[0], y.t(), y[1]


def view_then_base(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    return y[0], y, y[0]


def same_view_twice(x: Tensor) -> tuple[Tensor, ...]:
    d = x.detach()[1]
    return d, d


def written_through_detached(x: Tensor) -> tuple[Tensor, ...]:
    d = x.detach()
    d[0].mul_(3)
    return d[0], x, d


PROGRAMS = [
    zeros_and_view,
    view_of_detached,
    views_of_hidden_detached,
    base_that_changes_shape,
    only_views,
    view_then_base,
    same_view_twice,
    written_through_detached,
]


@pytest.mark.parametrize("fn", PROGRAMS)
@pytest.mark.parametrize(
    "make", [lambda: torch.arange(6.0).view(2, 3), lambda: torch.arange(6.0).view(2, 3).clone()], ids=["view", "whole"]
)
def test_bases(fn: Callable[..., Any], make: Callable[[], Tensor]) -> None:
    check(fn, make(), expect="compiled")


@pytest.mark.parametrize("fn", PROGRAMS)
def test_inference_tensors_have_none(fn: Callable[..., Any]) -> None:
    with torch.inference_mode():
        check(fn, torch.arange(6.0).view(2, 3).clone(), no_grad=False)


def test_later_writes_are_counted_once() -> None:
    """A base and its views share one version counter."""
    found = torch.compile(zeros_and_view, backend="dynamlir")(torch.ones(2, 3))
    found[1].add_(1)
    assert [tensor._version for tensor in found] == [1, 1, 1]


def test_a_lazy_clone_shares_memory_until_it_is_written():
    def function(x):
        t = x * 2
        clone = t._lazy_clone()
        lazy = torch._C._is_cow_tensor(t), torch._C._is_cow_tensor(clone)
        clone += 1
        return lazy, t, clone

    x = torch.arange(3.0)
    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            lazy, t, clone = compiled(x)
            assert lazy == function(x)[0] == (True, True)
            assert torch.equal(t, x * 2)
            assert torch.equal(clone, x * 2 + 1)
