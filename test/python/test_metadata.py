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
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name: str) -> None:
    fn, operands = STRIDES[name]
    check(fn, *operands, expect="compiled")
