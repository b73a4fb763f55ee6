"""Norms of rows of equal numbers, whose sums are rounded: they must still equal their mean exactly."""

from __future__ import annotations

import math

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

NUMBERS = [0.1, 3.3, 1e4, -7e-5]


def rows(count: int, dtype: torch.dtype) -> Tensor:
    return torch.tensor(NUMBERS, dtype=dtype).reshape(-1, 1).repeat(1, count)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("count", [3, 7, 768, 1001])
def test_nothing_is_left_of_them(count: int, dtype: torch.dtype) -> None:
    def norms(x: Tensor) -> tuple[Tensor, ...]:
        return F.layer_norm(x, x.shape[1:]), F.group_norm(x[None], x.shape[0]), F.instance_norm(x[None])

    x = rows(count, dtype)
    for found in dynamlir.compile(norms)(x):
        assert (found == 0).all()


def test_statistics_are_eagers() -> None:
    def statistics(x: Tensor) -> tuple[Tensor, ...]:
        return torch.native_layer_norm(x, x.shape[1:], None, None, 1e-5)

    x = rows(50, torch.float32)
    torch.testing.assert_close(dynamlir.compile(statistics)(x), statistics(x), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan])
def test_running_statistics_of_what_is_no_number(odd: float) -> None:
    """The mean of numbers with an infinity is infinite. Differences from it that are NaN are not added."""

    def step(x: Tensor) -> tuple[Tensor, ...]:
        mean, variance = torch.zeros(3), torch.ones(3)
        return F.batch_norm(x, mean, variance, training=True), mean, variance

    x = torch.randn(8, 3)
    x[2, 1] = odd
    torch.testing.assert_close(dynamlir.compile(step)(x), step(x), equal_nan=True)
