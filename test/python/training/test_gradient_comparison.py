"""`gradients.is_rounding`, by which tests compare gradients, accepts differences of rounding and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gradients import is_rounding, run_with_gradients
from harness import clone_tree
from torch import Tensor


def total(x: Tensor) -> Tensor:
    return (x * x).sum(0)


def in_another_order(x: Tensor) -> Tensor:
    """The total with one half of the rows after the other half."""
    first, second = x.chunk(2)
    return total(first) + total(second)


def row_by_row(x: Tensor) -> Tensor:
    """The total with one rounding per row."""
    result = torch.zeros(x.shape[1:], dtype=x.dtype)
    for row in x:
        result = result + row * row
    return result


def without_the_last(x: Tensor) -> Tensor:
    return total(x[:-1])


def with_a_wrong_gradient(x: Tensor) -> Tensor:
    return total(x) + (x - x.detach()).sum(0) * 1e-4


def as_a_view(x: Tensor) -> Tensor:
    return in_another_order(x).view(8)


def writing(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(1 + 1e-6)
    return in_another_order(x)


@pytest.mark.parametrize(
    ("other", "dtype", "rounding"),
    [
        (in_another_order, torch.float32, True),
        (in_another_order, torch.bfloat16, True),
        (row_by_row, torch.bfloat16, False),
        (in_another_order, torch.float64, False),
        (without_the_last, torch.float32, False),
        (with_a_wrong_gradient, torch.float32, False),
        (as_a_view, torch.float32, False),
        (writing, torch.float32, False),
    ],
)
def test_only_what_f64_bears_out_is_rounding(other: Callable[..., Any], dtype: torch.dtype, rounding: bool) -> None:
    torch.manual_seed(0)
    arguments = ((torch.rand(64, 8, dtype=dtype, requires_grad=True),), {})
    outcomes = [run_with_gradients(fn, *clone_tree(arguments)) for fn in (total, other)]
    assert is_rounding(total, arguments, dtype, 1, *outcomes) is rounding
