"""Kernels with special properties agree with eager: negative strides, values that are only moved, arithmetic that folds
away.
"""

from __future__ import annotations

import pytest
import torch
from harness import check
from torch import Tensor

DTYPES = [torch.bool, torch.uint8, torch.int16, torch.bfloat16, torch.float16, torch.float32, torch.float64]


def sample(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.arange(torch.Size(shape).numel()).view(shape).remainder(7).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [2, 3, 16, 67])
def test_flip(dtype: torch.dtype, size: int) -> None:
    """Reads from the end: no address may be assumed to lie above the first."""
    check(lambda x: (x.flip(0), x.flip(0) * 2, x.flip(0, 1)[:, 1:]), sample(dtype, size, 5), expect="compiled")


def test_flip_in_a_long_parallel_loop() -> None:
    check(lambda x: x.flip(1) + x, torch.randn(600, 333), expect="compiled")
    check(lambda x: x.flip(0, 1).softmax(-1), torch.randn(600, 333), expect="compiled")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_gathered_value_used_in_an_inner_loop(dtype: torch.dtype) -> None:
    """The value outlives the block that loads it."""
    x, index = sample(dtype, 3, 4), torch.tensor([[2], [0], [-1], [1]]).expand(4, 3)
    check(lambda x, index: x.view(-1)[index].clone(), x, index, expect="compiled")


@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_arithmetic_that_folds_away_between_layouts(dtype: torch.dtype) -> None:
    def fn(x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:, ::2] * 1, x.t() + 0

    check(fn, sample(dtype, 3, 4), expect="compiled")


@pytest.mark.parametrize("name", ["cumsum_", "cumprod_"])
@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.float16, torch.float32], ids=str)
def test_scans_in_place_keep_their_element_type(name: str, dtype: torch.dtype) -> None:
    check(lambda x: getattr(x, name)(0), sample(dtype, 9) * 20 + 1, expect="compiled")
