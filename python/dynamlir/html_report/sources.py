"""The user's source, with what happened beside its lines."""

from __future__ import annotations

import dataclasses
import io
import keyword
import linecache
import os
import tokenize
from collections.abc import Iterable

from markupsafe import Markup, escape

from . import limits

_WHOLE = 400
"""Lines of a file that is shown as a whole; of a longer one, those around lines with notes."""
_AROUND = 8


@dataclasses.dataclass(frozen=True)
class Note:
    """A remark about a line."""

    kind: str
    """``break``, ``guard``, ``kernel``, ``extern`` or ``graph``."""
    text: str
    detail: str = ""
    target: str = ""
    """The anchor that it leads to; empty if there is none."""


@dataclasses.dataclass
class Line:
    """A line of source; ``number`` 0 is a gap of ``skipped`` lines."""

    number: int
    markup: Markup
    notes: tuple[Note, ...] = ()
    skipped: int = 0


@dataclasses.dataclass
class File:
    """A file with notes."""

    anchor: str
    path: str
    shown: str
    """The path, from the current folder if it is in there."""
    lines: list[Line]
    missing: bool = False
    """True if its source is no longer there."""
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    """The notes by kind."""


class Sources:
    """Collects notes and links, then makes the files."""

    def __init__(self) -> None:
        self._notes: dict[str, dict[int, dict[Note, None]]] = {}
        self._shown: dict[str, set[int]] = {}
        self._anchors: dict[tuple[str, int], str] = {}

    def note(self, file: str, line: int, note: Note) -> None:
        """Adds a note to a line; equal ones are one."""
        self._notes.setdefault(file, {}).setdefault(line, {})[note] = None

    def mention(self, file: str, line: int) -> None:
        """Asks for a line to be shown, so that `link` finds it, if its file has notes."""
        self._shown.setdefault(file, set()).add(line)

    def files(self, budget: limits.Budget) -> list[File]:
        """Returns the files; from then on, `link` knows their lines."""
        return [self._file(f"f{at}", file, notes, budget) for at, (file, notes) in enumerate(self._notes.items())]

    def link(self, place: str) -> str:
        """Returns the anchor of a place, given as ``file:line`` or ``file:line:column``; empty if it is not shown."""
        return self._anchors.get(split(place), "")

    def _file(self, anchor: str, path: str, notes: dict[int, dict[Note, None]], budget: limits.Budget) -> File:
        source = [line.rstrip("\r\n") for line in linecache.getlines(path)]
        known = [line for line in {*notes, *self._shown.get(path, ())} if line > 0]
        numbers = sorted(known) if not source else _visible(len(source), known)
        numbers = list(budget.first(numbers, limits.LINES, "lines of source", path))
        colored = _colored(source) if source else {}
        made = File(anchor, path, shown(path), [], not source)
        before = 0
        for number in numbers:
            if number > before + 1 and source:
                made.lines.append(Line(0, Markup(), skipped=number - before - 1))
            here = tuple(budget.first(list(notes.get(number, ())), limits.NOTES, "notes beside lines", path))
            made.lines.append(Line(number, colored.get(number, Markup()), here))
            self._anchors[path, number] = f"{anchor}-L{number}"
            for note in here:
                made.counts[note.kind] = made.counts.get(note.kind, 0) + 1
            before = number
        if source and before < len(source):
            made.lines.append(Line(0, Markup(), skipped=len(source) - before))
        return made


def split(place: str) -> tuple[str, int]:
    """Returns the file and the line of a place, given as ``file:line`` or ``file:line:column``; line 0 without one."""
    file, _, last = place.rpartition(":")
    before, _, line = file.rpartition(":")
    if before and line.isdecimal() and last.isdecimal():
        return before, int(line)
    return (file, int(last)) if file and last.isdecimal() else (place, 0)


def shown(path: str) -> str:
    """Returns a path from the folder of installed packages, or from the current one, if it is in there."""
    _, installed, rest = path.rpartition(f"site-packages{os.sep}")
    if installed:
        return rest
    try:
        inside = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    return path if inside.startswith(os.pardir) or path.startswith("<") else inside


def _visible(count: int, known: Iterable[int]) -> list[int]:
    if count <= _WHOLE:
        return list(range(1, count + 1))
    found: set[int] = set()
    for line in known:
        found.update(range(max(1, line - _AROUND), min(count, line + _AROUND) + 1))
    return sorted(found)


_KINDS = {tokenize.STRING: "str", tokenize.COMMENT: "com", tokenize.NUMBER: "num"}
# Python 3.12 and later divide f-strings into several tokens.
_PARTS = ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
_KINDS |= {getattr(tokenize, name): "str" for name in _PARTS if hasattr(tokenize, name)}


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return "kw" if keyword.iskeyword(token.string) else ""
    return _KINDS.get(token.type, "")


def _colored(source: list[str]) -> dict[int, Markup]:
    """Returns the lines as markup. Source that is not Python stays plain."""
    spans: dict[int, list[tuple[int, int, str]]] = {}
    try:
        for token in tokenize.generate_tokens(io.StringIO("\n".join(source) + "\n").readline):
            kind, (first, start), (last, end) = _kind(token), token.start, token.end
            for number in range(first, last + 1) if kind else ():
                span = start if number == first else 0, end if number == last else -1, kind
                spans.setdefault(number, []).append(span)
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass  # a cell of a notebook may contain commands
    return {at: _line(text, spans.get(at, [])) for at, text in enumerate(source, 1)}


def _line(text: str, spans: list[tuple[int, int, str]]) -> Markup:
    parts, at = [], 0
    for start, end, kind in spans:
        end = len(text) if end < 0 else end
        if start < at:
            continue
        parts += [escape(text[at:start]), Markup('<i class="{}">{}</i>').format(kind, text[start:end])]
        at = end
    return Markup("").join([*parts, escape(text[at:])])
