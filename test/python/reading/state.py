"""The state of each of the grid's programs: tables, caches and the places of its container."""

import contextvars
import functools
import types
import weakref
from typing import Any

from reading.prelude import *  # noqa: F403
from reading.prelude import Box, Plain, SlottedPair


class Kept:
    """A class with an attribute for the container."""

    held: Any = None


LOG: list[Any] = []
STATE: dict[Any, Any] = {"n": 1}
MEMO: dict[Any, Any] = {}
ZERO = {"k": 0}
PAIRS = {(3, 1): 7, (2, 1): 8, (0.5, 1): 9}
PLACES = [5, 6, 7, 8]
BOX = Box()
ALIVE: list[Any] = []
HOME: Any = None
BOX_OF_HOME, SLOTS_OF_HOME, TABLE_OF_HOME, LIST_OF_HOME = Box(), SlottedPair(0), {"j": 0, "k": 0}, [0, 0]
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE")
MODULE = types.ModuleType("module")
KEPT = Kept()


def tried(find):
    try:
        return 2 if find() is None else 3
    except Exception as error:
        LOG.append(str(error))
        return len(str(error))


def kept(key):
    if key not in MEMO:
        MEMO[key] = len(MEMO) + 2
    return MEMO[key]


@functools.lru_cache
def cached(value):
    return sum(value) if isinstance(value, tuple) else float(value) + 2


@functools.lru_cache(maxsize=4)
def cached_pair(a, b):
    return a * 2 + b


def remembered(value):
    """Memoizes by the text of the argument."""
    key = repr(type(value).__name__), str(value)[:40]
    return kept(key)


def referring(n):
    ALIVE.append(Plain(n))
    return weakref.ref(ALIVE[-1])


def given(held=None):
    return held


def given_by_name(*, held=None):
    return held
