"""Ordinary programs that were once refused, or ended in an internal error, compile: copies whose last block is shorter
than the others, and attention whose heads share keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from both import check_both
from torch import Tensor

F = torch.nn.functional

# A kernel that computes nothing is a copy; if it is cut into blocks, the last block may be shorter.
COPIES: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "mean of a mean": (
        lambda x: (x.sum(0, keepdim=True) * 1.0).mean(2, keepdim=True),
        torch.rand(63, 62, 64, dtype=torch.float64),
    ),
    "minimum of sums": (lambda x: (x.sum(1, keepdim=True) * 1.0).amin(3, keepdim=True), torch.rand(16, 7, 128, 17)),
    "the same either way": (lambda x: torch.where(x > 0, x, x), torch.rand(125, 31, 63).bfloat16()),
    "the same by positions": (
        lambda x: torch.where(torch.arange(127).view(127, 1) > x, x, x),
        torch.rand(127, 255).bfloat16(),
    ),
    "transposed": (lambda x: torch.where(x > 0, x, x).clone(), torch.rand(129, 513).half().t()),
    "integers": (lambda x: torch.where(x > 0, x, x), torch.randint(0, 9, (4097, 17))),
    "every other": (lambda x: torch.where(x > 0, x, x), torch.rand(513, 514)[:, ::2].bfloat16()),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies(name: str) -> None:
    fn, x = COPIES[name]
    check_both(fn, x)


@pytest.mark.parametrize("queries, keys", [(1, 96), (5, 5), (64, 200)])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_heads_that_share_keys(queries: int, keys: int, heads: int) -> None:
    q, k, v = torch.randn(2, 4, queries, 64), torch.randn(2, heads, keys, 64), torch.randn(2, heads, keys, 32)
    check_both(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), q, k, v)


def test_softshrink() -> None:
    """Between the bounds it is 0. Eager's vectors give +0 there; its loop over the last few elements gives a zero of
    the operand's sign.
    """
    x = torch.tensor([-0.0, -0.25, 0.25, 0.0, float("nan"), 1.0, -1.0, float("-inf")])
    whole = torch.full((64,), -0.25)
    assert not F.softshrink(whole).signbit().any()
    check_both(F.softshrink, x)
    check_both(lambda x: F.softshrink(x).signbit(), whole)


def test_written_tuple() -> None:
    """A call that returns nothing and writes the tensor named by `out=` is part of the graph, for every backend."""

    def fn(x: Tensor, a: Tensor, b: Tensor, c: Tensor) -> None:
        torch.unbind_copy(x, out=(a, b, c))

    import dynamlir

    x = torch.eye(3)
    for backend in ("dynamlir", "eager"):
        outs = [torch.zeros(3) for _ in range(3)]
        for _ in range(2):
            dynamlir.compile(fn, backend=backend)(x, *outs)
            torch.testing.assert_close(torch.stack(outs), x)
            for out in outs:
                out.zero_()
