"""Floats that a program computes from dynamic sizes: values of the graph, unless Python needs them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F

pytestmark = [pytest.mark.usefixtures("quiet")]


SCALE = torch.tensor(2.0, requires_grad=True)

USED: dict[str, Callable[[torch.Tensor], Any]] = {
    "scale of attention": lambda x: torch.softmax(x.t() @ x / math.sqrt(x.size(0)), -1) @ x.t(),
    "power": lambda x: x * x.shape[0] ** -0.5 + x.shape[0] ** 0.25,
    "half": lambda x: x * (x.shape[0] / 2) - x.shape[0] / 4,
    "ratio": lambda x: x * (x.shape[0] / x.shape[1]) + x.shape[1] / x.shape[0],
    "reciprocal": lambda x: x - 1 / x.shape[0] + 2.5 / len(x),
    "conversion": lambda x: x + float(x.shape[0]),
    "products": lambda x: x * (x.shape[0] * 0.1 + 0.5 - 2 * (0.25 * x.shape[1])),
    "of whole expressions": lambda x: x / math.sqrt(x.shape[0] * x.shape[1] + 1),
    "in place": lambda x: _scaled(x.clone(), x.shape[0]),
    "in a tuple": lambda x: sum(x * part for part in (x.shape[0] / 2, x.shape[0] * 2)),
    "torch's own": lambda x: x * torch.sym_float(x.shape[0]) + torch.sym_int(x.shape[0]),
    "root of a float": lambda x: x * math.sqrt(float(x.shape[0])),
    "larger and smaller": lambda x: (
        x * torch.sym_max(x.shape[0], 5) + torch.zeros(torch.sym_min(8, x.shape[0]), 1).sum()
    ),
    "filled": lambda x: torch.full((3, 1), x.shape[0] / 2) + x[0],
    "filled alike": lambda x: torch.full_like(x, x.shape[0] / 3) + x.new_full((2, 1), x.shape[0] / 7).sum(),
    "filled double": lambda x: torch.full((3,), x.shape[0] / 7, dtype=torch.float64, requires_grad=False).sum() + x,
    "filled in place": lambda x: torch.empty_like(x).fill_(x.shape[0] / 3) * x,
    "bounded": lambda x: x.clamp(max=x.shape[0] / 100),
    "bounded from both sides": lambda x: x.clamp(0, x.shape[0] / 30) + torch.clip(x, -1 / x.shape[0], 0.5),
    "bounded from below": lambda x: x.clamp_min(x.shape[0] / 100) + x.clamp(x.shape[0] / 9, x.shape[0] / 30),
    "bounded in place": lambda x: x.clone().clamp_(-0.5, x.shape[0] / 50),
    "filled by a mask": lambda x: x.masked_fill(x > 0, x.shape[0] / 7),
    "scale of torch's attention": lambda x: F.scaled_dot_product_attention(
        *[x[None, None]] * 3, scale=x.shape[0] ** -0.5
    ),
    "scale by position": lambda x: F.scaled_dot_product_attention(
        x[None, None], x[None, None], x[None, None], None, 0.0, True, scale=1 / x.shape[0]
    ),
    "alpha": lambda x: torch.add(x, x, alpha=x.shape[0] / 3),
    "double": lambda x: x.double() * (x.shape[0] / 3),
    "of one element": lambda x: x.sum() / (x.shape[0] / 7),
    "type": lambda x: x * (x.shape[0] / 2) if isinstance(x.shape[0] / 2, float) else x,
}
NEEDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "returned": lambda x: (x + 1, x.shape[0] / 2),
    "a size again": lambda x: x[: int(x.shape[0] / 2)] * 2,
    "compared": lambda x: x * 2 if x.shape[0] / 2 > 3 else x + 1,
    "rounded": lambda x: x * round(x.shape[0] / 3),
    "text": lambda x: x * len(f"{x.shape[0] / 3}"),
    "bounded with a gradient": lambda x: (x * SCALE).clamp(max=x.shape[0] / 100),
    "filled with whole numbers": lambda x: torch.full((3,), x.shape[0] / 2, dtype=torch.int64),
    "of whole numbers": lambda x: (x * 8).long() * (x.shape[0] / 2),
    "of half": lambda x: x.half() * (x.shape[0] / 3),
    "given to code": lambda x: F.leaky_relu(x, 1 / x.shape[0]),
    "logarithm": lambda x: x * math.log(x.shape[0]),
    "both": lambda x: x * (x.shape[0] / 3) + int(x.shape[1] / 2),
    "ceiling": lambda x: x[: math.ceil(x.shape[0] / 2)],
    "key": lambda x: x * {2.0: 3.0}.get(x.shape[0] / 2, 4.0),
    "whole root": lambda x: x.sum() * int(math.sqrt(x.shape[0])),
}


def _scaled(x: torch.Tensor, rows: int) -> torch.Tensor:
    scale: Any = rows
    scale /= 3
    x *= scale
    x += rows / 2
    return x


def same(found: Any, expected: Any) -> None:
    """Checks that both are equal, types included; floats to the last bit."""
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert type(found) is type(expected) and found == expected


@pytest.mark.parametrize("name", USED)
@pytest.mark.parametrize("dynamic", [None, True])
def test_one_graph_where_they_are_numbers(name: str, dynamic: bool | None) -> None:
    program = USED[name]
    compiled = dynamlir.compile(program, dynamic=dynamic)
    for rows in (4, 5, 6, 7, 8, 9, 31, 64, 100, 5):
        x = torch.randn(rows, rows + 1)
        same(compiled(x), program(x))
    assert len(compiled._cache) == (1 if dynamic else 2)
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("name", NEEDED)
def test_what_python_needs_is_of_the_call(name: str) -> None:
    program = NEEDED[name]
    compiled = dynamlir.compile(program)
    for rows in (4, 5, 6, 7, 4, 9):
        x = torch.randn(rows, rows + 1)
        same(compiled(x), program(x))
    assert len(compiled._cache) <= 5
    assert not dynamlir.counters()["fallbacks"]


def test_floats_that_a_type_does_not_hold_raise() -> None:
    for program in (
        lambda x, v: x.clamp(max=v),
        lambda x, v: torch.full((3,), v) + x,
        lambda x, v: x.masked_fill(x > 0, v),
    ):
        compiled, x = dynamlir.compile(program), torch.randn(4, 3)
        for value in (0.5, 0.25, math.inf, -math.inf, 1e-45, 3e38):
            same(compiled(x, value), program(x, value))
        assert len(compiled._cache) == 2
        with pytest.raises(RuntimeError, match="without overflow"):
            compiled(x, 1e300)


def test_division_by_what_may_be_zero_raises() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * (1 / (x.shape[0] - y.shape[0]))

    compiled = dynamlir.compile(program)
    for rows, others in ((4, 3), (5, 3), (7, 2), (8, 6)):
        x, y = torch.randn(rows, 2), torch.randn(others, 2)
        same(compiled(x, y), program(x, y))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        compiled(torch.randn(6, 2), torch.randn(6, 2))


def test_an_int_that_varies() -> None:
    compiled = dynamlir.compile(lambda x, n: x / n**0.5 + n / 2)
    x = torch.randn(3, 4)
    for n in (4, 5, 6, 7, 100, 2, -3, -5, 0.25, 8):
        wanted = x / n**0.5 + n / 2 if not isinstance(n, int) or n > 0 else None
        if wanted is None:
            # A complex number.
            torch.testing.assert_close(compiled(x, n), x / n**0.5 + n / 2)
        else:
            torch.testing.assert_close(compiled(x, n), wanted)
    assert not dynamlir.counters()["fallbacks"].get("cache-limit")


def test_gradients() -> None:
    weight = torch.randn(3, requires_grad=True)
    compiled = dynamlir.compile(lambda x: (x * weight / math.sqrt(x.shape[0])).sum())
    for rows in (4, 5, 6, 7):
        x = torch.randn(rows, 3)
        compiled(x).backward()
        torch.testing.assert_close(weight.grad, x.sum(0) / math.sqrt(rows))
        weight.grad = None
