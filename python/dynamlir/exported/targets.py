"""The functions that a saved graph may call, by name: a fixed table, so that no file can name anything else."""

from __future__ import annotations

import functools
import math
import operator
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._C._nn
import torch.overrides
from torch._functorch import eager_transforms, predispatch

from ..capture import forward_mode, transforms

_SPACES: dict[str, types.ModuleType] = {
    "torch": torch,
    "torch.nn.functional": torch.nn.functional,
    "torch.special": torch.special,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.functional": torch.functional,
    "torch._C._nn": torch._C._nn,
    "torch._C._special": torch._C._special,  # type: ignore[attr-defined]
    "torch._C._linalg": torch._C._linalg,  # type: ignore[attr-defined]
    "torch._C._fft": torch._C._fft,  # type: ignore[attr-defined]
}
"""The modules in which functions are looked up: those that take tensors, according to torch's own list."""

_MAKERS = """
arange as_tensor asarray bartlett_window blackman_window complex empty empty_like empty_permuted empty_strided eye full
full_like hamming_window hann_window kaiser_window linspace logspace normal ones ones_like polar rand rand_like randint
randint_like randn randn_like randperm range scalar_tensor tensor tril_indices triu_indices vander zeros zeros_like
hardsigmoid hardswish sigmoid tanh broadcast_shapes promote_types result_type can_cast is_tensor as_strided
set_autocast_enabled set_autocast_dtype set_autocast_cache_enabled clear_autocast_cache autocast_increment_nesting
autocast_decrement_nesting
"""
"""Functions that torch does not list, because they need not take a tensor."""

_OPERATORS = """
abs add and_ concat contains eq floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul imod imul index invert ior
ipow irshift is_ is_not isub itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift setitem sub
truediv truth xor
"""

_ELSEWHERE: dict[str, Callable[..., Any]] = {
    "torch._C._set_grad_enabled": torch._C._set_grad_enabled,
    "torch.autograd.grad": torch.autograd.grad,
    "builtins.getattr": getattr,
    "math.sqrt": math.sqrt,
    **{f"torch.{name}": getattr(torch, name) for name in ("sym_float", "sym_max", "sym_min")},
    "torch.nn.functional._canonical_mask": torch.nn.functional._canonical_mask,
    "torch.nn.functional._none_or_dtype": torch.nn.functional._none_or_dtype,
    "torch.amp.autocast_mode._enter_autocast": torch.amp.autocast_mode._enter_autocast,
    "torch.amp.autocast_mode._exit_autocast": torch.amp.autocast_mode._exit_autocast,
}

_TRANSFORMS: list[tuple[types.ModuleType, str]] = [
    (predispatch, "_add_batch_dim _remove_batch_dim _unwrap_for_grad _vmap_increment_nesting _vmap_decrement_nesting"),
    (eager_transforms, "_create_differentiable"),
    (torch._C._functorch, "_wrap_for_grad _grad_increment_nesting _grad_decrement_nesting"),
    (torch._C, "_set_fwd_grad_enabled"),
    (forward_mode, "enter leave make_dual unpack_dual"),
    (transforms, "leaf settled"),
]
"""The functions from which `torch.func` is built."""

_ELSEWHERE |= {
    f"{module.__name__}.{name}": getattr(module, name) for module, names in _TRANSFORMS for name in names.split()
}

BALANCED: tuple[tuple[str, str], ...] = (
    ("torch._functorch.predispatch._vmap_increment_nesting", "torch._functorch.predispatch._vmap_decrement_nesting"),
    ("torch._C._functorch._grad_increment_nesting", "torch._C._functorch._grad_decrement_nesting"),
    ("dynamlir.capture.forward_mode.enter", "dynamlir.capture.forward_mode.leave"),
)
"""Pairs of functions that begin and end a level of a transform."""

_NO_METHODS = """
apply_ map_ map2_ numpy storage untyped_storage storage_type register_hook register_post_accumulate_grad_hook
share_memory_ module_load record_stream data_ptr const_data_ptr backward
"""
"""Methods of tensors that run functions, or hand out memory."""

_METHODS = "new_empty new_empty_strided new_full new_ones new_tensor new_zeros unflatten to_sparse"

_ATTRIBUTES = """
T H mT mH real imag shape dtype device layout ndim data grad is_leaf requires_grad itemsize nbytes is_cuda is_sparse
is_quantized
"""

ATTRIBUTES = frozenset(_ATTRIBUTES.split())
"""The attributes of a tensor that a saved graph may get by ``getattr``."""


@functools.cache
def _functions() -> dict[str, Callable[..., Any]]:
    listed = {
        id(function) for functions in torch.overrides.get_overridable_functions().values() for function in functions
    }
    listed |= {id(getattr(torch, name)) for name in _MAKERS.split() if hasattr(torch, name)}
    found = dict(_ELSEWHERE)
    for space, module in _SPACES.items():
        for name in dir(module):
            function = getattr(module, name)
            # For `torch.nn.functional`, everything that it defines itself.
            own = not name.startswith("_") and getattr(function, "__module__", "") == "torch.nn.functional"
            if (id(function) in listed or own) and callable(function) and not isinstance(function, type):
                found[f"{space}.{name}"] = function
    found.update({f"operator.{name}": getattr(operator, name) for name in _OPERATORS.split()})
    return found


@functools.cache
def _names() -> dict[int, str]:
    return {id(function): name for name, function in reversed(_functions().items())}


@functools.cache
def methods() -> frozenset[str]:
    """Returns the methods of tensors that a saved graph may call."""

    def named() -> Iterator[str]:
        for entry in torch.overrides.get_overridable_functions()[torch.Tensor]:
            yield getattr(entry, "__name__", "")
        yield from _METHODS.split()

    arithmetic = {f"__{name.strip('_')}__" for name in _OPERATORS.split()}
    return frozenset(
        name
        for name in named()
        if name not in _NO_METHODS.split()
        and (not name.startswith("_") or name in arithmetic)
        and hasattr(torch.Tensor, name)
    )


def name_of(function: Any) -> str | None:
    """Returns the name of a function in the table; None if it is absent."""
    if isinstance(function, torch._ops.OpOverload):
        name = f"torch.ops.{function}"
        return name if _operator(name) is function else None
    name_ = _names().get(id(function))
    return name_ if name_ is not None and _functions()[name_] is function else None


def function_of(name: str) -> Callable[..., Any] | None:
    """Returns the function of this name; None if the table does not have one."""
    return _functions().get(name) or _operator(name)


def _operator(name: str) -> Any:
    """Returns one of torch's own operators, ``torch.ops.aten.add.Tensor``, if the dispatcher already knows it."""
    parts = name.split(".")
    if len(parts) != 5 or parts[:3] != ["torch", "ops", "aten"] or parts[3] in _NO_OPERATORS:
        return None
    known = f"aten::{parts[3]}" + ("" if parts[4] == "default" else f".{parts[4]}")
    if known not in _operators():
        return None
    return getattr(getattr(torch.ops.aten, parts[3]), parts[4], None)


_NO_OPERATORS = frozenset({"from_file", "save", "load", "set_data", "_print", "warn"})


@functools.cache
def _operators() -> frozenset[str]:
    return frozenset(torch._C._dispatch_get_all_op_names())
