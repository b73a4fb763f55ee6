"""Operations on 16-bit floats that need no rounding: every bit pattern gives the same result as in eager."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
from torch import Tensor

CHAINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "abs": lambda x, y: x.abs(),
    "neg": lambda x, y: -x,
    "copysign": torch.copysign,
    "relu": lambda x, y: torch.relu(x),
    "clamp": lambda x, y: x.clamp(-2, 3),
    "clamp to what is rounded": lambda x, y: x.clamp(-0.1, 0.3),
    "maximum": torch.maximum,
    "whole numbers": lambda x, y: x.floor() + y.ceil().trunc() - x.round(),
    "sign": lambda x, y: torch.sign(x),
    "of a comparison": lambda x, y: (x > y).to(x.dtype),
    "selected": lambda x, y: torch.where(x > y, -x, y.abs()),
    "leaky": lambda x, y: torch.where(x > 0, x, x * 0.3),
}


def bits(x: Tensor) -> Tensor:
    """The bits of each number; all NaNs have the same pattern."""
    return torch.where(x.isnan(), torch.full_like(x, torch.nan), x).view(torch.int16)


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_all_patterns(name: str, dtype: torch.dtype) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    y = x[torch.randperm(2**16, generator=torch.Generator().manual_seed(0))]
    expected, got = CHAINS[name](x, y), dynamlir.compile(CHAINS[name], fullgraph=True)(x, y)
    # For two zeros, either may be the maximum.
    same = (bits(expected) == bits(got)) | ((expected == 0) & (got == 0) & (name in ("relu", "clamp", "maximum")))
    assert same.all(), (x[~same], y[~same], expected[~same], got[~same])
