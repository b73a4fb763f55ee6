"""Other people's machinery: what takes part in each operation on a thread besides its kernel.

Compiled code calls kernels. Where a dispatch mode counts operations, a transform gives them another meaning, a tracer
writes them down, or tensors have tangents, the operations themselves are to run: such a call is plain Python, with a
counted reason. The native part asks the same at each call (`State::holds` in crates/torch-abi); here is what only
Python knows, asked where no entry fits.
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
    """The reason for which a call under what is active on this thread is plain Python; None where nothing is."""
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
    """Whether a function mode is what makes tensors on the CPU, which a capture can be run under, and guards.

    Under one for another device, or for tensors without data, tensors of ours would be such as well.
    """
    return type(mode) is _device.DeviceContext and mode.device.type == "cpu"


def beyond_compiled_code() -> Fallback | None:
    """The same for what Dynamo calls, which looks after the rest itself, and leaves modes aside that wish it so."""
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
"""The keys that a thread has where nobody has set any, and those that autocast and inference mode set."""


def _unusual_keys() -> str:
    """Which dispatch keys somebody has set on this thread, as far as a message needs that."""
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
    """Whether torch's switch for the whole process is set: what is compiled stays what it is."""
    return os.environ.get("TORCHDYNAMO_DISABLE", "") == "1"


def killed() -> bool:
    """Whether nothing is to be captured now, by ``torch._dynamo.config.disable`` or its environment variable."""
    config = sys.modules.get("torch._dynamo.config")
    if config is None:  # not imported for being asked
        return os.environ.get("TORCH_COMPILE_DISABLE", "0") == "1"
    return bool(config.disable)


@contextlib.contextmanager
def deferred_hooks() -> Iterator[None]:
    """Within, hooks for saved tensors are not called: what would be packed here are fakes, or samples of ours."""
    before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)
    try:
        yield
    finally:
        torch._C._autograd._saved_tensors_hooks_set_tracing(before)
