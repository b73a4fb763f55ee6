"""Operands that lie across a kernel's loops agree with eager: transposed matrices and images, odd sizes, all types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from harness import check
from torch import Tensor

DTYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.uint8,
    torch.bool,
]
SIDES = [(64, 128), (37, 77), (300, 9), (8, 200), (1, 50), (130, 130)]


def matrix(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    base = torch.arange(rows * columns).reshape(rows, columns) % 251 - 100
    return base > 0 if dtype is torch.bool else base.abs().to(dtype) if dtype is torch.uint8 else base.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_each_type(dtype: torch.dtype) -> None:
    check(lambda x, y: (x.t().contiguous(), y.t().reshape(-1)), matrix(70, 45, dtype), matrix(64, 96, dtype), calls=1)


@pytest.mark.parametrize("sides", SIDES)
def test_work_that_is_fused(sides: tuple[int, int]) -> None:
    def fused(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        turned = x.t()
        return (
            F.gelu(turned / 50).contiguous(),
            turned * y + turned.sin() * 2,
            turned.to(torch.int32).contiguous(),
            torch.cat([turned, y], 1),
            (turned > y).contiguous(),
        )

    check(fused, matrix(*sides), matrix(sides[1], sides[0]) / 3, calls=1)


def test_types_of_several_widths_in_one_kernel() -> None:
    def mixed(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return torch.where(z.t(), x.t().to(torch.float64) + y.t().to(torch.float64), 0.5)

    check(mixed, matrix(90, 75), matrix(90, 75, torch.int16), matrix(90, 75, torch.bool), calls=1)


@pytest.mark.parametrize(
    "order",
    [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (2, 3, 0, 1), (0, 1, 3, 2)],
)
def test_dimensions_in_any_order(order: tuple[int, ...]) -> None:
    x = matrix(3 * 20, 9 * 33).reshape(3, 20, 9, 33)
    check(lambda x: (x.permute(order).contiguous(), x.permute(order).contiguous() * 2 + 1), x, calls=1)


def test_windows_of_larger_memory() -> None:
    x = matrix(100, 90)
    check(lambda x: (x[3:80, 5:71].t().contiguous(), x[::2, 1::3].t() + 1, x[:, :1].t().contiguous()), x, calls=1)


@pytest.mark.parametrize("sides", SIDES)
def test_a_position_in_the_kernel(sides: tuple[int, int]) -> None:
    def positions(x: Tensor, out: Tensor) -> tuple[Tensor, ...]:
        out.t().copy_(torch.triu(x, 2))
        return torch.tril(x.t()).contiguous(), torch.triu(x.t() + 1, -1), x.t() * torch.arange(x.shape[0])

    check(positions, matrix(*sides), matrix(*sides).t().clone(), calls=1)


@pytest.mark.parametrize("step", [2, 3, 4, 5])
@pytest.mark.parametrize("sides", SIDES)
def test_neighbours_with_gaps(sides: tuple[int, int], step: int) -> None:
    """The last element is the last one of its memory."""
    rows, columns = sides
    memory = torch.arange(rows * columns * step - step + 1) % 251 - 100

    def fused(*operands: Tensor) -> list[Tensor]:
        copies = [x.t().contiguous() for x in operands]
        return [*copies, *((x.t() + 1).contiguous() for x in operands), *(x.t().sum(-1) for x in operands)]

    dtypes = (torch.int64, torch.float32, torch.bfloat16, torch.int8)
    operands = [memory.to(dtype).as_strided((rows, columns), (columns * step, step)) for dtype in dtypes]
    check(fused, *operands, calls=1)


def test_read_by_index() -> None:
    def read(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        y = x.t()
        return y.index_select(1, i), y[..., i] + 1, y.gather(1, i.expand(y.shape[0], -1)), y.index_select(0, i)

    check(read, matrix(230, 300), torch.arange(500) * 7 % 230, calls=1)


def test_written_in_place() -> None:
    def turned(x: Tensor, y: Tensor) -> Tensor:
        y.copy_(x.t())
        y.add_(x.t() * 2)
        return y.sum()

    check(turned, matrix(40, 66), matrix(66, 40).clone(), calls=1)


@pytest.mark.parametrize("function", [lambda x: x.t().contiguous(), lambda x: x.t().exp().contiguous() + x.t()])
def test_sizes_that_vary(function: Callable[..., Any]) -> None:
    compiled = dynamlir.compile(function, dynamic=True)
    for sides in SIDES:
        x = matrix(*sides) / 100
        torch.testing.assert_close(compiled(x), function(x))


ROWS: dict[str, Callable[[Tensor], Any]] = {
    "softmax": lambda x: x.t().softmax(-1),
    "log_softmax": lambda x: x.t().log_softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x.t(), (x.shape[0],)),
    "layer_norm in place of rows": lambda x: F.layer_norm(x.t(), (x.shape[0],)).t().contiguous(),
    "normalize": lambda x: F.normalize(x.t(), dim=-1),
    "var": lambda x: x.t().var(-1),
    "index": lambda x: (x.t().argmax(-1), x.t().min(-1)),
    "two operands": lambda x: (x.t() * 0.5 + x.flip(0).t()).softmax(-1),
    "scan": lambda x: x.t().cumsum(-1).softmax(-1),
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize(("sides", "dtype"), [((256, 200), torch.float32), ((190, 203), torch.float64)])
def test_kernels_over_rows(name: str, sides: tuple[int, int], dtype: torch.dtype) -> None:
    """Large enough for blocks of rows, which are copied together, and with partial blocks."""
    check(ROWS[name], torch.randn(sides, generator=torch.Generator().manual_seed(5)).to(dtype), calls=1)


def test_batches_of_matrices() -> None:
    x = torch.randn(3, 130, 90, generator=torch.Generator().manual_seed(6))
    check(lambda x: (x.transpose(1, 2).softmax(-1), F.layer_norm(x.transpose(1, 2), (130,))), x, calls=1)
    check(lambda x: x.to(torch.bfloat16).transpose(1, 2).softmax(-1), x, calls=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("dim", [2, 3, (2, 3)])
def test_images_reduced_to_what_lies_across(dtype: torch.dtype, dim: Any) -> None:
    """Channels are adjacent in the input, but not in the output."""
    x = matrix(3 * 20, 9 * 33, dtype).reshape(3, 20, 9, 33).contiguous(memory_format=torch.channels_last)

    def reduced(x: Tensor) -> tuple[Tensor, ...]:
        one = dim if isinstance(dim, int) else 3
        return x.sum(dim), x.amax(dim), x.to(torch.int64).max(one), (x > 0).any(one), x.argmax(one), x.amin(dim) + 1

    if dtype is torch.bool:
        check(lambda x: (x.sum(dim), x.any(2), x.all(3)), x, calls=1)
    else:
        check(reduced, x, calls=1)
