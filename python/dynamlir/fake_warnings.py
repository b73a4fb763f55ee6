"""Warnings given by torch's own Python functions when they are called on fakes.

A warning belongs to the line that gives it and to the call that runs that line. If Python shows it once per line, it is
shown during the capture, for that line, and Python then suppresses it on later runs. If it is shown each time, recorded
or raised, it ends the graph, so that CPython runs the line.
"""

from __future__ import annotations

import os
import sys
import threading
import types
import warnings
from typing import Any

from .reasons import Fallback

_OURS = os.path.dirname(__file__) + os.sep
_EACH_TIME = ("always", "all", "error")

_local = threading.local()
_changing = threading.Lock()
_listening = 0
_genuine = warnings.warn


class heard:
    """Handles warnings of the enclosed calls as above. Not a generator, for the reason given at `modes.set_aside`."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _listening, _genuine
        with _changing:
            if _listening == 0 and warnings.warn is not _warn:
                _genuine, warnings.warn = warnings.warn, _warn
            _listening += 1
        _local.within = getattr(_local, "within", 0) + 1

    def __exit__(self, *error: object) -> None:
        global _listening
        _local.within -= 1
        with _changing:
            _listening -= 1
            if _listening == 0 and warnings.warn is _warn:
                warnings.warn = _genuine


def _warn(
    message: str | Warning,
    category: type[Warning] | None = None,
    stacklevel: int = 1,
    source: Any = None,
    **rest: Any,
) -> None:
    if not getattr(_local, "within", 0) or rest:
        _genuine(message, category, stacklevel + 1, source, **rest)
        return
    frame = _warned(sys._getframe(1), stacklevel)
    kind = type(message) if isinstance(message, Warning) else (category or UserWarning)
    module = str(frame.f_globals.get("__name__") or "<unknown>")
    if _action(str(message), kind, module, frame.f_lineno) in _EACH_TIME:
        raise Fallback("print", f"{sys._getframe(1).f_code.co_name} warns: {message}".split("\n")[0])
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, kind, frame.f_code.co_filename, frame.f_lineno, module, registry, source=source)


def _warned(frame: types.FrameType, stacklevel: int) -> types.FrameType:
    """Returns the frame that a warning concerns, skipping our frames between torch's and the user's."""
    for _ in range(stacklevel - 1):
        outer = frame.f_back
        while outer is not None and outer.f_code.co_filename.startswith(_OURS):
            outer = outer.f_back
        if outer is None:
            break
        frame = outer
    return frame


def _action(text: str, kind: type[Warning], module: str, line: int) -> str:
    """Returns the action of the warning filters for a warning."""
    for action, message, category, place, number in warnings.filters:
        if (
            (message is None or message.match(text))
            and issubclass(kind, category)
            and (place is None or place.match(module))
            and number in (0, line)
        ):
            return action
    return str(getattr(warnings, "defaultaction", "default"))
