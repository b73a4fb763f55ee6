"""Tensor properties set by a frame: gradients, data, whether a gradient is required.

Torch sets them after the graph. Until then the graph takes each tensor as it was before, so that its operations must
not depend on the change. Whether a tensor requires a gradient matters only if the graph has gradients of its own.
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
    """A tensor with a property that was set. `requires_grad` is recorded only if it was flipped."""

    fake: torch.Tensor
    first: int
    """The first operation after the write."""
    what: What
    location: Location


def check_grad(fake: torch.Tensor, value: torch.Tensor | None) -> None:
    """Raises torch's error if ``fake.grad = value`` is invalid."""
    with modes.set_aside():
        fake.grad = value
        fake.grad = None


def check_data(fake: torch.Tensor, value: torch.Tensor, inference: bool) -> None:
    """Raises `Fallback` unless ``fake.data = value`` changes only the contents."""
    with modes.set_aside():
        facts = [
            (one.dtype, device_of(one), one.shape, one.stride(), one.storage_offset(), one.is_inference())
            for one in (fake, value)
        ]
    if facts[0] != facts[1] or facts[0][-1] or inference:
        raise Fallback("metadata-mutation", "the data of a tensor is set to what looks otherwise")


def turn(fake: torch.Tensor) -> None:
    """Flips whether a fake requires a gradient, so that later operations get the history that they have in eager."""
    with modes.set_aside():
        fake.requires_grad_(not fake.requires_grad)


def turn_back(sets: Sequence[Set]) -> None:
    """Restores whether fakes require a gradient."""
    for event in sets:
        if event.what == "requires_grad":
            turn(event.fake)


def settle(recorder: OpRecorder, sets: Sequence[Set]) -> None:
    """Restores fakes to the graph's view of them; raises `Fallback` if an operation depends on an earlier write."""
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
            # In eager the tensor saved by autograd is then another one, where it is saved without a copy.
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
            # In a graph without gradients of its own, histories do not matter.
            late = [at for at in late if is_training and ops[at].grad_enabled]
        if late:
            what = "its data" if event.what == "data" else "whether it requires a gradient"
            raise Fallback("side-effect", f"a tensor is used after {what} was set", ops[late[0]].location)
