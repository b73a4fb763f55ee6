"""What stands for torch's functions that are given others to call: `torch.cond` and `torch.while_loop` between two
graphs, once a capture has seen what they are given, and what a `nested_compile_region` is called by.

Torch's own functions have TorchDynamo look at what they call. What is called here is compiled as any other function is
that Python calls between graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

Branch = Callable[..., Any]


def cond(pred: torch.Tensor, true_fn: Branch, false_fn: Branch, operands: Sequence[Any] = ()) -> Any:
    """`torch.cond`"""
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn: Branch, body_fn: Branch, carried_inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """`torch.while_loop`"""
    carried = tuple(carried_inputs)
    if not cond_fn(*carried):
        return tuple(value.clone() for value in carried)
    while True:
        carried = body_fn(*carried)
        if not cond_fn(*carried):
            return carried


def nested(function: Branch, /, *args: Any, **kwargs: Any) -> Any:
    """What `torch.compiler.nested_compile_region` has marked, as a part of what calls it."""
    return function(*args, **kwargs)


def facts(result: Any, operands: Any, inputs: Sequence[torch.Tensor]) -> Any:
    """What can be told of what a function has returned; None where that is not new tensors alone.

    ``inputs`` are all tensors that there were, but for its operands.
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
    """Whether both branches of a `torch.cond` return the like tensors, by their `facts`.

    Where gradients are on, torch has all results require one if anything does.
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
    """Whether a `torch.while_loop` decides by a tensor, and returns what it is given the like of, by their `facts`.

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
