"""Which operators of users' are differentiated.

Torch calls an operator that `torch.library.register_autograd` knows beneath a function of its own, where grad mode is
off: that it has a derivative is seen by what its results are afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .reasons import Fallback
from .recording import OpRecord

Met = tuple[OpRecord, list[torch.Tensor], list[torch.Tensor | None]]
"""An operator that was recorded with grad mode off, its operands, of which some require a gradient, its results."""

_GENERATED = "GeneratedBackwardFor_"
"""How torch names the histories that it makes for them."""
_OURS = "_HistoryBackward"
"""And what `functions` has recorded has this one."""


def settle(met: list[Met], fakes: Iterable[torch.Tensor]) -> None:
    """Note what is differentiated; `Fallback` for another function's history among those of ``fakes``, which nothing
    that was recorded tells of."""
    for record, operands, results in met:
        if any(_name(result).startswith(_GENERATED) for result in results if result is not None):
            record.grad_enabled = True
            record.needs_grad = tuple(at for at, tensor in enumerate(operands) if tensor.requires_grad)
    met.clear()
    for fake in fakes:
        name = _name(fake)
        if name and not name.startswith((_GENERATED, _OURS)):
            raise Fallback("autograd", f"{name}, the history of a torch.autograd.Function")


def _name(tensor: torch.Tensor) -> str:
    """The name of a history that a function in Python has made; empty for others."""
    try:
        history = tensor.grad_fn if tensor.requires_grad else None
    except RuntimeError:  # a view that was made with grad mode off, of what was written since: torch has none for it
        return ""
    return history.name() if isinstance(history, torch.autograd.function.BackwardCFunction) else ""
