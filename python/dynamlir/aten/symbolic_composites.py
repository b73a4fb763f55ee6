"""Torch's composite functions that convert sizes to numbers in C++, reimplemented for dynamic sizes.

Each calls the operators that the C++ function calls. Uncommon forms are left to torch, which takes the sizes of this
call, under guards.
"""

from __future__ import annotations

import inspect
import operator as _operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch._ops import OpOverload

from .. import modes
from . import iteration

aten = torch.ops.aten

_UPSAMPLING: dict[tuple[str, int], tuple[Any, bool]] = {
    ("nearest", 1): (aten.upsample_nearest1d.default, False),
    ("nearest", 2): (aten.upsample_nearest2d.default, False),
    ("nearest", 3): (aten.upsample_nearest3d.default, False),
    ("nearest-exact", 1): (aten._upsample_nearest_exact1d.default, False),
    ("nearest-exact", 2): (aten._upsample_nearest_exact2d.default, False),
    ("nearest-exact", 3): (aten._upsample_nearest_exact3d.default, False),
    ("linear", 1): (aten.upsample_linear1d.default, True),
    ("bilinear", 2): (aten.upsample_bilinear2d.default, True),
    ("bicubic", 2): (aten.upsample_bicubic2d.default, True),
    ("trilinear", 3): (aten.upsample_trilinear3d.default, True),
}
"""For each mode of `interpolate` and number of dimensions, the operator, and whether it can align corners."""


def call(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls one of torch's functions, or its reimplementation for dynamic sizes."""
    known = _FUNCTIONS.get(id(target))
    if known is not None and modes.vary((*args, *kwargs.values())):
        result = known(*args, **kwargs)
        if result is not NotImplemented:
            return result
    return target(*args, **kwargs)


def operator(func: OpOverload, /, *args: Any, **kwargs: Any) -> Any:
    """Calls an operator on fakes with dynamic sizes.

    The routine that computes a convolution depends on the batch, but with row-major operands every routine gives a
    row-major result. So the current batch is used for this query, and nothing is assumed about it.
    """
    if func is aten.convolution.default:
        x, weight = args[:2]
        batch = x.shape[0]
        if isinstance(batch, torch.SymInt) and x.is_contiguous() and weight.is_contiguous():
            result = func(x.new_empty((iteration.now(batch), *x.shape[1:])), *args[1:], **kwargs)
            return result.new_empty((batch, *result.shape[1:]))
    return func(*args, **kwargs)


def _interpolate(*args: Any, **kwargs: Any) -> Any:
    given = inspect.signature(F.interpolate).bind(*args, **kwargs)
    given.apply_defaults()
    x, size, scale, mode = (given.arguments[name] for name in ("input", "size", "scale_factor", "mode"))
    align, *others = (given.arguments[name] for name in ("align_corners", "recompute_scale_factor", "antialias"))
    rank = x.dim() - 2
    operator, aligns = _UPSAMPLING.get((mode, rank), (None, False))
    if operator is None or any(others) or (size is None) == (scale is None) or (align is not None and not aligns):
        return NotImplemented
    sizes, scales = _each(size, rank), [None if by is None else float(by) for by in _each(scale, rank)]
    if len(sizes) != rank or len(scales) != rank:
        return NotImplemented
    if size is None:
        sizes = [torch.sym_int(torch.sym_float(whole) * by) for whole, by in zip(x.shape[2:], scales)]
    return operator(x, sizes, *([bool(align)] if aligns else []), *scales)


def _max_pool1d(
    x: torch.Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    if return_indices or x.dim() not in (2, 3):
        return NotImplemented
    stride = kernel_size if stride is None or stride == [] else stride
    windows = [
        [before, *_each(given, 1)] for before, given in zip((1, 1, 0, 1), (kernel_size, stride, padding, dilation))
    ]
    largest, places = aten.max_pool2d_with_indices.default(x.unsqueeze(-2), *windows, ceil_mode)
    squeezed, _ = largest.squeeze(-2), places.squeeze(-2)  # as in C++: a recording has both
    return squeezed


def _tensor(data: Any, *, dtype: torch.dtype | None = None, device: Any = None, **others: Any) -> Any:
    if others:
        return NotImplemented
    if isinstance(data, torch.SymInt):
        return _number(data, dtype, device)
    if isinstance(data, (list, tuple)) and all(type(item) is int or isinstance(item, torch.SymInt) for item in data):
        return torch.stack([_number(item, dtype, device) for item in data])
    return NotImplemented


def _number(value: Any, dtype: torch.dtype | None, device: Any) -> torch.Tensor:
    options = {} if device is None else {"device": device}
    return aten.full.default([], value, dtype=dtype or torch.int64, **options)


def _getitem(x: Any, index: Any) -> Any:
    """Indexes with unbacked positions, for which torch would need the numbers."""
    indices = index if type(index) is tuple else (index,)
    if not isinstance(x, torch.Tensor) or x.dim() < len(indices) or not any(map(_is_unbacked, indices)):
        return NotImplemented
    if not all(type(at) in (int, slice) or isinstance(at, torch.SymInt) for at in indices):
        return NotImplemented
    dim = 0
    for at in indices:
        if not isinstance(at, slice):
            x = torch.select(x, dim, at)
            continue
        if at != slice(None):
            x = x[(slice(None),) * dim + (at,)]
        dim += 1
    return x


def _is_unbacked(value: Any) -> bool:
    node: Any = value.node if isinstance(value, torch.SymInt) else None
    return node is not None and node.is_unbacked()


def _each(given: Any, count: int) -> Sequence[Any]:
    return given if isinstance(given, (list, tuple)) else [given] * count


_FUNCTIONS: dict[int, Callable[..., Any]] = {
    id(F.interpolate): _interpolate,
    id(torch.max_pool1d): _max_pool1d,
    id(F.max_pool1d): _max_pool1d,
    id(torch.tensor): _tensor,
    id(_operator.getitem): _getitem,
}
