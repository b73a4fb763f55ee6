"""Constant tensors that a graph creates from Python values (``torch.tensor``), recorded as operations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor

from . import modes
from .aten import schema
from .fakes import check_supported

if TYPE_CHECKING:
    from .recorder import OpRecorder


def contents(recorder: OpRecorder, fake: torch.Tensor) -> torch.Tensor | None:
    """Returns the contents of a tensor created from Python values, or from the buffers of modules, and not written
    since; None for others."""
    if type(fake) is not FakeTensor:
        return None
    if fake.constant is not None:
        return None if fake._version else fake.constant
    return recorder.buffers.contents(recorder, fake)


def number(recorder: OpRecorder, fake: torch.Tensor) -> complex | None:
    """Returns the contents of such a one-element tensor, as a number."""
    if (known := contents(recorder, fake)) is None or known.numel() != 1:
        return None
    with modes.set_aside():
        return known.item()


def keep_known(results: Iterable[Any], operands: Iterable[torch.Tensor], unwritten: bool) -> None:
    """Clears contents that torch cannot know. Torch runs ``empty_like`` of a constant for real, and a fake
    implementation that calls it, as indexing's does, passes on uninitialised memory as the contents."""
    if unwritten or any(type(operand) is not FakeTensor or operand.constant is None for operand in operands):
        for result in results:
            if type(result) is FakeTensor:
                result.constant = None


def record(recorder: OpRecorder, func: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Records ``torch.tensor(...)`` inside the graph: it gives a fresh tensor at each call, so a fill or a copy."""
    (constant,) = args
    if isinstance(constant, FakeTensor):
        return func(*args, **kwargs)
    check_supported(constant)
    out = func(*args, **kwargs)
    if constant.dim() == 0:
        with modes.set_aside():
            scalar = constant.item()
        full_op = torch.ops.aten.full.default
        full = schema.full_arguments(full_op, ([], scalar), {"dtype": constant.dtype})
        recorder._record(full_op, full, [out], [])
        return out
    with modes.set_aside():
        kept = constant.detach().clone()
    fake = recorder.capture(kept, f"constant_{len(recorder.recording.captures)}", lambda: kept)
    clone = torch.ops.aten.clone.default
    recorder._record(clone, schema.full_arguments(clone, (fake,), {}), [out], [])
    return out
