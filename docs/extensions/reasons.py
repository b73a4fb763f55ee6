"""The reasons of `python/dynamlir/reasons.toml`: the facts of one, for its section in a guide; the table of all."""

from __future__ import annotations

import functools
import re
import tomllib
from typing import Any

from sphinx.errors import ExtensionError

from . import tree

GUIDE = tree.DOCS / "guides" / "graph-breaks"
MENTION = re.compile(r"^### ([a-z-]+)\n\n<!-- generated: reason ([a-z-]+) -->$", re.MULTILINE)

KINDS = {
    "must-break": "The graph ends here, Python runs the line, and the next graph begins after it.",
    "may-capture": "The graph ends here, Python runs the line, and the next graph begins after it. "
    "A later version may compile it.",
    "refuse": "The whole call runs as plain Python.",
}
CAUSES = {
    "function": "",
    "process": "The cause is the process, not the function: it is reported once for all functions.",
    "argument": "The cause is an argument: it is reported once for all functions.",
    "call": "The cause is where the function is called, and the report names that line.",
    "compiler": "The cause is a fault of the compiler, not your program.",
}


CODE = re.compile(r"(?<![\w`])\.?[A-Za-z_]\w*(?:\.\w+|\([^()\s]*\))*(?:=(?:\{[^}]*\}|[\w.]+))?")


def _prose(text: str) -> str:
    """Returns text with its code in backquotes: names with dots or underscores, calls, and arguments by name."""
    parts = text.split("`")
    parts[::2] = [CODE.sub(_quoted, part) for part in parts[::2]]
    return "`".join(parts)


def _quoted(found: re.Match[str]) -> str:
    return f"`{found[0]}`" if re.search(r"[._(=]", found[0]) else found[0]


@functools.cache
def _all() -> dict[str, dict[str, Any]]:
    return tomllib.loads(tree.read("python/dynamlir/reasons.toml"))


def _pages() -> dict[str, str]:
    """Returns the page that explains each reason; raises if a heading and its comment differ, or if two explain one."""
    found: dict[str, str] = {}
    for page in sorted(GUIDE.glob("*.md")):
        for heading, name in MENTION.findall(page.read_text(encoding="utf-8")):
            if heading != name:
                raise ExtensionError(f"{page}: the section {heading} has the explanation of {name}")
            if name in found:
                raise ExtensionError(f"{page} explains {name}, and so does {found[name]}")
            found[name] = page.name
    return found


def check_complete() -> None:
    """Raises if a reason has no section in the guide, or a section no reason."""
    pages = _pages()
    if missing := sorted(set(_all()) - set(pages)):
        raise ExtensionError(f"docs/guides/graph-breaks: no section explains {', '.join(missing)}")
    if unknown := sorted(set(pages) - set(_all())):
        raise ExtensionError(f"docs/guides/graph-breaks: not in reasons.toml: {', '.join(unknown)}")


def reason(name: str) -> str:
    """Returns the explanation of one reason, what follows from its kind, and its cure."""
    entry = _all()[name]
    kind = KINDS[entry["kind"]]
    if entry.get("raises"):
        kind = "Plain Python is expected to raise, and its exception is explanation enough."
    if entry.get("whole"):
        kind = "There are several graphs, and no plain Python between them: `fullgraph=True` allows it."
    if entry.get("passes"):
        kind += " This removes the obstacle, so the next call is compiled."
    lines = [f"**{_prose(entry['explanation'])}** {kind} {CAUSES[entry.get('cause', 'function')]}".strip()]
    if entry["hint"]:
        lines.append(f"*Cure:* {_prose(entry['hint'])}")
    return "\n\n".join(lines)


def reasons() -> str:
    """Returns a table of all reasons, each with a link to its section."""
    pages = _pages()
    rows = [
        f"| [{name}](../guides/graph-breaks/{pages[name]}#{name}) | {entry['kind']} | {_prose(entry['explanation'])} |"
        for name, entry in _all().items()
    ]
    return "\n".join(["| reason | kind | explanation |", "|---|---|---|", *rows])
