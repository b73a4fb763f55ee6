"""Operations that write memory which they also read: eager raises, or the order of its loops shows in the result.

``x[1:].add_(x[:-1])`` raises; ``x[2::2].add_(x[:-2:2])`` is too hard for eager's check and reads what it has just
written; ``torch.sum(x, 0, out=x)`` clears the result before it reads. A variant that returns new values does none of
this, so such calls are left to eager. In elementwise operations, writing exactly where one reads is fine.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import _disable_current_modes

from .aten import schema
from .reasons import Fallback

_LARGEST_MAP = 1 << 26
"""The maximum number of bytes that two windows may span together for an exact answer."""


def check(func: OpOverload, tensors: Sequence[torch.Tensor], written: Sequence[torch.Tensor]) -> None:
    """Raises `Fallback` if the result depends on how operands overlap. ``written`` are among ``tensors``."""
    if len(tensors) < 2:
        return
    pointwise = schema.info(func).pointwise
    others = list(tensors)
    for target in written:
        del others[next(at for at, other in enumerate(others) if other is target)]
    for number, target in enumerate(written):
        storage = target.untyped_storage()._cdata
        for other in (*others, *written[number + 1 :]):
            if other.untyped_storage()._cdata != storage:
                continue
            same = _same_window(target, other)
            if same and pointwise and len(written) == 1:
                continue
            if same or _touch(target, other):
                raise Fallback("overlap", str(func))


def _same_window(left: torch.Tensor, right: torch.Tensor) -> bool:
    return left.numel() > 0 and (left.dtype, left.storage_offset(), left.shape, _steps(left)) == (
        right.dtype,
        right.storage_offset(),
        right.shape,
        _steps(right),
    )


def _steps(tensor: torch.Tensor) -> list[int]:
    """Returns the strides of the dimensions in which the position changes."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride()) if size != 1]


def _touch(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Returns true if two tensors of one storage have a byte in common, or if that would be costly to find out."""
    if left.numel() == 0 or right.numel() == 0:
        return False
    unit = 1 if left.dtype != right.dtype else left.element_size()
    windows = [_window(tensor, unit) for tensor in (left, right)]
    start = max(first for _, _, first, _ in windows)
    end = min(last for _, _, _, last in windows)
    if start >= end:
        return False
    low = min(first for _, _, first, _ in windows)
    length = max(last for _, _, _, last in windows) - low
    if length > _LARGEST_MAP:
        return True
    with _disable_current_modes():
        shown = torch.zeros(length, dtype=torch.bool)
        (sizes, strides, first, _), (other_sizes, other_strides, other_first, _) = windows
        shown.as_strided(sizes, strides, first - low).fill_(True)
        return bool(shown.as_strided(other_sizes, other_strides, other_first - low).any())


def _window(tensor: torch.Tensor, unit: int) -> tuple[list[int], list[int], int, int]:
    """Returns sizes, strides, first unit and end of a tensor's memory, in units of ``unit`` bytes."""
    scale = tensor.element_size() // unit
    sizes = [size for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    strides = [stride * scale for stride in tensor.stride() if stride]
    first = int(tensor.storage_offset()) * scale
    end = first + scale + sum((size - 1) * stride for size, stride in zip(sizes, strides))
    return ([*sizes, scale], [*strides, 1], first, end) if scale > 1 else (sizes, strides, first, end)
