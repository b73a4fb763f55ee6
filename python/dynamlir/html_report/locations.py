"""Locations in MLIR text: the lines of Python that an operation comes from."""

from __future__ import annotations

import re
from collections.abc import Mapping

Chain = tuple[tuple[str, int], ...]
"""The lines (file, line) that led to an operation, innermost first."""

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)$")
_PLACE = re.compile(r":(\d+):\d+(?: to (?:\d+)?:\d+)?")
_ESCAPE = re.compile(rb"\\(\\|\"|n|t|[0-9A-Fa-f]{2})")
_DEEPEST = 200
"""The number of nested locations that are read: Python's own stack is limited."""


class Locations:
    """The location aliases of one text."""

    def __init__(self, lines: list[str]) -> None:
        found = (_ALIAS.match(line) for line in lines if line.startswith("#loc"))
        self._texts: Mapping[str, str] = {match[1]: match[2] for match in found if match}
        self._known: dict[str, frozenset[Chain]] = {}

    def of_line(self, line: str) -> frozenset[Chain]:
        """Returns the chains of the location at the end of an operation's line; empty if it has none."""
        start = line.rfind(" loc(")
        return frozenset() if start < 0 or not line.endswith(")") else self._of(line[start + 5 : -1], 0)

    def _of(self, text: str, depth: int) -> frozenset[Chain]:
        if text not in self._known:
            self._known[text] = frozenset()  # a location within itself is no location
            self._known[text] = _Reader(self, text, depth).location() if depth < _DEEPEST else frozenset()
        return self._known[text]

    def alias(self, name: str, depth: int) -> frozenset[Chain]:
        """Returns the chains of an alias."""
        text = self._texts.get(name)
        return frozenset() if text is None else self._of(text, depth)


class _Reader:
    """Reads one location. A text that is no location gives no chains."""

    def __init__(self, aliases: Locations, text: str, depth: int) -> None:
        self._aliases = aliases
        self._text = text
        self._at = 0
        self._depth = depth + 1

    def location(self) -> frozenset[Chain]:
        if self._depth > _DEEPEST:
            return frozenset()
        if self._take("callsite("):
            inner = self._nested()
            outer = self._nested() if self._take(" at ") else frozenset[Chain]()
            self._take(")")
            if not inner or not outer:
                return inner or outer
            return frozenset(one + other for one in inner for other in outer)
        if self._take("fused"):
            return self._fused()
        if self._text.startswith('"', self._at):
            return self._named()
        alias = re.compile(r"#loc\d*").match(self._text, self._at)
        if alias:
            self._at = alias.end()
            return self._aliases.alias(alias[0], self._depth)
        return frozenset()

    def _nested(self) -> frozenset[Chain]:
        self._depth += 1
        return self.location()

    def _fused(self) -> frozenset[Chain]:
        opening = self._text.find("[", self._at)
        if opening < 0:
            return frozenset()
        self._at = opening + 1
        found = self._nested()
        while self._take(", "):
            found |= self._nested()
        self._take("]")
        return found

    def _named(self) -> frozenset[Chain]:
        end = self._at + 1
        while end < len(self._text) and self._text[end] != '"':
            end += 2 if self._text[end] == "\\" else 1
        name = unescaped(self._text[self._at + 1 : end])
        self._at = end + 1
        place = _PLACE.match(self._text, self._at)
        if place:
            self._at = place.end()
            return frozenset({((name, int(place[1])),)})
        if self._take("("):
            found = self._nested()
            self._take(")")
            return found
        return frozenset()

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True


def unescaped(text: str) -> str:
    """Returns the text of an MLIR string."""

    def byte(match: re.Match[bytes]) -> bytes:
        short = {b"\\": b"\\", b'"': b'"', b"n": b"\n", b"t": b"\t"}
        return short[match[1]] if match[1] in short else bytes([int(match[1], 16)])

    return _ESCAPE.sub(byte, text.encode("utf-8", "surrogateescape")).decode("utf-8", "replace")


def without(line: str) -> str:
    """Returns a line without its locations, which are repeated on every operation."""
    while (start := line.find(" loc(")) >= 0:
        depth, end = 0, start + 4
        while end < len(line):
            if line[end] == '"':
                end += 1
                while end < len(line) and line[end] != '"':
                    end += 2 if line[end] == "\\" else 1
            depth += {"(": 1, ")": -1}.get(line[end : end + 1], 0)
            end += 1
            if depth == 0:
                break
        line = line[:start] + line[end:]
    return line
