"""Calls with their gradients, for comparing: forward, then backward from fixed random tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from harness import Outcome, run
from torch.utils import _pytree as pytree


def run_with_gradients(
    fn: Callable[..., Any], args: Any, kwargs: dict[str, Any], extra: Sequence[torch.Tensor] = (), order: int = 1
) -> Outcome:
    """As `harness.run`, with the gradients of all leaves beside the result: `extra` are tensors that ``fn`` holds.

    With ``order`` 2 those of the gradients come after them, and so on, as far as they have some.

    Gradients are compared as values: how they lie in memory is nobody's promise but that of ``Tensor.grad``.
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
            tangents = [tangent(result, seed) for seed, result in enumerate(results)]
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
    """None for the zeros, or what rounding leaves of them, that some formulas of torch give as second derivatives."""
    if gradient is None or (order > 1 and _is_nothing(gradient)):
        return None
    return _row_major(gradient)


def _is_nothing(gradient: torch.Tensor) -> bool:
    return not (gradient.detach().abs() > 1e3 * torch.finfo(gradient.dtype).eps).any()


def _row_major(gradient: torch.Tensor) -> torch.Tensor:
    if gradient.layout is not torch.strided:
        return gradient.detach()
    return torch.empty(gradient.shape, dtype=gradient.dtype).copy_(gradient.detach())


def tangent(result: torch.Tensor, seed: int) -> torch.Tensor:
    """A random tensor like a result, the same for the same seed."""
    generator = torch.Generator().manual_seed(1000 + seed)
    dtype = torch.complex128 if result.dtype.is_complex else torch.float64
    return torch.randn(result.shape, generator=generator, dtype=dtype).to(result.dtype)


def _is_differentiable(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.requires_grad
