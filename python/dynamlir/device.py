"""Which device a graph is for, and what keeps a graph on a GPU from being compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .aten.table import Facts
from .reasons import Fallback

if TYPE_CHECKING:
    from .recording import Recording


def device_of(tensor: torch.Tensor) -> torch.device:
    """Where a tensor lives; of a fake, where it says that it lives, without a dispatch."""
    return tensor.fake_device if type(tensor) is FakeTensor else tensor.device


def is_constant(facts: Facts, operands: Sequence[torch.Tensor], result: torch.Tensor) -> bool:
    """Whether a result of an operator with these facts may stand beside tensors on another device."""
    if result.dim() or device_of(result).type != "cpu":
        return False
    return facts.keeps_number if operands else facts.number


def check(recording: Recording) -> None:
    """`Fallback` for a graph on a GPU that has something which is right on the CPU only."""
    if recording.device is None or recording.device.type == "cpu":
        return
    for op in recording.ops:
        if op.random:
            # A call that fails is repeated, and must draw the same numbers again.
            raise Fallback("gpu-random", op.schema, op.location)
