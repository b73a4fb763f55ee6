"""Entries that compiled objects have in common: those of one function, method or module that were asked for alike.

``dynamlir.compile(f)(x)`` in a loop compiles once. The entries live as long as what was compiled, or what uses them.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Mapping
from typing import Any

from .. import native


def caller() -> types.FunctionType:
    """``lambda self, *args, **kwargs: self(*args, **kwargs)`` with a code object, and so a cache, of its own."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call")


_Known = dict[tuple[Any, ...], tuple[types.FunctionType | None, Any]]
_known: dict[tuple[int, ...], tuple[list[weakref.ref[Any]], _Known]] = {}
"""Callers and shares by what was asked for, for each thing that was compiled, by its identity: modules may compare as
they like. A method is its object and its function. Entries hold what is the user's weakly, so nothing in here keeps
what was compiled alive."""


def shared(
    model: Any, function: types.FunctionType | None, backend: Any, options: Mapping[str, Any] | None, *asked: Any
) -> tuple[types.FunctionType, Any]:
    """The function whose frame is captured for ``model``, and its share of the cache of that code.

    ``function`` is the one of a function or method; for None it is a `caller`. The share is None where nothing is
    shared: with a backend that is the user's own callable, of which nobody knows what its results keep alive, and with
    the options ``no_cache`` and ``dump``, which ask for a compilation.
    """
    options = options or {}
    alone = function or caller(), None
    if not isinstance(backend, str) or options.get("no_cache") or options.get("dump"):
        return alone
    try:
        # A method is another object each time.
        is_method = isinstance(model, types.MethodType) and function
        known = _of(model.__self__, function) if is_method else _of(model)
        # Entries belong to the code, and a function may be given another one.
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
        # Of C: what a signal handler raises inside a callback in Python is lost.
        forget = functools.partial(_known.pop, place)
        _known[place] = [weakref.ref(thing, forget) for thing in things], {}
    return _known[place][1]
