"""Text for a terminal of any width, for a pipe, and for a file: lines are wrapped and coloured on terminals only."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable
from typing import TextIO

COLOURS = {"OK": "32", "warning": "33", "problem": "31"}
WIDE = 10_000
"""The number of columns where nobody wraps lines."""


def columns(stream: TextIO | None = None) -> int:
    """Returns the number of columns, for text that is wrapped."""
    stream = sys.stdout if stream is None else stream
    if stream.isatty() or os.environ.get("COLUMNS"):
        return max(shutil.get_terminal_size().columns, 20)
    return WIDE


def colour(text: str, code: str, stream: TextIO | None = None) -> str:
    """Returns the text in a colour, if the stream shows colours and the user does not mind."""
    stream = sys.stdout if stream is None else stream
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def wrapped(text: str, first: str = "", rest: str = "", room: int = 0) -> str:
    """Returns a paragraph, with ``first`` before its first line and ``rest`` before others. Words are not broken.

    ``room`` is the number of columns of `first` that are not shown, such as codes for colours.
    """
    width = columns() + room
    if width >= WIDE:
        return first + " ".join(text.split())
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines) or first.rstrip()


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Returns names and values in two columns, or with each value below its name where that is too wide."""
    rows = list(rows)
    left = max((len(name) for name, _ in rows), default=0) + 2
    made = []
    for name, value in rows:
        if columns() < 60:
            made.append(name)
            made += [wrapped(line, "  ", "  ") for line in value.splitlines() or [""]]
            continue
        for line in value.splitlines() or [""]:
            made.append(wrapped(line, name.ljust(left), " " * left).rstrip())
            name = ""
    return "\n".join(made)
