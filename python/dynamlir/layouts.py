"""Strides as eager's kernels give them, where the results of operations on fakes have others.

Fakes take shortcuts written in Python. They are right wherever strides say where an element lies. But the stride of a
dimension of one element says nothing, nor do those of a tensor without elements: eager's loops leave there what they
happen to compute, and a program sees it (``stride()`` tells). In these cases the kernel itself is asked.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten

# Kernels that compute a view answer without memory.
_VIEWS = frozenset({_aten.view.default, _aten._unsafe_view.default})

# Pointwise operations aside: results laid out like an operand.
_LIKE_OPERAND = frozenset(
    {
        _aten.flip.default, _aten.sort.default, _aten.sort.stable, _aten.roll.default, _aten.tril.default,
        _aten.triu.default, _aten.masked_fill.Scalar, _aten.masked_fill.Tensor, _aten.native_layer_norm.default,
        _aten.zeros_like.default, _aten.ones_like.default, _aten.full_like.default, _aten.empty_like.default,
        _aten.index.Tensor, _aten.clone.default, _aten._to_copy.default,
    }
)  # fmt: skip

# On fakes these forget the order of the dimensions.
_WRONG_ON_FAKES = frozenset({_aten.copysign.Tensor})

_MOST_BYTES = 1 << 26
"""Operands above are not tried, for they cost time: what the fakes say stands."""


def as_eager(func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
    """``out``, which ``func`` gave on fakes, with the strides that its kernel gives."""
    if func in _VIEWS:
        strides = _run(func, positional, keywords, "meta").stride()
        return out if strides == out.stride() else out.as_strided(out.shape, strides, out.storage_offset())
    if not _follows_operands(func):
        return out
    operands = _tensors((positional, keywords))
    results = _tensors(out)
    if any(result is operand for result in results for operand in operands):
        return out
    if not (func in _WRONG_ON_FAKES or any(map(_is_open, operands)) or any(not result.numel() for result in results)):
        return out
    if sum(operand.numel() * operand.element_size() for operand in operands) > _MOST_BYTES:
        return out
    try:
        real = _run(func, positional, keywords, "cpu")
    except Exception:  # zeros are no operand for it; the fakes have accepted the call
        return out
    leaves, spec = pytree.tree_flatten(out)
    return pytree.tree_unflatten([_restride(*pair) for pair in zip(leaves, pytree.tree_leaves(real))], spec)


def _follows_operands(func: OpOverload) -> bool:
    if torch.Tag.nondeterministic_seeded in func.tags or func.namespace != "aten":
        return False
    return torch.Tag.pointwise in func.tags or func in _LIKE_OPERAND


def _is_open(tensor: torch.Tensor) -> bool:
    """Whether a dimension of one element has another stride than it has in a tensor laid out row by row."""
    row_major = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if size == 1 and stride != row_major:
            return True
        row_major *= size
    return False


def _run(func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], device: str) -> Any:
    """What ``func`` gives on zeros laid out like its operands."""

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
        memory = torch.zeros(1 + max(reach, 0), dtype=tensor.dtype, device=device)
        return memory.as_strided(tensor.shape, tensor.stride())

    with _disable_current_modes(), torch.no_grad():
        positional, keywords = pytree.tree_map_only(torch.Tensor, twin, (positional, keywords))
        return func(*positional, **keywords)


def _restride(result: Any, real: Any) -> Any:
    if not isinstance(real, torch.Tensor) or real.stride() == result.stride() or real.shape != result.shape:
        return result
    return torch.empty_strided(result.shape, real.stride(), dtype=result.dtype, device=result.device)


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
