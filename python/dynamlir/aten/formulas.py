"""Branch-free versions of torch formulas that inspect values.

For tensors whose values torch cannot inspect, such as fakes, its formulas take the branch that is right for all finite
numbers. Eager usually takes another branch, and for non-finite values the two differ. Here both are computed, and the
values select.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

Formula = Callable[[Tensor, Tensor, Sequence[Any]], Tensor]
"""The gradient of an operation's first argument, from its only result, the result's tangent, and its arguments."""


def find(overload: OpOverload) -> Formula | None:
    """Returns the formula for an operator if torch's inspects values."""
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
    """Returns the numbers for each branch, or ones for the unselected one, which keep it and its gradients finite."""
    return torch.where(no_zero, x, 1.0), torch.where(no_zero, 1.0, x)


def _without_each(x: Tensor, dim: int) -> Tensor:
    """Returns for each element the product of the others along a dimension."""
    if not x.numel():
        return x
    one = torch.ones_like(x.narrow(dim, 0, 1))
    before = torch.cat([one, x.narrow(dim, 0, x.shape[dim] - 1)], dim).cumprod(dim)
    after = torch.cat([one, x.narrow(dim, 1, x.shape[dim] - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


_SOME, _LONGEST = 2, 16
"""The minimum length of a product of several elements, and the maximum for the formula that leaves out each element in
turn: for longer ones, torch's operators compute second gradients."""


def _of_each_before(result: Tensor, tangent: Tensor, arguments: Sequence[Any]) -> Tensor:
    """The gradient of cumulative products: an element's gradient comes from its own product and all later ones."""
    x, dim, *_ = arguments
    x = x.to(tangent.dtype)
    if not x.numel() or not x.dim() or x.shape[dim] < _SOME:
        return tangent.to(arguments[0].dtype, copy=True)
    is_zero = x == 0
    if not torch.is_grad_enabled():
        # Products from the first zero on are zero. The gradient of that zero itself comes from those before a second
        # one; as in torch, the product of the elements before the zero is multiplied in after the terms are summed.
        zeros = is_zero.cumsum(dim)
        before, at_first = zeros == 0, is_zero & (zeros == 1)
        quotients = _from_the_end(torch.where(before, tangent * result, 0.0), dim) / torch.where(before, x, 1.0)
        products = torch.where(before | at_first, 1.0, x).cumprod(dim)
        of_first = torch.where(zeros == 1, tangent * products, 0.0).sum(dim, keepdim=True)
        of_first = of_first * torch.where(before, x, 1.0).cumprod(dim).narrow(dim, x.shape[dim] - 1, 1)
        return torch.where(before, quotients, torch.where(at_first, of_first, 0.0)).to(arguments[0].dtype)
    if x.shape[dim] > _LONGEST:
        raise NotImplementedError(f"each of {x.shape[dim]} elements has a product of its own")
    no_zero = is_zero.sum() == 0
    divisors, factors = _apart(x, no_zero)
    quotients = _from_the_end(tangent * result, dim) / divisors
    return torch.where(no_zero, quotients, _without_one(factors, tangent, dim)).to(arguments[0].dtype)


def _from_the_end(x: Tensor, dim: int) -> Tensor:
    """Returns for each element the sum of it and all later ones."""
    return x.flip(dim).cumsum(dim).flip(dim)


def _without_one(x: Tensor, tangent: Tensor, dim: int) -> Tensor:
    """Returns for each element the sum, over products containing it, of the product without it times its tangent."""
    size = x.shape[dim]
    found = []
    for at in range(size):
        before = x.narrow(dim, 0, at).prod(dim, keepdim=True)
        rest = torch.cat([before, x.narrow(dim, at + 1, size - at - 1)], dim).cumprod(dim)
        found.append((rest * tangent.narrow(dim, at, size - at)).sum(dim, keepdim=True))
    return torch.cat(found, dim)


_FORMULAS: dict[OpOverload, Formula] = {
    torch.ops.aten.prod.default: _of_all,
    torch.ops.aten.prod.dim_int: _along,
    torch.ops.aten.cumprod.default: _of_each_before,
}
