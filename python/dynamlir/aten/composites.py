"""Torch's composite functions that take another path on fakes than on tensors: run as eager runs them.

Some of torch's functions check whether an operand is a tensor subclass, as fakes are, and then compute differently:
without eager's checks of contents, with another layout, or in other memory. Both front doors call torch's functions
through `run`. Functions are recognized by identity.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from .. import fake_histories, fake_warnings, modes, scalars
from ..device import device_of
from ..fakes import is_stranger
from ..reasons import Fallback
from ..recorder import OpRecorder
from . import symbolic_composites

Run = Callable[[OpRecorder, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def run(recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls one of torch's functions on fakes."""
    recorder.builtin = builtin_name(target)
    special = _BY_NAME.get(recorder.builtin or "") or _SPECIAL.get(id(target))
    if recorder.memo.varies:
        target = functools.partial(_of_any_size, target)
    if special is not None:
        return special(recorder, target, args, kwargs)
    if recorder.builtin is None:
        with fake_warnings.heard():
            return target(*args, **kwargs)
    return target(*args, **kwargs)


def is_run_otherwise(name: str) -> bool:
    """Returns true if a method of this name has to be called through `run`."""
    return name in _BY_NAME


def _of_any_size(target: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return symbolic_composites.call(target, args, kwargs)


def builtin_name(target: Any) -> str | None:
    """Returns the name of a builtin function; None for Python code, which may call several."""
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    known = isinstance(target, (types.BuiltinFunctionType, types.MethodDescriptorType))
    return target.__name__ if known else None


def _one_hot(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Torch compares fakes with all classes; eager checks the extreme values, then writes by index into zeros."""
    classes = dict(zip(("self", "num_classes"), args)) | {"self" if k == "input" else k: v for k, v in kwargs.items()}
    index, count = classes.get("self"), classes.get("num_classes", -1)
    if isinstance(count, torch.SymInt):
        count = int(count)  # the comparison with all classes would not check for others
    if index is not None and is_stranger(index):
        index = recorder.adopt(index)
    if (
        not (isinstance(index, FakeTensor) and type(count) is int and set(classes) <= {"self", "num_classes"})
        or count == -1
        or index.dtype is not torch.int64
    ):
        return target(*args, **kwargs)
    if count <= 0:
        raise Fallback("tracing-error", f"one_hot with {count} classes", recorder.location)
    shape = (*index.shape, count)
    if not index.numel():
        return torch.empty(shape, dtype=torch.int64, device=device_of(index))
    return recorder.note(
        torch.ops.aten.one_hot.default, (index, count), shape, torch.int64, device_of(index), version=2
    )


def _max_pool1d(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Without a gradient eager squeezes an unbatched image in place; its result is row-major and not a view."""
    result = target(*args, **kwargs)
    if isinstance(result, torch.Tensor) and not result.requires_grad:
        result = result.contiguous()
        recorder.eager_facts[id(result)] = {"is_view": False}
        _set_version(result, int(result.dim() == 2))
    return result


def _matrix_rank(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Eager writes into the result."""
    result = _values(recorder, target, args, kwargs)
    if isinstance(result, torch.Tensor):
        _set_version(result, 1)
    return result


class _ValuesAlone(TorchDispatchMode):
    """Skips the vectors of factorizations that are not differentiated."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = _WITH_VECTORS.get(function)
        if name is not None and not (torch.is_grad_enabled() and args[0].requires_grad):
            args, kwargs = args[:2], {**(kwargs or {}), name: False}
        return function(*args, **(kwargs or {}))


def _values(recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """For fakes torch also computes the vectors, by a slower algorithm, which succeeds for other matrices."""
    with _ValuesAlone():
        return target(*args, **kwargs)


def _receiver(target: Callable[..., Any]) -> torch.Tensor | None:
    """Returns the tensor that a method is bound to. With dynamic sizes, `run` has wrapped the method."""
    function = target.args[0] if isinstance(target, functools.partial) else target
    bound = getattr(function, "__self__", None)
    return bound if isinstance(bound, torch.Tensor) else None


def _quantile(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Eager checks that quantiles in a tensor are between 0 and 1, and raises otherwise."""
    is_bound = _receiver(target) is not None
    share = kwargs["q"] if "q" in kwargs else next(iter(args if is_bound else args[1:]), None)
    if isinstance(share, FakeTensor) and share.is_floating_point() and share.numel():
        with torch.no_grad():
            torch.ops.aten._assert_async.default(share.ge(0).logical_and(share.le(1)).all())
    return target(*args, **kwargs)


def _attention(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Torch's function needs the value of a scale that is known only at run time: so the queries are scaled instead."""
    scale = kwargs.get("scale")
    if not scalars.has_any([scale]):
        return target(*args, **kwargs)
    given = dict(zip(("query", "key", "value", "attn_mask", "dropout_p", "is_causal"), args)) | kwargs
    query = given.pop("query") * scale
    return target(**{**given, "query": query, "scale": 1.0})


def _detach_in_place(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Torch only drops the history, which is not dispatched."""
    given = (*args, *kwargs.values(), _receiver(target))
    fakes = [one for one in given if isinstance(one, FakeTensor) and one.requires_grad]
    result = target(*args, **kwargs)
    for fake in fakes:
        fake_histories.cut(recorder, fake)
    return result


def _shape_as_tensor(
    recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor:
    """Fakes have no memory for the result."""
    (of,) = (*args, *kwargs.values())
    if not isinstance(of, torch.Tensor) or not of.dim():
        return target(*args, **kwargs)
    return torch.stack([torch.full((), size, dtype=torch.int64, device="cpu") for size in of.shape])


def _reading(*places: int) -> Run:
    """Handles functions that read lengths in C++ from the tensors at these argument positions. Fakes have no memory:
    torch raises an error, but with a dynamic number of lengths it reads from a null pointer."""

    def run(recorder: OpRecorder, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for value in (*(args[at] for at in places if at < len(args)), *kwargs.values()):
            if isinstance(value, FakeTensor) and not value.is_floating_point() and modes.vary([value]):
                raise Fallback("data-dependent", f"{recorder.builtin} reads lengths from a tensor", recorder.location)
        return target(*args, **kwargs)

    return run


def _set_version(tensor: torch.Tensor, version: int) -> None:
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


_WITH_VECTORS = {torch.ops.aten._linalg_eigh.default: "compute_v", torch.ops.aten._linalg_svd.default: "compute_uv"}
"""The argument, the third of each, that selects whether vectors are computed."""

_FUNCTIONS: list[tuple[Any, Run]] = [
    (torch._C._nn.one_hot, _one_hot),
    (torch.ops.aten.one_hot, _one_hot),
    (torch.ops.aten.one_hot.default, _one_hot),
    (torch._C._nn.scaled_dot_product_attention, _attention),
    (torch.max_pool1d, _max_pool1d),
    (torch.nn.functional.max_pool1d, _max_pool1d),
    (torch.ops.aten.max_pool1d, _max_pool1d),
    (torch.ops.aten.max_pool1d.default, _max_pool1d),
    (torch.linalg.matrix_rank, _matrix_rank),
    (torch.linalg.eigvalsh, _values),
    (torch.linalg.svdvals, _values),
    (torch.linalg.cond, _values),
    (torch._shape_as_tensor, _shape_as_tensor),
]
# By name, because methods of tensors share these names.
_NAMED: list[tuple[str, Run]] = [
    ("lstm", _reading(1)),
    ("gru", _reading(1)),
    ("rnn_tanh", _reading(1)),
    ("rnn_relu", _reading(1)),
    ("_pad_packed_sequence", _reading(1)),
    ("ctc_loss", _reading(2, 3)),
    ("detach_", _detach_in_place),
    ("quantile", _quantile),
    ("nanquantile", _quantile),
]
_BY_NAME: dict[str, Run] = {
    name: special
    for bare, special in _NAMED
    for name in (bare, *(f"aten.{bare}{of}" for of in ("", ".default", ".scalar", ".data", ".Tensor")))
}
_SPECIAL: dict[int, Run] = {id(function): special for function, special in _FUNCTIONS}
