"""What a capture is known to touch, by expression and with the reason. Each is an expected failure, until it passes."""

from __future__ import annotations

_LRU = "a function under functools.lru_cache is really called by the capture, and by each check"

TOUCHED = {"remembered(5)": _LRU, "cached(77)": _LRU}
"""Writes that a capture does itself."""

UNLIKE: dict[str, str] = {}
"""Writes whose calls come to something else than plain Python's."""

OFTEN = {"LIST[ONE]"}  # `__index__` twice
"""Reads for which a capture runs methods more often than plain Python does."""
