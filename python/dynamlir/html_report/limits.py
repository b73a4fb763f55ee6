"""The limits of a report, so that a browser opens it quickly however much was compiled, and what they left out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

GRAPHS = 256
KERNELS = 5_000
"""Rows of kernels and extern calls, over all graphs."""
NODES = 3_000
"""Operations in one picture."""
ALL_NODES = 60_000
DECISIONS = 20_000
LINES = 20_000
"""Lines of source, over all files."""
NOTES = 20_000
"""Notes beside them."""
TREE = 2_000
"""Entries in the tree of recompilations."""
BUFFERS = 5_000
STEPS = 5_000
"""Steps of profiles."""
TEXT = 8_000_000
"""Characters of stages, over all graphs."""
KERNEL_TEXT = 60_000
"""Characters of one kernel at one stage."""


@dataclasses.dataclass
class _Left:
    """Items of one kind that were left out, of the total in those places."""

    count: int = 0
    total: int = 0
    places: dict[str, None] = dataclasses.field(default_factory=dict)

    def sentence(self, what: str) -> str:
        counts = f"{self.count:,}" if self.count == self.total else f"{self.count:,} of {self.total:,}"
        named = [place for place in self.places if place]
        if not named:
            return f"{counts} {what}"
        more = f" and {len(named) - 1:,} more" if len(named) > 1 else ""
        return f"{counts} {what}, in {named[0]}{more}"


class Budget:
    """The amounts that are left, and sentences about what was left out."""

    def __init__(self) -> None:
        self._spent: dict[str, int] = {}
        self._left: dict[str, _Left] = {}

    def first(self, items: Sequence[T], limit: int, what: str, where: str = "", shared: bool = True) -> Sequence[T]:
        """Returns as many of the items as there is room for: ``limit`` in all calls about the same, or, if it is not
        shared, in this one. ``where`` is the place that they are left out from."""
        room = max(limit - self._spent.get(what, 0), 0) if shared else limit
        if shared:
            self._spent[what] = self._spent.get(what, 0) + min(len(items), room)
        if len(items) > room:
            self._leave(what, len(items) - room, len(items), where)
        return items[:room]

    def _leave(self, what: str, count: int, total: int, where: str = "") -> None:
        left = self._left.setdefault(what, _Left())
        left.count += count
        left.total += total
        left.places[where] = None

    def text(self, text: str) -> str | None:
        """Returns a text of a stage, shortened if it is long; None if it does not fit into the report."""
        spent = self._spent.get("text", 0)
        if spent + min(len(text), KERNEL_TEXT) > TEXT:
            self._leave("texts of kernels", 1, 1)
            return None
        self._spent["text"] = spent + min(len(text), KERNEL_TEXT)
        if len(text) <= KERNEL_TEXT:
            return text
        return f"{text[:KERNEL_TEXT]}\n… {len(text) - KERNEL_TEXT:,} more characters: see the dump"

    def sentences(self) -> list[str]:
        """Returns what was left out."""
        return [left.sentence(what) for what, left in self._left.items()]
