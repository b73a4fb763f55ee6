"""Scans and reductions of operands in all layouts, which decide the order of the loops: results are eager's."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
from torch import Tensor

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]


def scans(x: Tensor) -> list[Tensor]:
    return [function(x, dim) for dim in range(x.dim()) for function in (torch.cumsum, torch.cumprod)]


def reductions(x: Tensor) -> list[object]:
    """Reductions that are a kernel each, some with several results."""
    made: list[object] = []
    for dim in range(x.dim()):
        made += [x.sum(dim), (x + 1).max(dim), (x * 2).argmin(dim), x - x.amin(dim, keepdim=True)]
    return made


def operands(dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(3)

    def numbers(*sizes: int) -> Tensor:
        return torch.randint(-3, 4, sizes, generator=generator).to(dtype)

    return {
        "rows": numbers(19, 35),
        "transposed": numbers(35, 19).t(),
        "sliced": numbers(19, 70)[:, ::2],
        "channels last": numbers(2, 18, 5, 7).contiguous(memory_format=torch.channels_last),
        "permuted": numbers(4, 17, 3, 20).permute(2, 1, 3, 0),
        "repeated rows": numbers(1, 35).expand(19, 35),
        "repeated columns": numbers(19, 1).expand(19, 35),
        "repeated blocks": numbers(3, 1, 18).expand(3, 16, 18),
        "repeated a few times": numbers(19, 1).expand(19, 3),
    }


@pytest.mark.parametrize("kind", operands(torch.float32))
def test_scans(kind: str) -> None:
    for dtype in DTYPES:
        x = operands(dtype)[kind]
        found, wanted = dynamlir.compile(scans)(x), scans(x)
        torch.testing.assert_close(found, wanted)
        assert [result.stride() for result in found] == [result.stride() for result in wanted]


@pytest.mark.parametrize("kind", operands(torch.float32))
def test_reductions(kind: str) -> None:
    x = operands(torch.float32)[kind]
    torch.testing.assert_close(dynamlir.compile(reductions)(x), reductions(x))


def test_scans_whose_elements_are_converted() -> None:
    """The stored type of a scan's elements is decided in its loop; the types of later computations are not."""
    functions: list[Callable[[Tensor], object]] = [
        lambda x: x.cumsum(1).to(torch.bfloat16),
        lambda x: x.double().cumsum(0).float().exp(),
        lambda x: (x.double().cumsum(1), x.double().cumsum(1).float()),
        lambda x: (x.cumsum(1) + 1).cumprod(0).to(torch.int32),
    ]
    for x in (torch.rand(9, 21), torch.rand(21, 9).t()):
        for function in functions:
            torch.testing.assert_close(dynamlir.compile(function)(x), function(x))
