"""Results that would be views but have no valid strides: they are copied, once, to memory of their own."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import pytest
import torch
from harness import check
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor], object]] = {
    "repeat": lambda x: x.repeat(1, 2),
    "repeat rows": lambda x: x.repeat(3, 2),
    "repeat interleave": lambda x: x.repeat_interleave(2, dim=0),
    "flattened": lambda x: x.t().reshape(-1),
    "transposed": lambda x: x.repeat(1, 2).t(),
    "two shapes": lambda x: (lambda y: (y.reshape(-1), y.reshape(x.shape[0], -1)))(x[:, None].expand(-1, 2, -1)),
    "twice": lambda x: (lambda y: (y, y.t(), y + 1))(x.repeat(2, 2)),
    "a part": lambda x: x.t().reshape(-1)[1:],
    "of a result": lambda x: (lambda y: (y, y.repeat(1, 2)))(x + 1),
    "empty": lambda x: x[:, :0].repeat(2, 2),
}


def written(x: Tensor) -> tuple[Tensor, Tensor]:
    """The argument is written after it is copied."""
    y = x.repeat(1, 2)
    x.mul_(2)
    return y, x.t().reshape(-1)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results(name: str) -> None:
    check(FUNCTIONS[name], torch.randn(3, 4), calls=2, dispatch=False)


def test_argument_is_written() -> None:
    check(written, torch.randn(3, 4), calls=2, dispatch=False)


def test_one_copy() -> None:
    with torch.no_grad():
        dynamlir.compile(lambda x: x.repeat(1, 2))(torch.randn(3, 4))
    compiled = dynamlir.last_compile()
    assert compiled is not None
    assert compiled.kernels == 1
