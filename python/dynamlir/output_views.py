"""The relations of a recording's outputs to each other and to its inputs, as in eager: views, and their creation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import fake_histories
from .fake_memory import share_counter
from .reasons import Fallback
from .recording import Base

if TYPE_CHECKING:
    from .recorder import OpRecorder


def bases(recorder: OpRecorder, leaves: Sequence[Any]) -> list[Base | None]:
    """Returns the base of each of the graph's outputs; None if it is not a view."""
    _check_counters(recorder, leaves)
    fake_histories.check_saved(recorder, leaves)
    positions = {id(tensor): at for at, tensor in reversed(list(enumerate(recorder.input_fakes)))}
    shown = {id(leaf): at for at, leaf in reversed(list(enumerate(leaves)))}
    hidden: dict[int, int] = {}
    found: list[Base | None] = []
    for at, leaf in enumerate(leaves):
        base = leaf._base if isinstance(leaf, torch.Tensor) and leaf._is_view() else None
        if base is None or id(leaf) in positions or "is_view" in recorder.eager_facts.get(id(leaf), {}):
            found.append(None)
        elif id(base) in positions:
            found.append(Base("arg", positions[id(base)]))
        elif id(base) in shown:
            found.append(Base("output", shown[id(base)]))
        else:
            found.append(Base("hidden", hidden.setdefault(id(base), at)))
    return found


def creations(recorder: OpRecorder, leaves: Sequence[Any]) -> list[str | None]:
    """Returns the kind of creation of each output (`fake_histories.creation`), if the call began with grad mode on."""
    if not recorder.grad_enabled:
        return [None] * len(leaves)
    made = {value for op in recorder.recording.ops for value in op.result_ids}
    known = [isinstance(leaf, torch.Tensor) and recorder.id_of(leaf) in made for leaf in leaves]
    for leaf, is_made in zip(leaves, known):
        if is_made:
            fake_histories.refuse_made_in_function(recorder, leaf)
    return [fake_histories.creation(leaf) if is_made else None for leaf, is_made in zip(leaves, known)]


def _check_counters(recorder: OpRecorder, leaves: Sequence[Any]) -> None:
    """Refuses outputs that share another's memory but have a separate version counter, as ``.data`` does: an output of
    a graph shares its counter with the tensor whose memory it shares."""
    seen: dict[int, torch.Tensor] = {fake.untyped_storage()._cdata: fake for fake in reversed(recorder.input_fakes)}
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            continue
        other = seen.setdefault(leaf.untyped_storage()._cdata, leaf)
        if other is not leaf and not share_counter(leaf, other):
            raise Fallback("metadata-mutation", "a tensor shares memory, but not its version counter (.data)")
