"""Checks that a compiled model's results are eager's."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree

TOLERANCE = 1e-3
"""Largest accepted error relative to the output's largest element: float32 through a whole model."""


def tensors_of(output: Any) -> list[torch.Tensor]:
    """Returns all tensors of a model's output, in order."""
    return [leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]


def worst_error(found: Any, wanted: Any) -> float:
    """Returns the largest difference relative to the largest element of each tensor.

    Infinite if number, shapes or types of the tensors differ, or if one side has a NaN or an infinity that the other
    does not have.
    """
    pairs = list(zip(tensors_of(found), tensors_of(wanted)))
    if len(tensors_of(found)) != len(tensors_of(wanted)):
        return float("inf")
    return max((_error(a, b) for a, b in pairs), default=0.0)


def _error(found: torch.Tensor, wanted: torch.Tensor) -> float:
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return float("inf")
    a, b = (side.detach().to(torch.float64).flatten() for side in (found, wanted))
    odd = ~(a.isfinite() & b.isfinite())
    if bool((odd & (a != b) & ~(a.isnan() & b.isnan())).any()):
        return float("inf")
    a, b = a[~odd], b[~odd]
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-12)) if a.numel() else 0.0
