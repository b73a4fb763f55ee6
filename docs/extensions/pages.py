"""Text of each page before Sphinx parses it: generated parts, pages from the repository's root, links to its files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from . import passes, reasons, settings, tree

FROM_ROOT = {
    "architecture/index": "ARCHITECTURE.md",
    "project/contributing": "CONTRIBUTING.md",
    "project/changelog": "CHANGELOG.md",
}
"""Pages whose text is a file in the repository's root, where people look for it; ``docs`` has a stub with a link."""

GENERATED: dict[str, Callable[..., str]] = {
    "settings": settings.settings,
    "log-topics": settings.log_topics,
    "reason": reasons.reason,
    "reasons": reasons.reasons,
    "passes": passes.passes,
}
"""The functions that return the Markdown for ``<!-- generated: name argument -->``."""

COMMENT = re.compile(r"^<!-- generated: (\S+) ?(.*?) -->$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")


def _expand(found: re.Match[str]) -> str:
    name, arguments = found.groups()
    if name not in GENERATED:
        raise ExtensionError(f"{found[0]}: nothing generates that; known: {', '.join(GENERATED)}")
    return GENERATED[name](*arguments.split())


def _relinked(text: str, file: Path, page: Path) -> str:
    """Returns the text of a file with links that work from its page: to other pages, or to the repository's files."""
    pages = {tree.ROOT / path: tree.DOCS / f"{name}.md" for name, path in FROM_ROOT.items()}

    def link(found: re.Match[str]) -> str:
        path, mark, anchor = found[0].partition("#")
        if "://" in path or not path:
            return found[0]
        target = Path(os.path.normpath(file.parent / path))
        target = pages.get(target, target)
        if target.is_relative_to(tree.DOCS) and target.suffix == ".md":
            return os.path.relpath(target, page.parent) + mark + anchor
        if target.exists():
            kind = "tree" if target.is_dir() else "blob"
            return f"{tree.REPOSITORY}/{kind}/main/{target.relative_to(tree.ROOT)}{mark}{anchor}"
        return found[0]

    # Links are outside of code: every other part is between fences.
    parts = re.split(r"(^ *```.*?^ *```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    file = tree.ROOT / FROM_ROOT[name] if name in FROM_ROOT else page
    if file != page:
        app.env.note_dependency(str(file))
        # The stub lists the pages below it, which only the site needs.
        _, mark, below = source[0].partition("```{toctree}")
        source[0] = f"{file.read_text(encoding='utf-8')}\n{mark}{below}"
    source[0] = _relinked(COMMENT.sub(_expand, source[0]), file, page)


def _with_generated_parts(app: Sphinx, env: Any, added: set[str], changed: set[str], removed: set[str]) -> set[str]:
    """Has pages with generated parts read each time: their sources are elsewhere."""
    return {
        name for name in env.found_docs if "<!-- generated:" in Path(env.doc2path(name)).read_text(encoding="utf-8")
    }


def _complete(app: Sphinx, config: Any) -> None:
    reasons.check_complete()


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.connect("config-inited", _complete)
    app.connect("source-read", _read)
    app.connect("env-get-outdated", _with_generated_parts)
    return {"parallel_read_safe": True}
