"""Which device a graph is for, and what keeps a graph on a GPU from being compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .reasons import Fallback

if TYPE_CHECKING:
    from .recording import Recording

# Results that are a number, on the CPU, without having read a tensor: torch lets them stand beside tensors on a GPU,
# and in generated code they are constants.
_CONSTANTS = frozenset({"aten.full.default", "aten.scalar_tensor.default", "aten.zeros.default", "aten.ones.default"})


def device_of(tensor: torch.Tensor) -> torch.device:
    """Where a tensor lives; of a fake, where it says that it lives, without a dispatch."""
    return tensor.fake_device if type(tensor) is FakeTensor else tensor.device


def is_constant(schema: str, operands: Sequence[torch.Tensor], result: torch.Tensor) -> bool:
    """Whether a result may stand beside tensors on another device."""
    if result.dim() or device_of(result).type != "cpu":
        return False
    # What is detached is a constant itself, or has told by now that it is none.
    return (schema in _CONSTANTS and not operands) or schema == "aten.detach.default"


def check(recording: Recording) -> None:
    """`Fallback` for a graph on a GPU that has something which is right on the CPU only."""
    if recording.device is None or recording.device.type == "cpu":
        return
    for op in recording.ops:
        if op.random:
            # A call that fails is repeated, and must draw the same numbers again.
            raise Fallback("gpu-random", op.schema, op.location)
