"""Distinguishes the user's Python lines from those that torch, dynamlir or Python's own library run for them."""

from __future__ import annotations

import functools
import os
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence

import torch

Line = tuple[str, int, str, int]
"""(file, line, function, column): the column of the expression, in characters from 1; 0 if it is not known."""


def _folder(path: str) -> str:
    return os.path.join(os.path.abspath(path), "")


OURS = _folder(os.path.dirname(__file__))
TORCH = _folder(os.path.dirname(torch.__file__))
_STANDARD = tuple({_folder(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")})
_INSTALLED = tuple(
    {_folder(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    | {os.path.join(folder, name, "") for folder in _STANDARD for name in ("site-packages", "dist-packages")}
)

LIBRARIES = (TORCH, OURS)
"""Folders of code that users do not inspect, for callers that only compare the beginning of a name."""


@functools.lru_cache(maxsize=4096)
def is_users(file: str) -> bool:
    """Returns true if a file is the user's, or a library's that they chose: not torch's, dynamlir's or Python's own."""
    if file.startswith(LIBRARIES) or file.startswith("<frozen ") or file.startswith("<dynamlir "):
        return False
    return file.startswith(_INSTALLED) or not file.startswith(_STANDARD)


def innermost(location: Iterable[Line]) -> Line | None:
    """Returns the user's own line in a location, whose innermost frame comes first; None if there is none."""
    return next((line for line in location if is_users(line[0])), None)


def caller() -> Line | None:
    """Returns the user's line that this thread is at: the caller, for events whose location has no such line."""
    frame = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename):
            return (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, 0)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def show(line: Line) -> str:
    """``file:line in function``"""
    file, number, function, _ = line
    return f"{file}:{number} in {function}" if function else f"{file}:{number}"


def place(line: Line | None) -> str:
    """``file:line:column``, or ``file:line`` if the column is not known; empty without a line."""
    if line is None:
        return ""
    file, number, _, column = line
    return f"{file}:{number}:{column}" if column else f"{file}:{number}"


def described(location: Sequence[Line], called_from: Line | None = None) -> str:
    """Returns `` at`` the user's line, with the library's line as a detail; empty if nothing is known.

    ``called_from`` is the user's line if the location has none.
    """
    location = [line for line in location if not line[0].startswith(OURS)]
    if not location:
        return "" if called_from is None else f" in the call at {show(called_from)}"
    own = innermost(location)
    if own is None:
        return f" at {show(location[0])}" + ("" if called_from is None else f", called at {show(called_from)}")
    return f" at {show(own)}" + ("" if own == location[0] else f" (within {show(location[0])})")


_FRAME = re.compile(r'^\s*File "(.*)", line (\d+)(?:, in (.*))?$', re.MULTILINE)


@functools.lru_cache(maxsize=4096)
def parse_stack(text: str | None) -> list[Line]:
    """Returns the frames of an fx node's stack trace, innermost first. The trace has no columns."""
    return [(file, int(line), name or "", 0) for file, line, name in reversed(_FRAME.findall(text or ""))]
