"""Kernels large enough for vectors, parallel loops and prefetches: every element type, odd lengths, strided operands.

Each case must agree with eager, and no schedule may be given up: such a kernel would be correct, but slow.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import check
from sampled import one_in_product
from torch import Tensor

FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
ALL = [*FLOATS, *INTEGERS, torch.bool]
Function = Callable[..., Any]


def values(dtype: torch.dtype, *shape: int) -> Tensor:
    base = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 4
    return (base > 0) if dtype is torch.bool else base.abs().to(dtype) if dtype is torch.uint8 else base.to(dtype)


def check_scheduled(fn: Function, *args: Any, folder: Path, vectors: bool | None = None) -> None:
    """Calls `check`, and checks the scheduled kernels: each has a schedule, and vectors if ``vectors`` says so."""
    check(fn, *args, calls=1, dispatch=False)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(fn, backend="dynamlir", options={"dump": str(folder), "no_cache": True})(*args)
    if not (folder / "06-scheduled.mlir").exists():
        return  # no kernel: nothing to compute
    text = (folder / "06-scheduled.mlir").read_text()
    assert "dynamo.unscheduled" not in text
    if vectors is not None:
        assert ("vector.transfer_write" in text) == vectors


def has_vectors() -> bool:
    """Returns true if schedules use vectors on this processor."""
    return "AVX2" in torch.backends.cpu.get_cpu_capability() or "AVX512" in torch.backends.cpu.get_cpu_capability()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_every_element_type(dtype: torch.dtype, tmp_path: Path) -> None:
    def fn(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        return x + y, x > y, torch.where(x > y, x, y), torch.maximum(x, y)

    takes = dtype not in (torch.bfloat16, torch.float16, torch.bool) and has_vectors()
    check_scheduled(fn, values(dtype, 70_001), values(dtype, 70_001).flip(0), folder=tmp_path, vectors=takes or None)


@pytest.mark.parametrize("size", [0, 1, 31, 33, 255, 256, 257, 1023, 1024, 8191, 33_000, 1_046_529])
def test_lengths(size: int, tmp_path: Path) -> None:
    """Empty, less than a vector, whole vectors, and any remainder."""
    check_scheduled(lambda x: torch.relu(x) * 2 + x.sqrt(), torch.randn(size), folder=tmp_path)


@pytest.mark.parametrize("width", [1, 31, 33, 255, 256, 1000, 1023, 1056])
def test_rows_with_a_bias(width: int, tmp_path: Path) -> None:
    """Two loops: the broadcast operand keeps them from being merged."""
    check_scheduled(lambda x, b: torch.exp(x + b), torch.randn(300, width), torch.randn(width), folder=tmp_path)
    check_scheduled(lambda x, b: torch.exp(x + b), torch.randn(300, width), torch.randn(300, 1), folder=tmp_path / "b")


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::2], lambda x: x[:, 1:1025], lambda x: x.T, lambda x: x.flip(-1), lambda x: x[3:200, 5:],
        lambda x: x[:1].expand(512, 2048), lambda x: x.view(8, 64, 32, 64).to(memory_format=torch.channels_last),
    ],
)  # fmt: skip
def test_operands_with_strides(view: Function, tmp_path: Path) -> None:
    x = view(torch.randn(512, 2048))
    check_scheduled(lambda x, y: torch.sigmoid(x) + y, x, torch.randn(x.shape), folder=tmp_path)
    check_scheduled(lambda x, y: torch.where(x > y, x, y), x, x, folder=tmp_path / "b")


def test_in_place(tmp_path: Path) -> None:
    check_scheduled(lambda x, y: x.mul_(2).add_(y), torch.randn(70_000), torch.randn(70_000), folder=tmp_path)


ROWS = [
    *((torch.float32, shape) for shape in [(600, 1024), (600, 1000), (64, 8192), (4096, 64), (2000, 300), (9, 31)]),
    (torch.float64, (600, 768)),
    (torch.bfloat16, (600, 768)),
]
OVER_ROWS: list[Function] = [
    lambda x: x.softmax(-1), lambda x: x.mean(0), lambda x: x.amax(-1), lambda x: x.mean(), lambda x: x.amax(0),
    lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), lambda x: x.softmax(0), lambda x: x.cumsum(-1),
    lambda x: (x.amin(), x.amax()),
]  # fmt: skip


@pytest.mark.parametrize(("fn", "rows"), one_in_product(3, OVER_ROWS, ROWS))
def test_rows_and_columns(fn: Function, rows: tuple[torch.dtype, tuple[int, int]], tmp_path: Path) -> None:
    """Strips, blocks of columns and pieces of a whole, with prefetches in them."""
    dtype, shape = rows
    check_scheduled(fn, values(dtype, *shape), folder=tmp_path)


@pytest.mark.parametrize("shape", [(1000, 1000), (1023, 1023), (257, 1000), (4096, 33)], ids=str)
def test_sums_of_long_columns(shape: tuple[int, int]) -> None:
    """Compared with double precision: where elements cancel, eager's own rounding exceeds the tolerance of `check`."""
    x = values(torch.float32, *shape)
    exact = x.double().sum(0)
    with torch.no_grad():
        found = torch.compile(lambda x: x.sum(0), backend="dynamlir", dynamic=False)(x)
    assert (found - exact).abs().max() <= (x.sum(0) - exact).abs().max()
