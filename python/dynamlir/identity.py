"""Which tensor each output is a view of: what eager has, what the native executable makes, and how to get from one to
the other.

Values and memory are right without this. It is about ``_is_view()`` and ``_base``, on which autograd's checks of later
in-place operations rest. The native side makes every view directly of the input or result whose memory it shows; eager
breaks such chains at ``detach()`` and at composites that hide one, and a tensor that changed its shape in place stays
the base of the views made before. Most graphs need no step at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from .recording import Recording


class Base(NamedTuple):
    """What an output is a view of: ``input`` or ``output`` number ``at``, or a tensor nobody sees (``hidden``), which
    is the one that output ``at`` is a view of."""

    kind: str
    at: int


def observed(leaves: Sequence[Any], inputs: Sequence[torch.Tensor], plain: set[int]) -> list[Base | None]:
    """The bases of a recording's outputs as the fakes have them; None for what is not a view. ``plain``: outputs that
    are not, even if the fakes are."""
    positions = {id(tensor): at for at, tensor in reversed(list(enumerate(inputs)))}
    shown = {id(leaf): at for at, leaf in reversed(list(enumerate(leaves)))}
    hidden: dict[int, int] = {}
    found: list[Base | None] = []
    for at, leaf in enumerate(leaves):
        base = leaf._base if isinstance(leaf, torch.Tensor) and leaf._is_view() and at not in plain else None
        if base is None or id(leaf) in positions:
            found.append(None)
        elif id(base) in positions:
            found.append(Base("input", positions[id(base)]))
        elif id(base) in shown:
            found.append(Base("output", shown[id(base)]))
        else:
            found.append(Base("hidden", hidden.setdefault(id(base), at)))
    return found


def made(recording: Recording) -> list[Base | None]:
    """The bases that the native executable gives the outputs."""
    positions = {record.id: at for at, record in reversed(list(enumerate(recording.inputs)))}
    sources = aliases(recording)
    whole: dict[int, int] = {}
    roots: dict[int, int] = {}
    for at, output in enumerate(recording.outputs):
        if output.kind == "value":
            roots[at] = root_of(output.id, sources)
            if roots[at] == output.id:
                whole.setdefault(output.id, at)
    hidden: dict[int, int] = {}
    found: list[Base | None] = []
    for at, output in enumerate(recording.outputs):
        root = roots.get(at)
        if root is None or root == output.id:
            found.append(None)
        elif root in positions:
            found.append(Base("input", positions[root]))
        elif root in whole:
            found.append(Base("output", whole[root]))
        else:
            found.append(Base("hidden", hidden.setdefault(root, at)))
    return found


class Steps:
    """What is left to do on the outputs of each run."""

    def __init__(self, recording: Recording) -> None:
        first: dict[int, int] = {}
        self.copies: list[tuple[int, int]] = []
        """Outputs that are the same object as an earlier one, once that is mended."""
        steps: list[tuple[int, Base | None]] = []
        for at, (output, natural) in enumerate(zip(recording.outputs, made(recording))):
            if output.kind != "value":
                continue
            same = first.setdefault(output.id, at)
            if output.base == natural:
                continue
            if same == at:
                steps.append((at, None if output.base is None else Base(*output.base)))
            else:
                self.copies.append((at, same))
        # What is not a view may be another's base, and the first view of a hidden tensor knows it for the others.
        self._steps = sorted(steps, key=lambda step: (step[1] is not None, step[1] != ("hidden", step[0])))

    def described(self) -> list[tuple[int, str, int]]:
        """The steps in order, as (output, kind of base, its number)."""
        return [(at, "none", 0) if base is None else (at, base.kind, base.at) for at, base in self._steps]

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply(self, outputs: list[Any], arguments: Sequence[Any]) -> None:
        """Replace outputs by tensors over the same memory that are views of what they should be."""
        for at, base in self._steps:
            old = outputs[at]
            if old.is_inference():
                return  # inference tensors keep no bases
            outputs[at] = old.detach() if base is None else _view(old, at, base, outputs, arguments)
        for at, same in self.copies:
            outputs[at] = outputs[same]


def _view(old: torch.Tensor, at: int, base: Base, outputs: list[Any], arguments: Sequence[Any]) -> torch.Tensor:
    if base.kind == "input":
        target = arguments[base.at]
    elif base.kind == "output":
        target = outputs[base.at]
    else:
        target = old.detach() if base.at == at else outputs[base.at]._base
    return target.as_strided(old.shape, old.stride(), old.storage_offset())


def aliases(recording: Recording) -> dict[int, int]:
    """Each value that shares an operand's storage, with that operand's value."""
    return {
        value: op.operands[alias]
        for op in recording.ops
        for value, alias in zip(op.result_ids, op.aliases)
        if alias >= 0
    }


def root_of(value: int, sources: dict[int, int]) -> int:
    """The value that a chain of views starts from."""
    while value in sources:
        value = sources[value]
    return value
