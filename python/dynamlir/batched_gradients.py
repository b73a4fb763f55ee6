"""Several gradients at once: tangents of ``torch.vmap`` and of ``is_grads_batched`` as slices, one after another.

The code for a node's gradients takes ordinary tensors. Given a batch of them, the node computes the gradients of each
slice from its saved values, and they are combined into a batch again.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

_functorch = torch._C._functorch


@dataclasses.dataclass
class Batch:
    """Tangents by slices."""

    slices: list[tuple[Tensor | None, ...]]
    wrap: Callable[[Tensor], Tensor]
    """Creates a batch from a tensor with the slices as its first dimension."""

    def join(self, rows: Sequence[Sequence[Tensor | None]]) -> tuple[Tensor | None, ...]:
        """Returns the gradients as a batch. Either all slices have one or none has."""
        joined: list[Tensor | None] = []
        for column in zip(*rows, strict=True):
            present = [gradient for gradient in column if gradient is not None]
            joined.append(self.wrap(torch.stack(present)) if present else None)
        return tuple(joined)

    @staticmethod
    def outside() -> contextlib.AbstractContextManager[object]:
        """A context for computing with slices that no transform has wrapped: outside of all transforms."""
        return temporarily_clear_interpreter_stack()


def split(tangents: Sequence[Tensor | None]) -> Batch | None:
    """Returns the slices of tangents, some of which are a batch; None if none is."""
    given = [tangent for tangent in tangents if tangent is not None]
    if any(map(_functorch.is_legacy_batchedtensor, given)):
        return _split_legacy(tangents)
    levels = [_functorch.maybe_get_level(tangent) for tangent in given if _functorch.is_batchedtensor(tangent)]
    if not levels:
        return None
    level = max(levels)

    def is_of_level(tangent: Tensor) -> bool:
        return bool(_functorch.is_batchedtensor(tangent)) and _functorch.maybe_get_level(tangent) == level

    def front(tangent: Tensor) -> Tensor:
        return _functorch.get_unwrapped(tangent).movedim(_functorch.maybe_get_bdim(tangent), 0)

    def wrap(tensor: Tensor) -> Tensor:
        return _functorch._add_batch_dim(tensor, 0, level)

    return _slices(tangents, is_of_level, front, wrap)


def _split_legacy(tangents: Sequence[Tensor | None]) -> Batch | None:
    # The level is the batch nesting depth of `torch.autograd`; the only way to get it is to go one deeper.
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()

    def front(tangent: Tensor) -> Tensor:
        return torch._remove_batch_dim(tangent, level, 1, 0)

    def wrap(tensor: Tensor) -> Tensor:
        return torch._add_batch_dim(tensor, 0, level)

    return _slices(tangents, _functorch.is_legacy_batchedtensor, front, wrap)


def _slices(
    tangents: Sequence[Tensor | None],
    is_batched: Callable[[Tensor], bool],
    front: Callable[[Tensor], Tensor],
    wrap: Callable[[Tensor], Tensor],
) -> Batch | None:
    """``front`` returns a batched tangent with its batch as the first dimension. None if the batch is empty."""
    columns = [
        (front(tangent), True) if tangent is not None and is_batched(tangent) else (tangent, False)
        for tangent in tangents
    ]
    count = next(len(column) for column, batched in columns if batched and column is not None)
    slices = [
        tuple(column[at] if batched and column is not None else column for column, batched in columns)
        for at in range(count)
    ]
    return Batch(slices, wrap) if slices else None
