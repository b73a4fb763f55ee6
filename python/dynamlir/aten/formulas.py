"""Formulas of torch's that look at values, written without looking.

Of what torch cannot look at, such as fakes, its formulas take the branch that is right for all finite numbers. Eager
takes another one for most of them, and where numbers are none the two differ. Here both are computed, and the values
choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

Formula = Callable[[Tensor, Tensor, Sequence[Any]], Tensor]
"""The gradient of an operation's first argument, from its only result, the tangent of that, and its arguments."""


def find(overload: OpOverload) -> Formula | None:
    """The formula for an operator, where torch's looks at values."""
    return _FORMULAS.get(overload)


def _of_all(result: Tensor, tangent: Tensor, arguments: Sequence[Any]) -> Tensor:
    x = arguments[0].to(tangent.dtype)
    if not x.dim():
        return tangent.to(arguments[0].dtype, copy=True)
    zeros = (x == 0).sum()
    divisors, factors = _apart(x, zeros == 0)
    products = tangent * _without_each(factors.reshape(-1), 0).reshape(x.shape)
    if not torch.is_grad_enabled():
        products = torch.where(zeros > 1, 0.0, products)
    return torch.where(zeros == 0, tangent * (result / divisors), products).to(arguments[0].dtype)


def _along(result: Tensor, tangent: Tensor, arguments: Sequence[Any]) -> Tensor:
    x, dim, *rest = arguments
    x = x.to(tangent.dtype)
    if not x.dim():
        return tangent.to(arguments[0].dtype, copy=True)
    if not (rest and rest[0]):
        result, tangent = result.unsqueeze(dim), tangent.unsqueeze(dim)
    no_zero = (x == 0).sum() == 0
    divisors, factors = _apart(x, no_zero)
    found = torch.where(no_zero, tangent * (result / divisors), tangent * _without_each(factors, dim))
    return found.to(arguments[0].dtype)


def _apart(x: Tensor, no_zero: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers for either branch, and ones for the other: what is not chosen is finite, and so are its gradients."""
    return torch.where(no_zero, x, 1.0), torch.where(no_zero, 1.0, x)


def _without_each(x: Tensor, dim: int) -> Tensor:
    """For each element the product of the others along a dimension."""
    if not x.numel():
        return x
    one = torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cat([one, x.narrow(dim, 0, x.shape[dim] - 1)], dim).cumprod(dim)
    after = torch.cat([one, x.narrow(dim, 1, x.shape[dim] - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


_FORMULAS: dict[OpOverload, Formula] = {
    torch.ops.aten.prod.default: _of_all,
    torch.ops.aten.prod.dim_int: _along,
}
