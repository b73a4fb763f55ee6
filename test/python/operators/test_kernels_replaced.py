"""Programs that replace torch's kernels with their own (`torch.library`): compiled code calls the new kernels."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from torch import Tensor


@pytest.fixture
def library(quiet: None) -> Iterator[Any]:
    with warnings.catch_warnings(), torch.library._scoped_library("aten", "IMPL") as library:
        warnings.simplefilter("ignore")  # a kernel exists already
        yield library


CASES: dict[str, tuple[str, str, Callable[..., Any], Callable[[Tensor], Tensor]]] = {
    "default": ("sinh", "CPU", lambda x: torch.full_like(x, 42.0), lambda x: torch.sinh(x) * 2),
    "overload": ("fmod.Tensor", "CPU", lambda x, y: torch.full_like(x, 7.0), lambda x: torch.fmod(x, x + 1)),
    "beneath": ("expm1", "CPU", lambda x: torch.full_like(x, 3.0), lambda x: torch.special.expm1(x) + x),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", CASES)
def test_the_new_kernel_is_called(case: str, door: str, library: Any) -> None:
    name, key, kernel, function = CASES[case]
    library.impl(name, kernel, key)
    torch._dynamo.reset()
    dynamlir.reset()
    x = torch.linspace(0.1, 1, 4)
    with torch.no_grad():
        expected = function(x)
        compiled = DOORS[door](function)
        for _ in range(2):
            assert torch.equal(compiled(x), expected)
    assert "unsupported" in dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("door", DOORS)
def test_formulas_call_it_too(door: str, library: Any) -> None:
    """The gradient of a sine is a cosine."""
    library.impl("cos", lambda x: torch.full_like(x, 5.0), "CPU")
    torch._dynamo.reset()
    dynamlir.reset()
    x = torch.ones(3, requires_grad=True)
    DOORS[door](lambda x: x.sin().sum())(x).backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((3,), 5.0))


def test_graphs_without_it_are_compiled(library: Any) -> None:
    library.impl("cos", lambda x: torch.full_like(x, 5.0), "CPU")
    dynamlir.reset()
    with torch.no_grad():
        torch.testing.assert_close(dynamlir.compile(lambda x: x.exp() + 1)(torch.ones(3)), torch.ones(3).exp() + 1)
    assert not dynamlir.counters()["fallbacks"]
