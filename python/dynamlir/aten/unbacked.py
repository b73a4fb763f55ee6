"""Operators whose results have unbacked sizes, and their results on fakes.

Each such size is its own symbol (``crates/symint/src/unbacked.rs``). The operator is recorded like any other, and
noted as a `Birth`: the graph is cut after it, and the host calls it between two segments (`dynamlir.cut_recording`).
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload

from .. import modes
from ..device import device_of
from ..expressions import LARGEST_SIZE
from ..fakes import made_fake
from ..reasons import Fallback
from ..recording import OpRecord, Ref
from . import schema

if TYPE_CHECKING:
    from ..recorder import OpRecorder

aten = torch.ops.aten

_INTS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclasses.dataclass
class Birth:
    """An operation that the host calls, and the number of the symbol that it determines."""

    op: OpRecord
    symbol: int
    dim: int | None
    """The dimension of the first result; None if the operation gives the number itself."""


class Sources:
    """The sources of the unbacked symbols of one recording."""

    def __init__(self, sizes: Any, makes_sizes: bool, reads_numbers: bool, births: list[Birth]) -> None:
        self.sizes = sizes
        self.makes_sizes = makes_sizes
        """True if results may have unbacked sizes."""
        self.reads_numbers = reads_numbers
        """True if numbers may be read from tensors of ints."""
        self.births = births

    def size(self) -> Any:
        """Returns a new size."""
        return self.sizes.unbacked()

    def number(self) -> Any:
        """Returns a new number, which may be negative. Larger ones are left to eager."""
        return self.sizes.unbacked(-LARGEST_SIZE, LARGEST_SIZE)

    def born(self, op: OpRecord, size: Any, dim: int | None) -> None:
        """Records the operation that creates a symbol."""
        if isinstance(size, torch.SymInt):
            symbols: Any = size.node
            self.births.append(Birth(op, symbols.symbols[0], dim))


_MOST_LISTED = 16


def call(recorder: OpRecorder, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Returns the result of such an operator on fakes; `NotImplemented` for any other call."""
    sources = recorder.sources
    if sources is None:
        return NotImplemented
    if func is aten._local_scalar_dense.default:
        return _read(recorder, sources, args[0])
    if func is aten._assert_scalar.default:
        return _assert(*args, **kwargs)
    known = _MAKERS.get(func)
    if known is None or not sources.makes_sizes:
        return NotImplemented
    begin(recorder)
    return known(recorder, sources, func, schema.full_arguments(func, args, kwargs))


def begin(recorder: OpRecorder) -> None:
    """Records that sizes are dynamic from here on."""
    recorder.memo.varies = True
    recorder.faker.mode.cache_enabled = False  # its keys only support torch's own symbols


def _read(recorder: OpRecorder, sources: Sources, tensor: torch.Tensor) -> Any:
    if not may_read(sources, tensor):
        return NotImplemented
    begin(recorder)
    number = sources.number()
    func = aten._local_scalar_dense.default
    value = recorder.id_of(tensor)
    op = _host_op(recorder, func, [Ref(value)], [value])
    recorder.recording.append(op)
    sources.born(op, number, None)
    return number


def _assert(holds: Any, message: str) -> Any:
    """Handles Dynamo's form of ``torch._check``: assumed from now on, and checked when the values are known."""
    if not isinstance(holds, torch.SymBool):
        return None if holds is True else NotImplemented
    node: Any = holds.node
    if not node.expect_true("", 0):
        raise Fallback("runtime-assert", message)
    return None


def may_read(sources: Sources | None, tensor: torch.Tensor) -> bool:
    """Returns true if the int in a tensor may be read, to become known when the graph runs."""
    return _has_ints(sources, tensor) and all(type(size) is int and size == 1 for size in tensor.shape)


def may_list(sources: Sources | None, tensor: torch.Tensor) -> list[int] | None:
    """Returns the sizes of a tensor whose ints may be read, if they are not too many; None if they may not."""
    sizes = list(tensor.shape)
    if not _has_ints(sources, tensor) or any(type(size) is not int for size in sizes):
        return None
    return sizes if math.prod(sizes) <= _MOST_LISTED and max(sizes, default=0) <= _MOST_LISTED else None


def _has_ints(sources: Sources | None, tensor: torch.Tensor) -> bool:
    return sources is not None and sources.reads_numbers and tensor.dtype in _INTS and device_of(tensor).type == "cpu"


def _host_op(recorder: OpRecorder, func: OpOverload, raw: list[Any], operands: list[int]) -> OpRecord:
    return OpRecord(
        schema=str(func),
        args=[("t", operands[0])],
        operands=operands,
        results=[],
        result_ids=[],
        aliases=[],
        mutates=[],
        functional=None,
        grad_enabled=torch.is_grad_enabled(),
        location=recorder.location,
        raw=(func, raw),
    )


def _made(recorder: OpRecorder, sizes: Sequence[Any], dtype: torch.dtype, like: torch.Tensor) -> torch.Tensor:
    """Returns a new, row-major tensor."""
    with modes.set_aside():
        return made_fake(recorder.faker.mode, torch.empty(tuple(sizes), dtype=dtype, device="meta"), device_of(like))


def _positions(recorder: OpRecorder, rows: Any, columns: int, like: torch.Tensor) -> torch.Tensor:
    """Returns a new matrix of positions, as this torch version lays it out."""
    if not _is_by_columns():
        return _made(recorder, (rows, columns), torch.int64, like)
    with modes.set_aside():
        meta = torch.empty_strided((rows, columns), (1, rows), dtype=torch.int64, device="meta")
        return made_fake(recorder.faker.mode, meta, device_of(like))


@functools.lru_cache(maxsize=1)
def _is_by_columns() -> bool:
    """Returns true if ``nonzero`` gives one column after the other."""
    with modes.set_aside():
        return torch.ones(3, 2, device="cpu").nonzero().stride()[0] == 1


def _check_device(func: OpOverload, tensor: torch.Tensor) -> None:
    if device_of(tensor).type != "cpu":
        raise Fallback("data-dependent-size", f"{func} on {device_of(tensor)}")


def _nonzero(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    (tensor,) = full
    _check_device(func, tensor)
    size = sources.size()
    out = _positions(recorder, size, tensor.dim(), tensor)
    sources.born(recorder.record_made(func, full, [out]), size, 0)
    return out


def _masked_select(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    tensor, mask = full
    _check_device(func, tensor)
    if mask.dtype is not torch.bool:
        return NotImplemented
    torch.broadcast_shapes(tensor.shape, mask.shape)  # raises if they do not fit
    size = sources.size()
    out = _made(recorder, (size,), tensor.dtype, tensor)
    sources.born(recorder.record_made(func, full, [out]), size, 0)
    return out


def _unique(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    """Handles ``_unique2`` and ``unique_consecutive`` of all elements, or with ``unique_dim`` along a dimension."""
    tensor, with_inverse, with_counts = full[0], full[-2], full[-1]
    dim = full[1] if func is aten.unique_dim.default else None
    if func is aten.unique_consecutive.default:
        with_inverse, with_counts, dim = full[1:]
    if dim is not None:
        return _unique_along(recorder, sources, func, full, dim)
    _check_device(func, tensor)
    size = sources.size()
    out = _made(recorder, (size,), tensor.dtype, tensor)
    inverse = _made(recorder, tensor.shape if with_inverse else (0,), torch.int64, tensor)
    counts = _made(recorder, (size,) if with_counts else (0,), torch.int64, tensor)
    sources.born(recorder.record_made(func, full, [out, inverse, counts]), size, 0)
    return out, inverse, counts


def _unique_along(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any], dim: int) -> Any:
    """Puts the distinct slices first, then moves the dimension back. Inverse and counts are always created."""
    tensor = full[0]
    _check_device(func, tensor)
    if tensor.dim() == 0:
        return NotImplemented
    dim %= tensor.dim()
    size = sources.size()
    rest = [*tensor.shape[:dim], *tensor.shape[dim + 1 :]]
    strides = [math.prod(rest[at + 1 :]) for at in range(len(rest))]
    with modes.set_aside():
        sizes, steps = [*tensor.shape], [*strides[:dim], math.prod(rest), *strides[dim:]]
        sizes[dim] = size
        meta = torch.empty_strided(sizes, steps, dtype=tensor.dtype, device="meta")
        out = made_fake(recorder.faker.mode, meta, device_of(tensor))
    inverse = _made(recorder, (tensor.shape[dim],), torch.int64, tensor)
    counts = _made(recorder, (size,), torch.int64, tensor)
    sources.born(recorder.record_made(func, full, [out, inverse, counts]), size, dim)
    return out, inverse, counts


def _bincount(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    tensor, weights, least = full
    if weights is not None or type(least) is not int or tensor.dim() != 1:
        return NotImplemented  # for an empty input, weights are counted as ints
    _check_device(func, tensor)
    size = sources.size()
    out = _made(recorder, (size,), torch.int64, tensor)
    sources.born(recorder.record_made(func, full, [out]), size, 0)
    return out


def _repeat_interleave(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    repeats, size = full
    if size is not None or repeats.dim() != 1:
        return NotImplemented
    _check_device(func, repeats)
    size = sources.size()
    out = _made(recorder, (size,), repeats.dtype, repeats)
    sources.born(recorder.record_made(func, full, [out]), size, 0)
    return out


def _index(recorder: OpRecorder, sources: Sources, func: OpOverload, full: list[Any]) -> Any:
    """Eager converts masks to positions, and takes the elements there."""
    tensor, indices = full
    if not any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices):
        return NotImplemented
    if any(index is not None and index.dtype is torch.uint8 for index in indices):
        return NotImplemented  # which warns
    given: list[Any] = []
    with recorder:
        for index in indices:
            if index is None or index.dtype is not torch.bool:
                given.append(index)
                continue
            at = len(given)
            if index.dim() > tensor.dim() - at or any(
                not bool(one == two) for one, two in zip(index.shape, tensor.shape[at:])
            ):
                raise Fallback("tracing-error", "a mask of another shape than what it is for")
            found = aten.nonzero.default(index)
            given += [aten.select.int(found, 1, dim) for dim in range(index.dim())]
        return func(tensor, given)


_MAKERS: dict[OpOverload, Callable[[Any, Sources, OpOverload, list[Any]], Any]] = {
    aten.nonzero.default: _nonzero,
    aten.masked_select.default: _masked_select,
    aten._unique2.default: _unique,
    aten.unique_consecutive.default: _unique,
    aten.unique_dim.default: _unique,
    aten.bincount.default: _bincount,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.index.Tensor: _index,
}
