"""Comparison of results that are trees of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils import _pytree as pytree


def same(ours: Any, theirs: Any) -> None:
    """Checks for the same tree with close tensors, which require a gradient alike."""
    (left, left_spec), (right, right_spec) = pytree.tree_flatten(ours), pytree.tree_flatten(theirs)
    assert left_spec == right_spec
    for one, other in zip(left, right):
        assert one.requires_grad == other.requires_grad
        torch.testing.assert_close(one, other)
