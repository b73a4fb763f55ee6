"""Positions in reductions of everything, which are cut into pieces of some thousand elements. A value that a body
computes from its position (the index of an extremum, `arange`, a triangle, a comparison with positions) must use the
position in the whole, not in the piece.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from both import check_both
from torch import Tensor

F = torch.nn.functional

# Below, at and above the sizes from which on reductions are cut into pieces, and some that do not divide evenly.
SIZES = (4095, 4096, 4097, 8192, 20_000, 32_768, 50_257, 100_003)


def falling(n: int) -> Tensor:
    """The largest element comes first, so that an index counted within a piece is not correct by chance."""
    x = torch.zeros(n)
    x[n - n // 5] = 1
    x[n // 3] = -1
    return x


@pytest.mark.parametrize("n", SIZES)
def test_index_of_extremum(n: int) -> None:
    check_both(lambda x: (x.argmax(), x.argmin(), x.max(0), x.view(1, -1).argmax(-1)), falling(n), calls=1)


@pytest.mark.parametrize("n", SIZES)
def test_sum_over_positions(n: int) -> None:
    def many(x: Tensor) -> Any:
        at = torch.arange(x.numel())
        return (x * at).sum(), (x.double() * at).sum(), torch.where(at > x.numel() // 2, x, 0.0).sum(), at.sum()

    check_both(many, torch.ones(n), calls=1)


SHAPES: dict[str, tuple[int, ...]] = {
    "square": (200, 201),
    "few rows": (3, 9001),
    "few columns": (9001, 3),
    "three dimensions": (9, 33, 65),
    "batch of one": (1, 150, 150),
}
BODIES: dict[str, Callable[[Tensor], Any]] = {
    "tril": lambda x: x.tril().sum(),
    "triu": lambda x: x.triu(3).sum(),
    "argmax of all": lambda x: x.cumsum(-1).argmax(),
    "rows by columns": lambda x: (x * torch.arange(x.shape[-2])[:, None] * torch.arange(x.shape[-1])).sum(),
    "transposed": lambda x: x.transpose(-1, -2).triu(1).sum(),
    "diagonal mask": lambda x: (x * torch.eye(x.shape[-2], x.shape[-1])).sum(),
    "maximum of positions": lambda x: (torch.arange(x.numel()).view(x.shape) * x.long()).amax(),
    "gathered": lambda x: x.flatten()[torch.arange(x.numel() - 1, -1, -1)].mul(torch.arange(x.numel())).sum(),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("body", BODIES)
def test_positions_along_dimensions(shape: str, body: str) -> None:
    generator = torch.Generator().manual_seed(3)
    check_both(BODIES[body], torch.randint(0, 3, SHAPES[shape], generator=generator).double(), calls=1)


def test_one_hot_inside() -> None:
    check_both(lambda x: (F.one_hot(torch.tensor(9000), 20_000) * x).sum(), torch.arange(20_000.0), calls=1)
