"""Foreign machinery: everything besides its kernel that takes part in an operation on a thread.

Compiled code calls kernels. But if a dispatch mode counts operations, a transform gives them another meaning, a tracer
records them, or tensors have tangents, the operations themselves must run: such a call is plain Python, with a counted
reason. The native part checks the same at each call (`State::holds` in crates/torch-abi); this module checks what only
Python knows, when no entry matches.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
from torch.utils import _device

from . import native
from .reasons import Fallback


def active() -> Fallback | None:
    """Returns the reason that a call on this thread must be plain Python; None if nothing is active."""
    if torch._C._is_tracing():
        return Fallback("tracing", "torch.jit.trace")
    if _is_fx_tracing():
        return Fallback("tracing", "torch.fx.symbolic_trace")
    transforms = torch._C._functorch.get_interpreter_stack()
    if transforms:
        return Fallback("transform", ", ".join(transform.key().name.lower() for transform in transforms))
    functions = (torch._C._get_function_stack_at(at) for at in range(torch._C._len_torch_function_stack()))
    if others := [type(mode).__qualname__ for mode in functions if not _is_default_device(mode)]:
        return Fallback("function-mode", others[-1])
    return _disturbance(lambda mode: True)


def _is_default_device(mode: Any) -> bool:
    """Returns true for a function mode that creates tensors on the CPU, under which a capture can run, and which it
    guards.

    Under a mode for another device, or for tensors without data, our own tensors would be affected as well.
    """
    return type(mode) is _device.DeviceContext and mode.device.type == "cpu"


def beyond_compiled_code() -> Fallback | None:
    """Like `active`, for graphs from Dynamo, which handles the rest itself, and leaves out modes that ask for it."""
    return _disturbance(lambda mode: mode.is_infra_mode() or not _ignores_compiled_code(mode))


def _disturbance(counts: Callable[[Any], bool]) -> Fallback | None:
    reason = native.module().disturbance()
    if reason == "dispatch-keys":
        return Fallback(reason, _unusual_keys())
    if reason != "dispatch-mode":
        return None if reason is None else Fallback(reason)
    modes = [torch._C._get_dispatch_stack_at(at) for at in range(torch._C._len_torch_dispatch_stack())]
    seeing = [type(mode).__qualname__ for mode in modes if counts(mode)]
    return Fallback(reason, ", ".join(seeing)) if seeing else None


_ORDINARY = re.compile("Autocast.*|AutogradOther|AutogradNestedTensor|ADInplaceOrView|BackendSelect|Dense")
"""The default dispatch keys of a thread, and those set by autocast and inference mode."""


def _unusual_keys() -> str:
    """Returns the unusual dispatch keys set on this thread, in the detail needed for a message."""
    keys = {
        "included": torch._C._dispatch_tls_local_include_set(),
        "excluded": torch._C._dispatch_tls_local_exclude_set(),
    }
    found = []
    for how, names in keys.items():
        unusual = [name for name in re.findall(r"\w+", str(names))[1:] if not _ORDINARY.fullmatch(name)]
        more = ", …" if len(unusual) > 3 else ""
        found += [f"{how}: {', '.join(unusual[:3])}{more}"] if unusual else []
    return "; ".join(found)


def _ignores_compiled_code(mode: Any) -> bool:
    ignores = getattr(mode, "ignore_compile_internals", None)
    return ignores is not None and bool(ignores())


def _is_fx_tracing() -> bool:
    tracer = torch.fx._symbolic_trace
    flag = getattr(tracer, "_get_is_fx_tracing", None)
    return bool(flag() if flag is not None else getattr(tracer, "_is_fx_tracing_flag", False))


def killed_by_environment() -> bool:
    """Returns true if torch's switch for the whole process is set: compiled objects stay as they were."""
    return os.environ.get("TORCHDYNAMO_DISABLE", "") == "1"


def killed() -> bool:
    """Returns true if capturing is disabled now, by ``torch._dynamo.config.disable`` or its environment variable."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:  # not imported just for this
        return os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1"
    return bool(config.disable)


@contextlib.contextmanager
def deferred_hooks() -> Iterator[None]:
    """Suspends hooks for saved tensors: they would pack fakes, or samples of ours."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)
