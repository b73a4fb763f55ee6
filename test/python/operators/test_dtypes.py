"""Every element type that the compiler supports, through promotion, casts, pointwise operations and reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import check
from sampled import one_in_product
from torch import Tensor

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = [*FLOATS, *INTEGERS, torch.bool]


def values(dtype: torch.dtype, *shape: int) -> Tensor:
    base = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 4
    return (base > 0) if dtype is torch.bool else base.abs().to(dtype) if dtype is torch.uint8 else base.to(dtype)


@pytest.mark.parametrize(("left", "right"), one_in_product(3, ALL, ALL))
def test_promotion(left: torch.dtype, right: torch.dtype) -> None:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + y, x * y, x > y, torch.maximum(x, y), torch.where(x > y, x, y)

    check(fn, values(left, 5, 3), values(right, 3), expect="compiled", calls=1, dispatch=False)


@pytest.mark.parametrize(("source", "target"), one_in_product(3, ALL, ALL))
def test_cast(source: torch.dtype, target: torch.dtype) -> None:
    if source.is_floating_point and not target.is_floating_point:
        source_values = values(source, 7).abs()  # a negative float to an unsigned integer has no defined value
    else:
        source_values = values(source, 7)
    check(lambda x: x.to(target), source_values, calls=1, dispatch=False)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "fn",
    [
        torch.exp, torch.tanh, torch.sigmoid, torch.erf, torch.sin, torch.rsqrt, torch.nn.functional.gelu,
        torch.nn.functional.silu, lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: x.sum(-1),
        lambda x: x.mean(), lambda x: x.var(-1), lambda x: x.amax(0), lambda x: x.cumsum(0),
        lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), lambda x: x**3, lambda x: x + 1.7, lambda x: 2 / x,
    ],
)  # fmt: skip
def test_floats(fn: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    check(fn, values(dtype, 6, 33), expect="compiled", calls=1)


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.float().mean(), lambda x: x.any(), lambda x: x.all(-1),
        lambda x: x + True, lambda x: x + 1, lambda x: x + 1.5, lambda x: x.float().exp(), lambda x: x == 1,
        lambda x: x.amax(-1), lambda x: x.long().argmax(-1), lambda x: ~x, lambda x: x & 3,
    ],
)  # fmt: skip
def test_integers(fn: Callable[[Tensor], Any], dtype: torch.dtype) -> None:
    check(fn, values(dtype, 6, 9), expect="compiled", calls=1)


@pytest.mark.parametrize("size", [1, 3, 7, 8, 9, 15, 16, 17, 31, 64, 65, 1000])
def test_sizes_around_vectors(size: int) -> None:
    check(lambda x: (x.sin() * 2, x.sum(-1), x.softmax(0)), torch.randn(3, size), expect="compiled", calls=1)
