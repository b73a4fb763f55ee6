"""Docstrings as they are written here: a name in single backquotes is a link if it has an entry, and code if not."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

from . import tree

QUOTED = re.compile(r"(?<![`:\w])`([^`]+)`(?!`|__)")


def _public() -> set[str]:
    """Returns the names that the package exports, from its text."""
    text = tree.read("python/dynamlir/__init__.py")
    (listed,) = re.findall(r"^__all__ = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r'"(\w+)"', listed)) - {"config", "__version__"}


def _links(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    public = _public()

    def link(found: re.Match[str]) -> str:
        target = found[1].removesuffix("()").removeprefix("dynamlir.")
        if target in public and not name.endswith(f".{target}"):
            return f":py:obj:`{found[1]} <dynamlir.{target}>`"
        return f"``{found[1]}``"

    lines[:] = [QUOTED.sub(link, line) for line in lines]


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", _links)
    return {"parallel_read_safe": True}
