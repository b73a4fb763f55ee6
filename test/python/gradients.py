"""Calls with their gradients, for comparison: forward, then backward from fixed random tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from harness import Outcome, clone_tree, differences, run
from torch.utils import _pytree as pytree

MORE = 4.0
"""Where the two differ, the multiple of eager's own error, against the same call in f64, that ours may have."""


def run_with_gradients(
    fn: Callable[..., Any],
    args: Any,
    kwargs: dict[str, Any],
    extra: Sequence[torch.Tensor] = (),
    order: int = 1,
    rounded: torch.dtype | None = None,
) -> Outcome:
    """Like `harness.run`, with the gradients of all leaves after the result: `extra` are tensors that ``fn`` holds.

    With ``order`` 2 the gradients of the gradients follow, and so on, as far as they exist. Tangents are those of a
    call in the dtype ``rounded``, if one is given.

    Gradients are compared by value: their memory layout is unspecified, except that of ``Tensor.grad``.
    """
    outcome = run(fn, args, kwargs, extra)
    if outcome.error is not None:
        return outcome
    leaves = [tensor for tensor in outcome.inputs if tensor.requires_grad and tensor.is_leaf]
    results = [leaf for leaf in pytree.tree_leaves(outcome.result) if _is_differentiable(leaf)]
    if not leaves or not results:
        return outcome
    found: list[torch.Tensor | None] = []
    try:
        for step in range(1, order + 1):
            tangents = [tangent(result, seed, rounded) for seed, result in enumerate(results)]
            gradients = torch.autograd.grad(results, leaves, tangents, allow_unused=True, create_graph=step < order)
            found += [_comparable(gradient, step) for gradient in gradients]
            results = [gradient for gradient in gradients if gradient is not None and gradient.requires_grad]
            if not results:
                break
    except Exception as error:
        outcome.error = error
        return outcome
    found += [None] * (order * len(leaves) - len(found))
    outcome.result = (outcome.result, found)
    return outcome


def _comparable(gradient: torch.Tensor | None, order: int) -> torch.Tensor | None:
    """None for second derivatives that are zero up to rounding, which some of torch's formulas return as tensors."""
    if gradient is None or (order > 1 and _is_nothing(gradient)):
        return None
    return _row_major(gradient)


def _is_nothing(gradient: torch.Tensor) -> bool:
    return not (gradient.detach().abs() > 1e3 * torch.finfo(gradient.dtype).eps).any()


def _row_major(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is not torch.strided:
        return gradient.detach()
    return torch.empty(gradient.shape, dtype=gradient.dtype).copy_(gradient.detach())


def is_rounding(
    fn: Callable[..., Any], arguments: Any, dtype: torch.dtype, order: int, eager: Outcome, compiled: Outcome
) -> bool:
    """Returns true if two outcomes of a call in ``dtype`` differ only by rounding.

    Only the values of results may differ. Each is then compared with the call in f64.
    """
    if dtype is torch.float64 or eager.error or differences(eager, compiled, values=False):
        return False
    doubles = pytree.tree_map_only(torch.Tensor, lambda tensor: _in_double(tensor, dtype), arguments)
    exact = run_with_gradients(fn, *clone_tree(doubles), order=order, rounded=dtype)
    leaves = [pytree.tree_leaves(outcome.result) for outcome in (exact, eager, compiled)]
    if exact.error or len(leaves[0]) != len(leaves[1]):
        return False
    return all(
        # Eager's own f64 result has no error against the call in f64, so no bit could differ.
        (eagers.dtype is torch.float64 and _are_close(eagers, ours))
        # The exact gradient is None because it is nearly zero: compare with zeros.
        or _is_as_exact(torch.zeros_like(eagers) if exactly is None else exactly, eagers, ours)
        for exactly, eagers, ours in zip(*leaves)
        if isinstance(eagers, torch.Tensor)
    )


def _are_close(eager: torch.Tensor, compiled: torch.Tensor) -> bool:
    """Returns true if they agree within torch's tolerances for their dtype."""
    try:
        torch.testing.assert_close(compiled.detach(), eager.detach(), equal_nan=True)
    except AssertionError:
        return False
    return True


def _in_double(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if tensor.dtype is not dtype:
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def _is_as_exact(exact: torch.Tensor, eager: torch.Tensor, compiled: torch.Tensor) -> bool:
    """Returns true if ours is as near to the exact tensor as eager's, up to `MORE`, with infinities and NaNs in the
    same places.
    """
    if exact.shape != eager.shape or not exact.dtype.is_floating_point or exact.layout is not torch.strided:
        return torch.equal(eager, compiled)
    exact, eager, compiled = (tensor.detach().double() for tensor in (exact, eager, compiled))
    finite = eager.isfinite() & exact.isfinite()
    if not torch.equal(eager[~finite].nan_to_num(), compiled[~finite].nan_to_num()):
        return False
    own, ours = ((tensor - exact)[finite].abs() for tensor in (eager, compiled))
    return not ours.numel() or bool(ours.max() <= MORE * own.max())


def tangent(result: torch.Tensor, seed: int, rounded: torch.dtype | None = None) -> torch.Tensor:
    """A random tensor like a result, the same for the same seed, rounded to ``rounded``."""
    generator = torch.Generator().manual_seed(1000 + seed)
    dtype = torch.complex128 if result.dtype.is_complex else torch.float64
    drawn = torch.randn(result.shape, generator=generator, dtype=dtype)
    return drawn.to(rounded if rounded and not dtype.is_complex else result.dtype).to(result.dtype)


def _is_differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad
