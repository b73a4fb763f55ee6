"""The result layout of eager's pointwise kernels for dynamic sizes: a reimplementation of torch's ``TensorIterator``.

For static sizes the kernel itself is queried. For dynamic sizes its comparisons are done here, so that the answers are
guarded, and the strides of the result are expressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Sizes = Sequence[Any]


def now(tree: Any) -> Any:
    """Returns the same tree with dynamic sizes replaced by their values at this call, without guards."""
    if isinstance(tree, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        node: Any = tree.node
        return node.now()
    if isinstance(tree, dict):
        return {key: now(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [now(value) for value in tree]
    return tuple(map(now, tree)) if isinstance(tree, tuple) else tree


def settle(tensors: Sequence[torch.Tensor]) -> None:
    """Specialises the sizes and strides of tensors to their values at this call."""
    for tensor in tensors:
        for number in (*tensor.shape, *tensor.stride()):
            int(number)


def strides(operands: Sequence[torch.Tensor], shape: Sizes, beside_number: bool = False) -> tuple[Any, ...]:
    """Returns the strides of a new result of this shape. A number beside a tensor is an operand without dimensions."""
    if not beside_number and all(tuple(operand.shape) == tuple(shape) for operand in operands):
        known = _at_once(operands, shape)
        if known is not None:
            return known
    seen = [_broadcast(operand, shape) for operand in operands]
    order = _order(seen, shape)
    made: list[Any] = [0] * len(shape)
    # Row-major results are created as such; their strides count each dimension as at least one element.
    row_major = order == list(reversed(range(len(shape))))
    step: Any = 1
    for d in order:
        made[d] = step
        step = step * (torch.sym_max(shape[d], 1) if row_major else shape[d])
    return tuple(made)


def _at_once(operands: Sequence[torch.Tensor], shape: Sizes) -> tuple[Any, ...] | None:
    """If all operands have the same layout, the kernel does not look for an order."""
    if all(operand.is_contiguous() for operand in operands):
        return _laid_out(shape, list(reversed(range(len(shape)))))
    if len(shape) == 4 and all(operand.is_contiguous(memory_format=torch.channels_last) for operand in operands):
        return _laid_out(shape, [1, 3, 2, 0])
    first, *others = operands
    dense = all(torch.ops.aten.is_non_overlapping_and_dense.default(operand) for operand in operands)
    return first.stride() if dense and all(other.stride() == first.stride() for other in others) else None


def _laid_out(shape: Sizes, order: Sequence[int]) -> tuple[Any, ...]:
    made: list[Any] = [0] * len(shape)
    step: Any = 1
    for d in order:
        made[d] = step
        step = step * torch.sym_max(shape[d], 1)
    return tuple(made)


def _broadcast(operand: torch.Tensor, shape: Sizes) -> list[Any]:
    """Returns an operand's strides in the dimensions of the result: 0 where it is expanded."""
    missing = len(shape) - operand.dim()
    own = zip(operand.shape, operand.stride(), shape[missing:])
    return [0] * missing + [0 if size == 1 and whole != 1 else stride for size, stride, whole in own]


def _order(seen: Sequence[Sequence[Any]], shape: Sizes) -> list[int]:
    """Returns the dimensions, innermost first. This is an insertion sort, because comparisons may be undecided."""
    order = list(reversed(range(len(shape))))
    for start in range(1, len(order)):
        at = start
        for before in reversed(range(start)):
            answer = _compare(seen, shape, order[before], order[at])
            if answer > 0:
                order[before], order[at] = order[at], order[before]
                at = before
            elif answer < 0:
                break
    return order


def _compare(seen: Sequence[Sequence[Any]], shape: Sizes, left: int, right: int) -> int:
    """Returns 1 if a dimension comes after another, -1 if before; the first operand that decides wins."""
    for steps in seen:
        if steps[left] == 0 or steps[right] == 0:
            continue
        if steps[left] < steps[right]:
            return -1
        if steps[left] > steps[right] or shape[left] > shape[right]:
            return 1
    return 0
