"""Strides as eager's kernels give them, where fakes give others.

Fakes take shortcuts written in Python. They have the layout of some operations wrong; the table has what eager's
kernels do. Otherwise their strides are right where they determine an element's position. But the stride of a
one-element dimension is arbitrary, and so are all strides of a tensor without elements. Eager's loops leave there
what they happen to compute, and a program sees it through ``stride()``. In these cases the kernel itself is queried.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._prims_common import suggest_memory_format
from torch._subclasses.fake_impls import _compute_stride
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .. import modes
from ..device import device_of
from . import iteration, schema
from .table import Layout

# Kinds for which the operands' strides, or the kernel, fully determine the results' strides.
_FOLLOWING = (Layout.LIKE_OPERAND, Layout.BY_ALL_OPERANDS, Layout.LIKE_SUM, Layout.ROLLED)

_MOST_BYTES = 1 << 26
"""The limit on operand bytes for trying the kernel, which costs time. Above it the fakes' answer is kept."""

_MOST_BYTES_OF_OTHERS = 1 << 22
"""The limit for operations that are not pointwise, which cost more."""


def as_eager(func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
    """Returns ``out``, the result of ``func`` on fakes, with the strides that its kernel gives."""
    layout = schema.info(func).facts.layout
    if layout is Layout.VIEW:
        viewed, sizes = positional
        asked = (tuple(viewed.shape), viewed.stride(), tuple(sizes))
        if any(isinstance(number, torch.SymInt) for numbers in asked for number in numbers):
            # Not every torch has a kernel that takes dynamic sizes; all have the function that it calls.
            strides = tuple(_compute_stride(*asked[:2], out.shape) or out.stride())
        else:
            strides = _view_strides(func, *asked)
        return out if strides == out.stride() else out.as_strided(out.shape, strides, out.storage_offset())
    # Other devices have their own kernels, whose layouts fakes follow.
    if func.namespace != "aten" or any(device_of(result).type != "cpu" for result in _tensors(out)):
        return out
    if schema.info(func).facts.statistics:
        out = _with_statistics(func, positional, keywords, out)
    if _shows_operand(func, positional, out):
        out = _in_own_memory(func, positional, keywords, out)
    operands = _tensors((positional, tuple(keywords.values())))
    results = _tensors(out)
    varies = modes.vary((*operands, *results))
    by_both = layout in (Layout.LIKE_SUM, Layout.LIKE_PRODUCT) or _meets_number(func, positional, out)
    known = None if varies and by_both else _known_strides(func, layout, positional, out)
    if known is not None:
        return _first_restrided(out, known)
    is_same = any(result is operand for result in results for operand in operands)
    if schema.info(func).random or is_same:
        return out
    follows = schema.info(func).pointwise or layout in _FOLLOWING
    strided = layout is Layout.BY_ALL_OPERANDS and not all(operand.is_contiguous() for operand in operands)
    most = _MOST_BYTES
    if not follows:
        # Fakes know the layout except for strides that are arbitrary. For dynamic sizes, deciding this would need
        # guards on which of them are one.
        if varies or not any(map(_is_open, operands)) or _is_view(func):
            return out
        most = _MOST_BYTES_OF_OTHERS
    elif not (strided or (varies and by_both) or _any_open(operands, out)):
        if isinstance(out, torch.Tensor) and layout is None and not varies and _meets_one(func, operands, out):
            return _looped(operands, out)
        return out
    if varies:
        return _of_any_size(func, positional, keywords, out, follows)
    if sum(tensor.numel() * tensor.element_size() for tensor in (*operands, *results)) > most:
        return out
    try:
        real = _run(func, positional, keywords, "cpu")
    except Exception:  # it does not accept zeros; the fakes have accepted the call
        return out
    leaves, spec = pytree.tree_flatten(out)
    pairs = zip(leaves, pytree.tree_leaves(real))
    return pytree.tree_unflatten([_restrided_as(*pair) for pair in pairs], spec)


def _of_any_size(
    func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any, follows: bool
) -> Any:
    """Returns ``out`` with dynamic sizes and the strides that its kernel gives. They are expressions if, for this call,
    the kernel agrees with `iteration` (if it ``follows`` that) or with the fakes; else they are specialised to the
    sizes of this call."""
    operands = _tensors((positional, tuple(keywords.values())))
    try:
        real = _run(func, positional, keywords, "cpu")
    except Exception:  # as above
        return out

    beside_number = _beside_number(func, positional)

    def restrided(result: Any, real: Any) -> Any:
        if not isinstance(real, torch.Tensor):
            return result
        # A copy that has to be row-major, for example, is not such a loop; fakes know its layout.
        made = iteration.strides(operands, result.shape, beside_number) if follows else result.stride()
        if iteration.now(made) == real.stride():
            return _restride(result, made)
        if iteration.now(result.stride()) == real.stride():
            return result
        iteration.settle(operands)
        return _restride(result, real.stride())

    leaves, spec = pytree.tree_flatten(out)
    return pytree.tree_unflatten([restrided(*pair) for pair in zip(leaves, pytree.tree_leaves(real))], spec)


def _with_statistics(func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
    """Returns the results of a norm, with statistics in the types of its kernel, but running ones in their own."""
    operand, *parameters = _tensors((positional, tuple(keywords.values())))
    if operand.dtype.itemsize >= 4:
        return out
    normal, mean, root, *rest = out
    if any(parameter.dtype is torch.float32 for parameter in parameters):
        mean, root = (torch.empty_like(each, dtype=torch.float32) for each in (mean, root))
    given = dict(zip((argument.name for argument in func._schema.arguments), positional)) | keywords
    running = [given.get((result.name or "").removesuffix("_out")) for result in func._schema.returns[3:]]
    rest = [
        new if old is None else torch.empty_like(new, dtype=old.dtype) for new, old in zip(rest, running, strict=True)
    ]
    return (normal, mean, root, *rest)


def _shows_operand(func: OpOverload, positional: tuple[Any, ...], out: Any) -> bool:
    """Returns true if fakes return an operand's memory although the schema declares new memory."""
    if not isinstance(out, torch.Tensor) or func._schema.returns[0].alias_info is not None:
        return False
    storage = out.untyped_storage()._cdata
    return any(tensor.untyped_storage()._cdata == storage for tensor in _tensors(positional))


def _in_own_memory(func: OpOverload, positional: tuple[Any, ...], keywords: dict[str, Any], out: torch.Tensor) -> Any:
    """Returns ``out`` as the kernel has it: some fakes compute with views, and do not copy where no element moves."""
    operands = _tensors(positional)
    if iteration.now(sum(tensor.numel() * tensor.element_size() for tensor in operands)) <= _MOST_BYTES:
        twins: list[torch.Tensor] = []
        real = _run(func, positional, keywords, "cpu", twins)
        if any(real.untyped_storage()._cdata == twin.untyped_storage()._cdata for twin in twins):
            return out
        iteration.settle(operands)
        return torch.empty_strided(out.shape, real.stride(), dtype=out.dtype, device=out.device)
    return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=out.device)


@functools.lru_cache(maxsize=4096)
def _view_strides(
    func: OpOverload, shape: tuple[int, ...], strides: tuple[int, ...], sizes: tuple[int, ...]
) -> tuple[int, ...]:
    """Returns the strides of a view of these sizes; a model needs few of them many times."""
    with _disable_current_modes():
        viewed = torch.empty_strided(shape, strides, device="meta")
        return func(viewed, sizes).stride()


def _known_strides(
    func: OpOverload, layout: Layout | None, positional: tuple[Any, ...], out: Any
) -> tuple[int, ...] | None:
    """Returns the strides of the (first) result by its kind of layout; None if the kind does not determine them."""
    first = out[0] if isinstance(out, (tuple, list)) and out else out
    if not isinstance(first, torch.Tensor) or first.layout is not torch.strided:
        return None
    if layout is Layout.ROW_MAJOR:
        return _strides(first.shape, torch.contiguous_format)
    if layout is Layout.ROW_MAJOR_OR_CHANNELS_LAST:
        return _strides(first.shape, suggest_memory_format(positional[0]))
    if layout is Layout.AS_IT_LIES:
        return _strides(first.shape, _lies(positional[0]))
    if layout is Layout.LIKE_FIRST:
        return _like_first(positional[0], first)
    with _disable_current_modes():
        if layout is Layout.ROLLED and positional[2] and first.numel():
            if modes.vary([first]):
                return _rolled_of_any_size(*positional)
            return _rolled(_meta(positional[0]), positional[1], positional[2]).stride()
        overlap = layout is Layout.LIKE_CLONE_OF_OVERLAP and _repeats(positional[0])
        if layout is Layout.LIKE_CLONE or overlap:
            return torch.clone(_meta(positional[0])).stride()
        if layout is Layout.LIKE_SUM and isinstance(positional[1], torch.Tensor) and not _any_open(positional, out):
            return torch.add(_meta(positional[0]), _meta(positional[1])).stride()
        if layout is Layout.LIKE_PRODUCT and not _any_open(positional, out):
            return torch.mul(_meta(positional[0]), torch.empty(positional[1].shape, device="meta")).stride()
        if _meets_number(func, positional, out):
            return torch.add(_meta(positional[0]), torch.empty((), device="meta")).stride()
    return None


def _lies(x: torch.Tensor) -> torch.memory_format:
    """Returns the memory format in which ``x`` is dense, else the one its strides suggest."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.dim())
    if last is None or x.is_contiguous():
        return torch.contiguous_format
    return last if x.is_contiguous(memory_format=last) else suggest_memory_format(x)


def _like_first(x: torch.Tensor, made: torch.Tensor) -> tuple[int, ...] | None:
    """Returns the strides of ``x`` if ``made`` has the same ones, except in one-element dimensions."""
    is_one = [type(size) is int and size == 1 for size in made.shape]
    if x.dim() != made.dim() or not any(is_one):
        return None
    same = all(one or mine == its for one, mine, its in zip(is_one, made.stride(), x.stride()))
    return x.stride() if same else None


def _rolled(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    """Eager's kernel concatenates two parts, one dimension after the other."""
    for shift, dim in zip(shifts, dims):
        start = -shift % x.shape[dim]
        part = torch.ops.aten.slice.Tensor  # `narrow` does not support dynamic sizes
        x = torch.cat([part(x, dim, start, x.shape[dim]), part(x, dim, 0, start)], dim)
    return x


def _rolled_of_any_size(x: torch.Tensor, shifts: Sequence[int], dims: Sequence[int]) -> tuple[int, ...]:
    """Concatenating parts of a row-major tensor gives a row-major tensor."""
    if x.is_contiguous() and 1 not in x.shape:
        return _strides(x.shape, torch.contiguous_format)
    iteration.settle([x])
    shape, strides = iteration.now((tuple(x.shape), x.stride()))
    return _rolled(torch.empty_strided(shape, strides, device="meta"), shifts, dims).stride()


def _meets_number(func: OpOverload, positional: Sequence[Any], out: Any) -> bool:
    """Returns true if a permuted tensor with a one-element dimension is combined with a number that the kernel converts
    to a tensor. The loop over two operands leaves another stride for that dimension than the loop over one, which fakes
    show."""
    if not schema.info(func).pointwise or len(positional) < 2 or not isinstance(out, torch.Tensor):
        return False
    x, number = positional[:2]
    if not isinstance(x, torch.Tensor) or not isinstance(number, (int, float)) or out.shape != x.shape:
        return False
    takes_tensor = str(func._schema.arguments[1].type) == "Tensor"
    return takes_tensor and 1 in x.shape and bool(x.numel()) and not x.is_contiguous() and not _is_open(x)


def _repeats(tensor: torch.Tensor) -> bool:
    """Returns true if elements of an expanded dimension share one element of memory."""
    return any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride()))


def _strides(shape: torch.Size, memory_format: torch.memory_format) -> tuple[int, ...]:
    with _disable_current_modes():
        return torch.empty(shape, memory_format=memory_format, device="meta").stride()


def _meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _first_restrided(out: Any, strides: tuple[int, ...]) -> Any:
    """Returns ``out`` with these strides in its first result and, for log_sigmoid, in the buffer of the same shape."""
    if isinstance(out, torch.Tensor):
        return _restride(out, strides)

    def is_alike(leaf: torch.Tensor) -> bool:
        return leaf.dim() == out[0].dim() and leaf.shape == out[0].shape

    return type(out)([_restride(leaf, strides) if is_alike(leaf) else leaf for leaf in out])


def _any_open(operands: Sequence[Any], out: Any) -> bool:
    """Returns true if operands or results have arbitrary strides."""
    return any(map(_is_open, _tensors(operands))) or not all(result.numel() for result in _tensors(out))


def _beside_number(func: OpOverload, positional: Sequence[Any]) -> bool:
    """Returns true if the kernel converts a number to a tensor."""
    types = [str(argument.type) for argument in func._schema.arguments]
    return any(kind == "Tensor" and isinstance(value, (int, float)) for kind, value in zip(types, positional))


def _meets_one(func: OpOverload, operands: Sequence[torch.Tensor], result: torch.Tensor) -> bool:
    """Returns true if the result of two operands has a one-element dimension, and one of them is not row-major."""
    ones = any(type(size) is int and size == 1 for size in result.shape)
    is_binary = len(operands) == 2 and func._overloadname in ("Tensor", "Tensor_Tensor")
    return ones and is_binary and not all(operand.is_contiguous() for operand in operands)


def _looped(operands: Sequence[torch.Tensor], result: torch.Tensor) -> torch.Tensor:
    """Returns ``result`` with the strides that a loop over both operands leaves in one-element dimensions. Fakes, and
    kernels without memory, take shortcuts."""
    made = iteration.strides(operands, result.shape)
    told = [at for at, size in enumerate(result.shape) if not (type(size) is int and size == 1)]
    seen, theirs = iteration.now((made, result.stride()))
    return _restride(result, made) if all(seen[at] == theirs[at] for at in told) else result


def _is_view(func: OpOverload) -> bool:
    return any(returned.alias_info is not None for returned in func._schema.returns)


def _is_open(tensor: torch.Tensor) -> bool:
    """Returns true if a one-element dimension has another stride than in a row-major tensor."""
    row_major = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride())):
        if size == 1 and stride != row_major:
            return True
        row_major *= size
    return False


_OPAQUE = {"dropout_state", "reserve", "reserveSpace", "reservedSpace", "weight_buf", "workspace"}
"""The names that schemas use for opaque memory that one library kernel leaves to another."""


def _run(
    func: OpOverload,
    positional: tuple[Any, ...],
    keywords: dict[str, Any],
    device: str,
    twins: list[torch.Tensor] | None = None,
) -> Any:
    """Returns the result of ``func`` on zeros laid out like its operands, which are added to ``twins``. Raises its
    exceptions, and `RuntimeError` for a kernel that trusts its arguments even about memory that does not exist."""
    if any(argument.name in _OPAQUE for argument in func._schema.arguments):
        raise RuntimeError(f"{func} takes what another kernel has left, of a size that fakes do not know")

    def twin(tensor: torch.Tensor) -> torch.Tensor:
        shape, strides = iteration.now((tuple(tensor.shape), tensor.stride()))
        reach = sum((size - 1) * stride for size, stride in zip(shape, strides))
        memory = torch.zeros(1 + max(reach, 0), dtype=tensor.dtype, device=device)
        made = memory.as_strided(shape, strides)
        if twins is not None:
            twins.append(made)
        return made

    with _disable_current_modes(), torch.no_grad():
        positional, keywords = pytree.tree_map_only(torch.Tensor, twin, iteration.now((positional, keywords)))
        return func(*positional, **keywords)


def _restrided_as(result: Any, real: Any) -> Any:
    usable = isinstance(real, torch.Tensor) and real.shape == result.shape
    return _restride(result, real.stride()) if usable else result


def _restride(result: torch.Tensor, strides: tuple[int, ...]) -> torch.Tensor:
    if result.stride() == strides:
        return result
    return torch.empty_strided(result.shape, strides, dtype=result.dtype, device=result.device)


def _tensors(tree: Any) -> list[torch.Tensor]:
    """Returns the tensors of an operator's arguments or results; they occur only directly or in lists."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, (tuple, list)) else []
