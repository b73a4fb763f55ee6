"""What a frame sets of tensors: their gradients, their data, whether they require a gradient.

Torch does it after the graph. Until then the graph takes each tensor for what it was, so that later operations of the
frame must not depend on it.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Literal

import torch

from .. import modes
from ..device import device_of
from ..reasons import Fallback, Location
from ..recorder import OpRecorder

Regard = Literal["data", "requires_grad", "as it was"]


@dataclasses.dataclass(frozen=True)
class Stale:
    """A tensor of which something was set."""

    fake: torch.Tensor
    first: int
    """The first operation that comes later."""
    regard: Regard
    """What was set; or that whether it requires a gradient is as it was before."""
    location: Location


def check_grad(fake: torch.Tensor, value: torch.Tensor | None) -> None:
    """Raise what torch does where ``fake.grad = value`` is wrong."""
    with modes.set_aside():
        fake.grad = value
        fake.grad = None


def check_data(fake: torch.Tensor, value: torch.Tensor, inference: bool) -> None:
    """`Fallback` unless ``fake.data = value`` changes nothing but the contents."""
    with modes.set_aside():
        facts = [
            (one.dtype, device_of(one), one.shape, one.stride(), one.storage_offset(), one.is_inference())
            for one in (fake, value)
        ]
    if facts[0] != facts[1] or facts[0][-1] or inference:
        raise Fallback("metadata-mutation", "the data of a tensor is set to what looks otherwise")


def refuse_uses(recorder: OpRecorder, stale: Sequence[Stale]) -> None:
    """`Fallback` where an operation depends on something that was set of a tensor before it."""
    if not stale:
        return
    ops, fakes = recorder.recording.ops, recorder.fakes()
    uses: defaultdict[int, list[int]] = defaultdict(list)
    writes: defaultdict[int | None, list[int]] = defaultdict(list)
    for at, op in enumerate(ops):
        for value in op.operands:
            uses[value].append(at)
        for position in op.mutates:
            writes[_storage(fakes.get(op.operands[position]))].append(at)
    until: dict[int, int] = {}
    for event in reversed(stale):
        if event.regard == "as it was":
            until[id(event.fake)] = event.first
            continue
        if event.regard == "data" and recorder.recording.is_training:
            # What autograd has saved of it is another tensor for eager, where that is saved as it is.
            raise Fallback("autograd", "the data of a tensor is set, and outputs require a gradient", event.location)
        found = uses[recorder.id_of(event.fake)]
        end = len(ops)
        if event.regard == "requires_grad":
            # A leaf that has a gradient is written by nobody, through whatever shows its memory.
            end = until.get(id(event.fake), end)
            found = [at for at in found if ops[at].grad_enabled] + writes[_storage(event.fake)] + writes[None]
        late = [at for at in found if event.first <= at < end]
        if late:
            what = "its data" if event.regard == "data" else "whether it requires a gradient"
            raise Fallback("side-effect", f"a tensor is used after {what} was set", ops[min(late)].location)


def _storage(fake: torch.Tensor | None) -> int | None:
    return None if fake is None else fake.untyped_storage()._cdata
