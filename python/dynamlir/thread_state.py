"""The thread state that a recorded function may set: saved before, compared and restored after."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch import eager_transforms
from torch.utils import _device

from .capture import forward_mode
from .kernel_settings import CHOICES


def _knows_autocast(device: str) -> bool:
    try:
        torch.is_autocast_enabled(device)
        torch.get_autocast_dtype(device)
    except RuntimeError:
        return False
    return True


_DEVICES = tuple(
    device
    for device in ("cpu", "cuda", "xla", "xpu", "mps", "hpu", "ipu", "mtia", "maia", "privateuseone")
    if _knows_autocast(device)
)


def _autocast_nesting() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def _has_dual_level() -> bool:
    """Returns true within a level of forward-mode differentiation. A further one cannot be entered, and nothing else
    shows a level entered without Python, as by Dynamo's graphs."""
    try:
        level = torch._C._enter_dual_level()
    except RuntimeError:
        return True
    torch._C._exit_dual_level(level=level)
    return False


def _function_modes() -> list[Any]:
    """Returns the active function modes, the outermost first: ``with torch.device(…)`` is one."""
    return [torch._C._get_function_stack_at(at) for at in range(torch._C._len_torch_function_stack())]


class nothing_packed:
    """Suspends the caller's hooks on saved tensors, such as those of torch.utils.checkpoint: they would be given fakes,
    and count them. Not a generator, for the reason given at `modes.set_aside`."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = torch._C._autograd._saved_tensors_hooks_set_tracing(True)

    def __exit__(self, *error: object) -> None:
        torch._C._autograd._saved_tensors_hooks_set_tracing(self._before)


class ThreadState:
    """The state at the time of creation.

    While a function is recorded, autocast does not cache casts: it would keep those of fakes. Hooks on saved tensors
    are not called, see `nothing_packed`.
    """

    def __init__(self) -> None:
        self.grad = torch.is_grad_enabled()
        self.autocast = {
            device: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _DEVICES
        }
        self.cache = torch.is_autocast_cache_enabled()
        self.nesting = _autocast_nesting()
        self.transforms = len(torch._C._functorch.get_interpreter_stack() or ())
        self.forward_grad = torch._C._is_fwd_grad_enabled()
        self.forward_levels = eager_transforms.JVP_NESTING
        self.has_dual_level = _has_dual_level()
        self.random = torch.get_rng_state()
        self.function_modes = _function_modes()
        self.device = _device.CURRENT_DEVICE
        self.choices = [get() for get, _ in CHOICES]

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Restores the state at the end, no matter what is set meanwhile."""
        torch.set_autocast_cache_enabled(False)
        self.forward_grad = torch._C._is_fwd_grad_enabled()  # off if inference mode has been left
        try:
            with nothing_packed():
                yield
        finally:
            self.put_back()

    def put_back(self) -> None:
        """Restores everything."""
        if not self._has_its_modes():
            for _ in range(torch._C._len_torch_function_stack()):
                torch._C._pop_torch_function_stack()
            for mode in self.function_modes:
                torch._C._push_on_torch_function_stack(mode)
        _device.CURRENT_DEVICE = self.device
        torch._C._set_fwd_grad_enabled(self.forward_grad)
        functorch = torch._C._functorch
        if len(functorch.get_interpreter_stack() or ()) > self.transforms:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(self.transforms)
        forward_mode.abandon(self.forward_levels)
        if not self.has_dual_level and _has_dual_level():
            torch._C._exit_dual_level(level=0)
        for device, (enabled, dtype) in self.autocast.items():
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        torch.set_autocast_cache_enabled(self.cache)
        for _ in range(_autocast_nesting() - self.nesting):
            torch.autocast_decrement_nesting()
        for _ in range(self.nesting - _autocast_nesting()):
            torch.autocast_increment_nesting()
        for (get, put), before in zip(CHOICES, self.choices, strict=True):
            if get() != before:
                put(before)
        torch._C._set_grad_enabled(self.grad)
        torch.set_rng_state(self.random)

    def _has_its_modes(self) -> bool:
        """Returns true if the same function modes are active."""
        now = _function_modes()
        return len(now) == len(self.function_modes) and all(map(operator.is_, now, self.function_modes))

    def chooses_otherwise(self) -> bool:
        """Returns true if other attention kernels may be called now."""
        return any(get() != before for (get, _), before in zip(CHOICES, self.choices, strict=True))

    def answered(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the earlier answer of a function that reads a part of the state, as a 1-tuple; else empty."""
        if function is torch.get_autocast_dtype and args and args[0] in self.autocast:
            return (self.autocast[args[0]][1],)
        return tuple(before for (get, _), before in zip(CHOICES, self.choices, strict=True) if get is function)

    def changed(self) -> list[str]:
        """Returns as text the state that is set differently now."""
        found = ["grad mode"] if torch.is_grad_enabled() != self.grad else []
        for device, (enabled, dtype) in self.autocast.items():
            if torch.is_autocast_enabled(device) != enabled or torch.get_autocast_dtype(device) != dtype:
                found.append(f"autocast for {device}")
        if _autocast_nesting() != self.nesting:
            found.append("the nesting of autocast")
        if not self._has_its_modes():
            found.append("a function mode")
        if len(torch._C._functorch.get_interpreter_stack() or ()) != self.transforms:
            found.append("a transform of torch.func")
        if torch._C._is_fwd_grad_enabled() != self.forward_grad:
            found.append("forward grad mode")
        if self.chooses_otherwise():
            found.append("which kernels of attention are called")
        return found
