"""Questions about the memory of fakes that fakes themselves do not answer."""

from __future__ import annotations

import math

import torch


def is_dense(tensor: torch.Tensor) -> bool:
    """Returns true if the elements fill a contiguous piece of memory, in any order."""
    expected = 1
    for stride, size in sorted((stride, size) for size, stride in zip(tensor.shape, tensor.stride()) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


def is_beyond(tensor: torch.Tensor) -> bool:
    """Returns true if a tensor extends beyond its storage, which fakes do not notice."""
    end = tensor.storage_offset() + 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
    return bool(tensor.numel() and end * tensor.element_size() > tensor.untyped_storage().nbytes())


def share_counter(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Returns true if both tensors share a version counter. Finds out by bumping one."""
    before, other = left._version, right._version
    torch.autograd.graph.increment_version(left)
    shared = right._version != other
    torch._C._autograd._unsafe_set_version_counter((left,), (before,))
    return shared


def filler(dtype: torch.dtype) -> float | int | bool:
    """Returns the value with which eager fills new memory under deterministic algorithms."""
    if dtype.is_floating_point or dtype.is_complex:
        return math.nan
    return True if dtype is torch.bool else torch.iinfo(dtype).max
