"""The thread's dispatch modes, robust against signal handlers that raise between two steps of entering or leaving."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._subclasses.fake_tensor import FakeTensorMode

_IN_PYTHON = frozenset(
    [
        torch.ops.aten._unsafe_index.Tensor,
        torch.ops.aten.addcmul.default,
        torch.ops.aten.constant_pad_nd.default,
        torch.ops.aten.im2col.default,
    ]
)
"""Operators whose C++ fakes do not support dynamic sizes, where torch has Python fakes as well."""

_LIKE_FIRST = frozenset([torch.ops.aten._transformer_encoder_layer_fwd.default])
"""Operators whose result looks like their first operand; some torch versions have no fake of them for dynamic sizes."""


class FakeMode(FakeTensorMode):
    """A fake mode that leaves the stack unchanged when an operation raises.

    It enters itself again for decompositions. If a signal handler raises after that, but before the cleanup is in
    place, torch's dispatcher finds the mode twice and aborts the process.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        depth = torch._C._len_torch_dispatch_stack()
        try:
            if func in _IN_PYTHON and vary(args):
                with self:
                    return decomposition_table[func](*args, **(kwargs or {}))
            if func in _LIKE_FIRST and vary(args):
                with self:
                    return torch.empty_like(args[0])
            return super().__torch_dispatch__(func, types, args, kwargs or {})
        except BaseException:
            while torch._C._len_torch_dispatch_stack() > depth:
                torch._C._pop_torch_dispatch_stack(None)
            raise


def vary(values: Sequence[Any]) -> bool:
    """Returns true if one of these is a dynamic size, or a tensor with one, also in lists and tuples."""
    for value in values:
        if isinstance(value, torch.SymInt) or (isinstance(value, torch.Tensor) and value._has_symbolic_sizes_strides):
            return True
        if isinstance(value, (list, tuple)) and vary(value):
            return True
    return False


class set_aside:
    """Suspends the dispatch modes of this thread, and its active transforms of `torch.func`. Restores both stacks at
    the end, even if something is left on them.

    Not a generator: if a signal handler raises before a generator has cleaned up, it would do so when the exception is
    discarded, long after the capture has restored the caller's stack.
    """

    __slots__ = ("_modes", "_transforms")

    def __enter__(self) -> None:
        self._modes: list[Any] = []
        self._transforms: list[Any] = []
        while torch._C._are_functorch_transforms_active():
            self._transforms.append(torch._C._functorch.pop_dynamic_layer_stack())
        while torch._C._len_torch_dispatch_stack():
            self._modes.append(torch._C._pop_torch_dispatch_stack(None))

    def __exit__(self, *error: object) -> None:
        while torch._C._len_torch_dispatch_stack():
            torch._C._pop_torch_dispatch_stack(None)
        while self._modes:
            torch._C._push_on_torch_dispatch_stack(self._modes.pop())
        while torch._C._are_functorch_transforms_active():
            torch._C._functorch.pop_dynamic_layer_stack()
        while self._transforms:
            torch._C._functorch.push_dynamic_layer_stack(self._transforms.pop())
