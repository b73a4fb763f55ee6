"""Reads a report's HTML with Python's own parser."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "br", "hr", "img", "link", "base", "area", "col", "embed", "source", "track", "wbr"}


class Pages(HTMLParser):
    """A parsed report. Elements that are not closed, or closed in another order, are an error."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: dict[str, str] = {}
        """The text of each script by its ID; that of the program has none."""
        self.words: list[str] = []
        """The visible texts."""
        self._open: list[str] = []
        self._script: str | None = None
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs), (tag, attrs)
        self.elements.append((tag, given))
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag == "a":
            self.links.append(str(given["href"]))
        if tag == "script":
            self._script = given.get("id") or ""
            self.texts[self._script] = ""
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open and self._open[-1] == tag, (tag, self._open, self.getpos())
        self._open.pop()
        if tag == "script":
            self._script = None

    def handle_data(self, data: str) -> None:
        if self._script is not None:
            self.texts[self._script] += data
        elif "style" not in self._open:
            self.words.append(data)

    @property
    def text(self) -> str:
        """The visible text, with single spaces."""
        return " ".join(" ".join(self.words).split())

    @property
    def data(self) -> dict[str, Any]:
        """The embedded data, by its ID."""
        return {name: json.loads(text) for name, text in self.texts.items() if name}

    def check(self) -> None:
        """Checks what holds for each report."""
        assert len(set(self.ids)) == len(self.ids)
        missing = {link for link in self.links if link[1:] not in self.ids}
        assert not missing, sorted(missing)[:10]
        for name, data in self.data.items():
            if name.endswith("-data") and name.startswith("g"):
                self._check_picture(data)
        rows = self.data["decision-data"]
        assert all(0 <= at < len(rows["texts"]) for row in rows["rows"] for at in row[1:9])
        anchors = {rows["texts"][row[8]] for row in rows["rows"]} - {""}
        assert anchors <= set(self.ids)
        for tag, attributes in self.elements:
            assert tag not in ("img", "iframe", "object", "embed", "link", "base"), tag
            assert not any(name.startswith("on") or name in ("src", "srcdoc") for name in attributes), (tag, attributes)

    def _check_picture(self, data: dict[str, Any]) -> None:
        for at, node in enumerate(data["nodes"]):
            assert all(0 <= operand < at for operand in node[4]), node
            assert -1 <= node[5] < len(data["places"]) and 0 <= node[6] < len(data["modules"])
            assert all(0 <= kernel < len(data["kernels"]) for kernel in node[7])
        assert {anchor for _, anchor, *_ in data["kernels"]} <= set(self.ids)
        assert {anchor for _, anchor, _ in data["places"]} - {""} <= set(self.ids)
