"""Variances are computed in double, as in eager: in float32 the squares of 1e20 and of 1e-25 do not fit."""

from __future__ import annotations

import pytest
import torch
from both import check_both
from sampled import one_in_product
from torch import Tensor

SCALES = (1e20, 3e30, 1e-25, 1.0)


DTYPES, SHAPES = [torch.float32, torch.bfloat16, torch.float64], [(3,), (300, 3), (2, 5000), (7, 1, 33)]


@pytest.mark.parametrize(("dtype", "shape", "scale"), one_in_product(3, DTYPES, SHAPES, SCALES))
def test_spread(scale: float, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    def fn(x: Tensor) -> list[Tensor]:
        rows = x.std(-1), x.std(0), x.std(0, correction=0), x.var(-1, keepdim=True)
        return [x.std(), x.var(), *torch.std_mean(x), *torch.var_mean(x, 0), *rows]

    x = (torch.rand(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5) * scale
    # Another order of summation rounds differently.
    check_both(fn, x.to(dtype), calls=1, tolerance=(2e-2 if dtype is torch.bfloat16 else 2e-5, 0.0))


def test_mean_beside_infinity() -> None:
    """Eager's running mean is NaN after an infinity, unless the infinity is the last element that one thread processes.
    Either value is unspecified. Ours is the mean's; spreads agree.
    """
    for x in (torch.tensor([1.0, float("inf"), 2.0]), torch.tensor([1.0, 2.0, float("inf")])):
        eager = torch.var_mean(x, 0)[1]
        assert bool(eager.isnan()) == bool(x[-1].isfinite())
        check_both(lambda x: (x.var(), x.std(0)), x)
