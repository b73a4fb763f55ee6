"""Kernels over rows and columns with gaps read nothing beyond the last element of their memory; booleans between loops
keep their values.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from harness import check
from torch import Tensor
from torch.nn import functional as F

FUNCTIONS: dict[str, Callable[[Tensor], object]] = {
    "softmax": lambda x: (x.softmax(-1), x.log_softmax(-2)),
    "layer norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "variance": lambda x: (x.var(-1), x.var(-2), x.mean(-1)),
    "with others": lambda x: (x * x.flip(-1)).softmax(-1) + x.amax(-2, keepdim=True),
    "truths": lambda x: ((x > 1).any(-2), (x > -1).all(-2), (x > 1).any(-1, keepdim=True) & (x < 0)),
}


@pytest.mark.parametrize("step", [2, 3, 4, 7])
@pytest.mark.parametrize("columns", [5, 64, 131])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_last_element_is_last_of_memory(name: str, columns: int, step: int) -> None:
    memory = torch.randn(9 * columns * step - step + 1, generator=torch.Generator().manual_seed(columns))
    x = memory.as_strided((9, columns), (columns * step, step))
    check(FUNCTIONS[name], x, calls=1, dispatch=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_types(dtype: torch.dtype) -> None:
    x = torch.randn(33, 140, generator=torch.Generator().manual_seed(0)).to(dtype)[:, ::2]
    for function in FUNCTIONS.values():
        check(function, x, calls=1, dispatch=False)
