"""Square roots are rounded as IEEE arithmetic requires, bit by bit, regardless of how they are computed."""

from __future__ import annotations

import math

import dynamlir
import pytest
import torch
from torch import Tensor

WORDS = {torch.float32: torch.int32, torch.float64: torch.int64}


def roots(dtype: torch.dtype) -> dict[str, Tensor]:
    """Enough numbers to be computed in vectors."""
    generator = torch.Generator().manual_seed(5)
    word = WORDS[dtype]
    limits, one = torch.iinfo(word), torch.ones(1, dtype=dtype).view(word)
    squares = torch.arange(1 << 16, dtype=torch.float64)
    beside = [torch.nextafter((squares**2).to(dtype), torch.tensor(to, dtype=dtype)) for to in (0.0, math.inf)]
    special = [0.0, -0.0, 1.0, 4.0, math.inf, -math.inf, math.nan, -1.0, 1e-38, 1e-45, 5e-324, 1e-300, 3e38, 1.7e308]
    rare = torch.full((4096, 16), 2.0, dtype=dtype)
    rare[: len(special), 3] = torch.tensor(special, dtype=torch.float64).to(dtype)
    return {
        "all magnitudes": torch.randint(limits.min, limits.max, (1 << 16,), dtype=word, generator=generator).view(
            dtype
        ),
        "mantissas": (one + torch.arange(1 << 16, dtype=word) * 257).view(dtype),
        "squares": (squares**2).to(dtype),
        "below squares": beside[0],
        "above squares": beside[1],
        "rare": rare.flatten(),
    }


@pytest.mark.parametrize("dtype", WORDS, ids=str)
def test_roots_are_rounded_once(dtype: torch.dtype) -> None:
    compiled = dynamlir.compile(torch.sqrt)
    for name, x in roots(dtype).items():
        wanted = torch.tensor([exact(number) for number in x.tolist()], dtype=torch.float64).to(dtype)
        found = compiled(x)
        same = (found.view(WORDS[dtype]) == wanted.view(WORDS[dtype])) | (found.isnan() & wanted.isnan())
        assert same.all(), (name, x[~same][:3])


def exact(number: float) -> float:
    """The processor's root in double. It has enough digits to be rounded to that of an ``f32``."""
    return math.sqrt(number) if number >= 0 else math.nan
