"""Values that Python code returns to C code, which compares them: ``sorted(xs, key=…)``, ``set(map(…))``.

The capture does not see C code compare them. It notes that when these functions are called.
"""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def compared(key: T) -> T:
    """Returns a key that C code compares with others."""
    return key


def addressed(key: T) -> T:
    """Returns a key whose hash matters to C code as well."""
    return key
