"""Replacements for torch's higher-order functions: `torch.cond` and `torch.while_loop` between two graphs, once a
capture has seen their arguments, and the caller of a `nested_compile_region`.

Torch's own functions have TorchDynamo inspect the functions they call. The functions called here are compiled like any
other function that Python calls between graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

Branch = Callable[..., Any]


def cond(pred: torch.Tensor, true_fn: Branch, false_fn: Branch, operands: Sequence[Any] = ()) -> Any:
    """Replaces `torch.cond`."""
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn: Branch, body_fn: Branch, carried_inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """Replaces `torch.while_loop`."""
    carried = tuple(carried_inputs)
    if not cond_fn(*carried):
        return tuple(value.clone() for value in carried)
    while True:
        carried = body_fn(*carried)
        if not cond_fn(*carried):
            return carried


def nested(function: Branch, /, *args: Any, **kwargs: Any) -> Any:
    """Calls a function marked by `torch.compiler.nested_compile_region`, as a part of its caller."""
    return function(*args, **kwargs)


def facts(result: Any, operands: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """Returns the known facts about the result of a function; None unless it consists of new tensors only.

    ``inputs`` are all pre-existing tensors except its operands.
    """
    leaves, spec = pytree.tree_flatten(result)
    tensors = _tensors(leaves)
    known = _tensors([*pytree.tree_leaves(operands), *inputs])
    memory = {tensor.untyped_storage()._cdata for tensor in known}
    own = {tensor.untyped_storage()._cdata for tensor in tensors}
    if len(tensors) != len(leaves) or len(own) != len(tensors) or own & memory:
        return None
    return str(spec), _looks(tensors)


def branches_agree(pred: Any, operands: Any, first: Any, second: Any) -> bool:
    """Returns true if both branches of a `torch.cond` return tensors with the same metadata, by their `facts`.

    If gradients are on, torch makes all results require one if anything does.
    """
    leaves = pytree.tree_leaves(operands)
    given = _tensors(leaves)
    fits = isinstance(pred, torch.Tensor) and pred.dtype is torch.bool and pred.numel() == 1
    if not fits or len(given) != len(leaves) or first is None or first != second:
        return False
    trains = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)
    wants = {wants for *_, wants in first[1]}
    return len(wants) == 1 and (wants == {True} or not trains)


def loop_agrees(carried: Sequence[Any], decided: Any, result: Any) -> bool:
    """Returns true if a `torch.while_loop` decides by a tensor, and returns tensors like its inputs, by their `facts`.

    Nothing may require a gradient.
    """
    if len(_tensors(carried)) != len(carried) or decided is None or result is None:
        return False
    spec, looks = decided
    decides = spec == str(pytree.tree_structure(0)) and looks[0][:2] == (torch.bool, torch.Size())
    wanted = str(pytree.tree_structure(tuple(carried))), _looks(carried)
    return decides and result == wanted and not any(wants for *_, wants in wanted[1])


def _tensors(values: Sequence[Any]) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _looks(tensors: Sequence[torch.Tensor]) -> list[tuple[Any, ...]]:
    return [(tensor.dtype, tensor.shape, tensor.stride(), tensor.requires_grad) for tensor in tensors]
