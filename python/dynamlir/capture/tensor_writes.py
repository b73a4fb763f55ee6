"""What a frame sets of tensors: their gradients, their data, whether they require a gradient.

Torch does it after the graph. Until then the graph takes each tensor for what it was, so that its operations must not
depend on it. Whether a tensor requires a gradient is of account where the graph has gradients of its own.
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

What = Literal["data", "requires_grad"]


@dataclasses.dataclass(frozen=True)
class Set:
    """A tensor of which something was set. Whether it requires a gradient was set to what it was not before."""

    fake: torch.Tensor
    first: int
    """The first operation that comes later."""
    what: What
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


def turn(fake: torch.Tensor) -> None:
    """Let a fake require a gradient, or none, so that what follows has the history that it has in eager."""
    with modes.set_aside():
        fake.requires_grad_(not fake.requires_grad)


def turn_back(sets: Sequence[Set]) -> None:
    """Let fakes require a gradient as they did before."""
    for event in sets:
        if event.what == "requires_grad":
            turn(event.fake)


def settle(recorder: OpRecorder, sets: Sequence[Set]) -> None:
    """Let fakes be as the graph takes them; `Fallback` where an operation depends on what was set before it."""
    if not sets:
        return
    turn_back(sets)
    ops, is_training = recorder.recording.ops, recorder.recording.is_training
    uses: defaultdict[int, list[int]] = defaultdict(list)
    for at, op in enumerate(ops):
        for value in op.operands:
            uses[value].append(at)
    intervals: list[tuple[Set, int]] = []
    turned: dict[int, Set] = {}
    for event in sets:
        if event.what == "data" and is_training:
            # What autograd has saved of it is another tensor for eager, where that is saved as it is.
            raise Fallback("autograd", "the data of a tensor is set, and outputs require a gradient", event.location)
        if event.what == "requires_grad" and (began := turned.pop(id(event.fake), None)) is not None:
            intervals.append((began, event.first))
        elif event.what == "requires_grad":
            turned[id(event.fake)] = event
        else:
            intervals.append((event, len(ops)))
    intervals += [(event, len(ops)) for event in turned.values()]
    for event, end in intervals:
        late = [at for at in uses[recorder.id_of(event.fake)] if event.first <= at < end]
        if event.what == "requires_grad":
            # In a graph without gradients of its own histories are of no account.
            late = [at for at in late if is_training and ops[at].grad_enabled]
        if late:
            what = "its data" if event.what == "data" else "whether it requires a gradient"
            raise Fallback("side-effect", f"a tensor is used after {what} was set", ops[late[0]].location)
