"""The objects that `dynamlir.compile` has returned and that are alive, for reports on this process."""

from __future__ import annotations

import itertools
import types
import weakref
from typing import Any

from .. import native

_known: dict[int, tuple[weakref.ref[Any], str, types.CodeType | None]] = {}
"""The native callables, with their names and the code that they compile."""
_numbers = itertools.count()


def note(compiled: Any, name: str, function: Any) -> None:
    """Remembers a native callable, without keeping it alive."""
    number = next(_numbers)
    code = getattr(function, "__code__", None)
    _known[number] = weakref.ref(compiled, lambda _: _known.pop(number, None)), name, code


def guards() -> list[tuple[str, str, int, tuple[tuple[str, ...], ...]]]:
    """Returns the name, file, line and guards by entry of each function or module that has entries."""
    found = []
    # The function may have an attribute named ``_cache``.
    member = native.module().CompiledFunction.__dict__["_cache"]
    for reference, name, code in list(_known.values()):
        if (compiled := reference()) is None or not isinstance(code, types.CodeType):
            continue
        cache = member.__get__(compiled, type(compiled))
        entries = tuple(tuple(cache[at].guards.code_parts) for at in range(len(cache)))
        if entries:
            found.append((name, code.co_filename, code.co_firstlineno, entries))
    return found
