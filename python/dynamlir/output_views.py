"""What the outputs of a recording are to each other and to its inputs, as eager has it: views, and how made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import histories
from .memory import share_counter
from .reasons import Fallback
from .recording import Base

if TYPE_CHECKING:
    from .recorder import OpRecorder


def bases(recorder: OpRecorder, leaves: Sequence[Any]) -> list[Base | None]:
    """What each of the graph's outputs is a view of; None for what is not a view."""
    _check_counters(recorder, leaves)
    histories.check_saved(recorder, leaves)
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
    """How each of the graph's outputs was made (`histories.creation`), where the call began with grad mode on."""
    if not recorder.grad_enabled:
        return [None] * len(leaves)
    made = {value for op in recorder.recording.ops for value in op.result_ids}
    known = [isinstance(leaf, torch.Tensor) and recorder.id_of(leaf) in made for leaf in leaves]
    for leaf, is_made in zip(leaves, known):
        if is_made:
            histories.refuse_made_in_function(recorder, leaf)
    return [histories.creation(leaf) if is_made else None for leaf, is_made in zip(leaves, known)]


def _check_counters(recorder: OpRecorder, leaves: Sequence[Any]) -> None:
    """Refuse outputs that show another's memory but count versions by themselves, as ``.data`` does: what a graph
    returns shares its counter with the tensor whose memory it shows."""
    seen: dict[int, torch.Tensor] = {fake.untyped_storage()._cdata: fake for fake in reversed(recorder.input_fakes)}
    for leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            continue
        other = seen.setdefault(leaf.untyped_storage()._cdata, leaf)
        if other is not leaf and not share_counter(leaf, other):
            raise Fallback("metadata-mutation", "a tensor shares memory, but not its version counter (.data)")
