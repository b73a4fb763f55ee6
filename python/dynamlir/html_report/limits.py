"""The limits of a report, so that a browser opens it quickly however much was compiled, and what they left out."""

from __future__ import annotations

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


class Budget:
    """The amounts that are left, and sentences about what was left out."""

    def __init__(self) -> None:
        self.left_out: list[str] = []
        self._spent: dict[str, int] = {}

    def first(self, items: Sequence[T], limit: int, what: str, spent: str = "") -> Sequence[T]:
        """Returns as many of the items as there is room for. With ``spent``, all calls of that name share a limit."""
        room = max(limit - self._spent.get(spent, 0), 0) if spent else limit
        if spent:
            self._spent[spent] = self._spent.get(spent, 0) + min(len(items), room)
        if len(items) > room:
            self.left_out.append(f"{len(items) - room:,} of {len(items):,} {what}")
        return items[:room]

    def text(self, text: str) -> str | None:
        """Returns a text of a stage, shortened if it is long; None if there is no room for it."""
        spent = self._spent.get("text", 0)
        if spent + min(len(text), KERNEL_TEXT) > TEXT:
            self._spent["texts left out"] = self._spent.get("texts left out", 0) + 1
            return None
        self._spent["text"] = spent + min(len(text), KERNEL_TEXT)
        if len(text) <= KERNEL_TEXT:
            return text
        return f"{text[:KERNEL_TEXT]}\n… {len(text) - KERNEL_TEXT:,} more characters: see the dump"

    def sentences(self) -> list[str]:
        """Returns what was left out."""
        texts = self._spent.get("texts left out", 0)
        return [*self.left_out, *([f"{texts:,} texts of kernels"] if texts else [])]
