"""What a capture is known to touch, by expression and with the reason. Each is an expected failure, until it passes."""

from __future__ import annotations

TOUCHED: dict[str, str] = {}
"""Writes that a capture does itself."""

UNLIKE: dict[str, str] = {}
"""Writes whose calls come to something else than plain Python's."""

OFTEN: set[str] = set()
"""Reads for which a capture runs methods more often than plain Python does."""
