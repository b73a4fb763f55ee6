"""`loss.backward()` within a captured function, and the next operations of a training step.

The capture traces into `tensor_backward` and `backward` instead of torch's functions of the same names. Gradients are
computed by `torch.autograd.grad`, and stored into ``.grad`` as the program itself would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .. import fake_histories, modes
from ..reasons import Fallback


def tensor_backward(
    self: torch.Tensor, gradient: Any = None, retain_graph: Any = None, create_graph: Any = False, inputs: Any = None
) -> None:
    """`torch.Tensor.backward`."""
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: Any = None,
    create_graph: Any = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """`torch.autograd.backward`."""
    outputs = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
    tangents = (grad_tensors,) if isinstance(grad_tensors, torch.Tensor) else grad_tensors
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    differs = create_graph or torch.is_anomaly_enabled() or grad_variables is not None
    leaves = reached(outputs, inputs, differs)
    found = torch.autograd.grad(outputs, leaves, tangents, retain_graph, allow_unused=True)
    given = () if tangents is None else tuple(tangent for tangent in tangents if tangent is not None)
    with torch.no_grad():
        for leaf, new in zip(leaves, found):
            if new is None:
                continue
            if leaf.grad is None:
                leaf.grad = kept(new, leaf, given)
            else:
                leaf.grad.add_(new)


def grouped(
    nested: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[torch.device, torch.dtype], tuple[list[list[Any]], list[int]]]:
    """Replaces `torch._C._group_tensors_by_device_and_dtype`, used by gradient clipping and by optimizers."""
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[list[Any]], list[int]]] = {}
    for at, first in enumerate(nested[0]):
        key = (first.device, first.dtype)
        if key not in groups:
            groups[key] = ([[] for _ in nested], [])
        lists, indices = groups[key]
        for own, given in zip(lists, nested):
            if given:
                own.append(given[at])
        if with_indices:
            indices.append(at)
    return groups


def reached(outputs: Any, inputs: Any, differs: bool) -> list[torch.Tensor]:
    """Returns the leaves that get gradients from these outputs; the capture queries its session, see `leaves`."""
    raise NotImplementedError("outside of a capture")


def kept(new: torch.Tensor, leaf: torch.Tensor, given: Sequence[torch.Tensor]) -> torch.Tensor:
    """Returns a leaf's first gradient: with the leaf's layout, in its own memory."""
    if any(new.untyped_storage()._cdata == one.untyped_storage()._cdata for one in given):
        raise Fallback("autograd", "a gradient shows the memory of what backward was given")
    if not torch.ops.aten.is_non_overlapping_and_dense(leaf):
        return new.clone(memory_format=torch.contiguous_format)
    if all(size == 1 or one == other for size, one, other in zip(leaf.shape, leaf.stride(), new.stride())):
        return new.clone()
    return new.new_empty_strided(leaf.shape, leaf.stride()).copy_(new)


def leaves(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] | None) -> list[torch.Tensor]:
    """Returns the leaves that gradients of these fakes go to, or those among ``inputs``."""
    found: dict[int, torch.Tensor] = {}
    with modes.set_aside():  # reading the history of a view recreates it
        for output in outputs:
            if output.grad_fn is None and output.requires_grad:
                found[id(output)] = output
        for node in fake_histories.nodes(outputs):
            variable = getattr(node, "variable", None)
            if variable is not None and variable.requires_grad:
                found[id(variable)] = variable
        if inputs is None:
            return list(found.values())
        if any(not one.is_leaf or not one.requires_grad for one in inputs):
            raise Fallback("autograd", "backward to what is no leaf")
        return [one for one in dict.fromkeys(inputs) if id(one) in found]


def frees(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    **more: Any,
) -> bool:
    """Returns true if a call of `torch.autograd.grad` frees the tensors saved for backward."""
    return not (create_graph if retain_graph is None else retain_graph)


def is_used_up(fake: torch.Tensor) -> bool:
    """Returns true if torch has freed the tensors saved for a tensor's backward."""
    if not fake.requires_grad or fake.grad_fn is None:
        return False
    with modes.set_aside():
        wanted = leaves([fake], None)
        try:
            torch.autograd.grad(fake, wanted, torch.empty_like(fake), retain_graph=True, allow_unused=True)
        except RuntimeError as error:
            if "backward through the graph a second time" not in str(error):
                raise
            return True
    return False


def through(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Returns the graph inputs that gradients of these fakes go to, or through."""
    with modes.set_aside():
        each = [layer for output in outputs for layer in fake_histories.layers(output)]
        met = set(fake_histories.nodes(each))
        leaves = {id(node.variable) for node in met if getattr(node, "variable", None) is not None}
        leaves |= {id(output) for output in each if output.grad_fn is None}
        return [
            one for one in inputs if one.requires_grad and (one.grad_fn in met if one.grad_fn else id(one) in leaves)
        ]


def asked(
    outputs: Any, inputs: Any, *args: Any, is_grads_batched: bool = False, **more: Any
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Returns the tensors that `torch.autograd.grad` differentiates, and those it differentiates with respect to."""

    def tensors(given: Any) -> list[torch.Tensor]:
        return [one for one in pytree.tree_leaves(given) if isinstance(one, torch.Tensor)]

    return tensors(outputs), tensors(inputs)


def use_up(result: torch.Tensor, reached: Sequence[torch.Tensor] = ()) -> None:
    """Gives a tensor a history that leads to the ``reached`` tensors and that torch considers used up by backward."""
    leaf = torch.empty(0, requires_grad=True)
    with torch.enable_grad():
        _UsedUp.apply([result], leaf, *reached)
        torch.autograd.grad(result, leaf, result.detach())


class _UsedUp(torch.autograd.Function):
    """Gives a tensor a history as if it were computed from others."""

    @staticmethod
    def forward(ctx: Any, results: list[torch.Tensor], leaf: torch.Tensor, *reached: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(leaf)
        return results[0]

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor) -> Any:
        return None, *ctx.saved_tensors, *[None] * (len(ctx.needs_input_grad) - 2)
