"""The device of a graph, and the reasons that a graph on a GPU cannot be compiled."""

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
    """Returns the device of a tensor; for a fake, the device it reports, without a dispatch."""
    return tensor.fake_device if type(tensor) is FakeTensor else tensor.device


def is_constant(facts: Facts, operands: Sequence[torch.Tensor], result: torch.Tensor) -> bool:
    """Returns true if a result of an operator with these facts may be combined with tensors on another device."""
    if result.dim() or device_of(result).type != "cpu":
        return False
    return facts.keeps_number if operands else facts.number


def check(recording: Recording) -> None:
    """Raises `Fallback` for a graph on a GPU with an operation that is correct only on the CPU."""
    if recording.device is None or recording.device.type == "cpu":
        return
    for op in recording.ops:
        if op.random:
            # A failed call is repeated, and must draw the same numbers again.
            raise Fallback("gpu-random", op.schema, op.location)
