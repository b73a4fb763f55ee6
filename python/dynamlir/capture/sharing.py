"""Entries shared by compiled objects: those of one function, method or module compiled with the same arguments.

``dynamlir.compile(f)(x)`` in a loop compiles once. The entries live as long as the original or the objects that use
them.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Mapping
from typing import Any

from .. import native


def caller() -> types.FunctionType:
    """Returns ``lambda self, *args, **kwargs: self(*args, **kwargs)`` with its own code object, and so cache."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call")


_Known = dict[tuple[Any, ...], tuple[types.FunctionType | None, Any]]
_known: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], _Known]] = {}
"""Callers and shares by the compile arguments, for each compiled object. Objects are keyed by identity, because modules
may define their own equality. A method is its object and its function. Entries hold user objects weakly, so nothing
here keeps the original alive."""


def shared(
    model: Any, function: types.FunctionType | None, backend: Any, options: Mapping[str, Any] | None, *asked: Any
) -> tuple[types.FunctionType, Any]:
    """Returns the function whose frame is captured for ``model``, and its share of the cache of that code.

    ``function`` is the one of a function or method; for None it is a `caller`. The share is None where nothing is
    shared: with a backend that is the user's own callable, whose results may keep anything alive, and with the options
    ``no_cache`` and ``dump``, which ask for a compilation.
    """
    options = options or {}
    alone = function or caller(), None
    if not isinstance(backend, str) or options.get("no_cache") or options.get("dump"):
        return alone
    try:
        # A method is another object at each access.
        is_method = isinstance(model, types.MethodType) and function
        known = _of(model.__self__, function) if is_method else _of(model)
        # Entries belong to the code, and a function's code can be replaced.
        wish = (function and id(function.__code__), backend, tuple(sorted(options.items())), *asked)
        if wish not in known:
            known[wish] = (None if function else alone[0], native.module().Share(alone[0]))
        made, share = known[wish]
    except TypeError:  # an object without weak references, or an option without a hash
        return alone
    return made or alone[0], share


def _of(*things: Any) -> _Known:
    place = tuple(map(id, things))
    if place not in _known:
        # Written in C: an exception that a signal handler raises inside a Python callback would be lost.
        forget = functools.partial(_known.pop, place)
        _known[place] = [weakref.ref(thing, forget) for thing in things], {}
    return _known[place][1]
