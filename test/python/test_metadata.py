"""Strides and version counters that the fakes a graph is recorded on do not get right by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from harness import check
from torch import Tensor

F = torch.nn.functional

# Eager's composites write into fresh memory where Python's factories, and the paths that fakes take, show no write.
VERSIONS: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "max_pool1d squeezes an image without batch": (lambda x: F.max_pool1d(x, 2), torch.randn(3, 4)),
    "max_pool1d of a batch": (lambda x: F.max_pool1d(x, 2), torch.randn(2, 3, 4)),
    "max_pool1d, then a write": (lambda x: F.max_pool1d(x, 2).mul_(2), torch.randn(3, 4)),
    "norm of nothing": (lambda x: torch.linalg.norm(x, 1), torch.randn(5, 0)),
    "integral of nothing": (torch.trapezoid, torch.randn(0, 0)),
    "one_hot": (lambda x: F.one_hot(x, 3), torch.tensor([0, 2])),
    "one_hot of nothing": (lambda x: F.one_hot(x, 3), torch.zeros(0, dtype=torch.long)),
    "factories of Python": (lambda x: (torch.zeros(3), torch.arange(4), torch.ones(2).add_(1), x + 1), torch.randn(2)),
    "factories of the dispatcher": (
        lambda x: (torch.ops.aten.zeros([3]), torch.ops.aten.empty([0]), x + 1),
        torch.randn(2),
    ),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_version(name: str) -> None:
    fn, x = VERSIONS[name]
    check(fn, x, expect="compiled")


# Where one element, or none, leaves the stride of a dimension open.
STRIDES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "product of nothing": (torch.mul, (torch.randn(0, 1), torch.randn(1))),
    "maximum of nothing": (torch.maximum, (torch.randn(0, 1), torch.randn(1, 1))),
    "choice of nothing": (lambda x, y: torch.where(x > y, x, y), (torch.randn(0, 1), torch.tensor(1.0))),
    "rms_norm of nothing": (lambda x, w: F.rms_norm(x, (1,), w), (torch.randn(0, 1), torch.randn(1))),
    "view of one matrix": (lambda x: x.permute(1, 0, 2).view(1, 3, 4), (torch.randn(3, 1, 4),)),
    "einsum over one batch": (
        lambda x, y: torch.einsum("aij,jk->aik", x, y),
        (torch.randn(1, 3, 4), torch.randn(4, 5)),
    ),
    "chosen sign": (torch.copysign, (torch.randn(4, 2, 3).permute(2, 0, 1), torch.randn(4, 1))),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name: str) -> None:
    fn, operands = STRIDES[name]
    check(fn, *operands, expect="compiled")


# The second stands for all steps of a decoder: (batch, 1, heads) and the like, out of a transposed tensor.
ODD_LAYOUTS = {
    "row of a transposed matrix": ((3, 1), (1, 4)),
    "one step of a sequence": ((4, 1, 6), (6, 24, 1)),
    "one column, permuted": ((3, 4, 1), (4, 1, 12)),
    "one channel last": ((2, 1, 3, 3), (9, 1, 3, 1)),
    "expanded": ((2, 1, 3, 2), (1, 0, 4, 2)),
    "sizes of one, in front": ((1, 1, 2), (1, 2, 1)),
    "nothing, by columns": ((0, 1), (1, 3)),
    "nothing inside": ((1, 0, 3), (0, 3, 1)),
}


@pytest.mark.parametrize("name", ODD_LAYOUTS)
def test_strides_of_dimensions_of_one(name: str) -> None:
    """Eager leaves them as its loops compute them, each operation in its way."""

    def many(x: Tensor, y: Tensor) -> list[Tensor]:
        unary = [x.neg(), x.relu(), F.gelu(x), F.silu(x), x.clone(), x.double(), x.clamp(-1, 1), x.exp().log1p()]
        scalar = [x - 1, 2 * x, x / 3, x > 0, x.pow(2), x.masked_fill(x > 0, 1.0)]
        binary = [x + y, x * x, torch.maximum(x, y), torch.where(x > y, x, y), torch.lerp(x, y, 0.5), x.addcmul(y, y)]
        like = [torch.zeros_like(x), x.flip(0), x.sort(0)[0], x.tril(), x.roll(1, 0)]
        return [*unary, *scalar, *binary, *like]

    sizes, strides = ODD_LAYOUTS[name]
    memory = torch.randn(64)
    check(many, memory.as_strided(sizes, strides), memory[:1].expand(sizes[-1:]), expect="compiled")
