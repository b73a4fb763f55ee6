"""Known cases of a capture that touches a world, by expression, with the reason: expected failures until they pass."""

from __future__ import annotations

TOUCHED: dict[str, str] = {}
"""Writes that a capture itself performs."""

UNLIKE: dict[str, str] = {}
"""Writes for which a compiled function's outcome differs from plain Python's."""

OFTEN: set[str] = set()
"""Reads for which a capture runs methods more often than plain Python does."""
