"""Hooks for saved tensors (`torch.autograd.graph.saved_tensors_hooks`) set by captured functions themselves.

In eager, an operation calls them, so that their effects are visible before the next line; a graph would call them at
its end. Torch's own hooks, such as those of `save_on_cpu`, have no effects visible to a program. They are recognized by
their code, because a function that sets them creates new ones in each call.
"""

from __future__ import annotations

import types
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

_NOTED: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def note(pack: Any) -> None:
    """Records that a captured function sets this hook."""
    code = _code(pack)
    if code is not None and not str(getattr(pack, "__module__", "")).startswith("torch."):
        _NOTED.add(code)


def are_of_a_frame() -> bool:
    """Returns true if the hooks that are set now were set by a captured function."""
    hooks = torch._C._autograd._top_saved_tensors_default_hooks(True)
    return hooks is not None and _code(hooks[0]) in _NOTED


def saves(objects: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Returns true if autograd may save something from an operation on these arguments."""
    if not torch.is_grad_enabled():
        return False
    return any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in pytree.tree_leaves((objects, kwargs)))


def _code(hook: Any) -> types.CodeType | None:
    """Returns the code of a hook; None if it is written in C."""
    function = getattr(hook, "__func__", hook)
    if not isinstance(function, types.FunctionType):
        function = type(hook).__dict__.get("__call__")
    return function.__code__ if isinstance(function, types.FunctionType) else None
