"""The settings of `dynamlir.config` and the topics of `DYNAMLIR_LOGS`, as Markdown."""

from __future__ import annotations

import re

from . import tree


def prose(text: str) -> str:
    """Returns a docstring's text as Markdown: one kind of backquote for code."""
    return re.sub(r"``(.+?)``", r"`\1`", text)


def _options() -> set[str]:
    """Returns the names of the settings that ``options={…}`` of one compilation takes."""
    text = tree.read("python/dynamlir/options.py")
    body = text.split("class Options", 1)[1].split("\n    def ", 1)[0]
    return set(re.findall(r"^    (\w+):", body, re.MULTILINE))


def settings() -> str:
    """Returns a table of the settings, and a section for each of them."""
    config = tree.module("python/dynamlir/config.py")
    options = _options()
    parts = ["| `dynamlir.config` | `options={…}` | environment | default |\n|---|---|---|---|"]
    for name, setting in config.SETTINGS.items():
        option = f'`"{name}"`' if name in options else "–"
        parts.append(f"| [{name}](#{name}) | {option} | `{setting.environment}` | `{setting.default!r}` |")
    for name, setting in config.SETTINGS.items():
        takes = re.sub(r"'(\w+)'", r'`"\1"`', setting.expected)
        parts.append(f"\n### {name}\n\n{prose(setting.doc)}\n\nTakes {takes}.")
    return "\n".join(parts)


def log_topics() -> str:
    """Returns a table of the topics."""
    topics = tree.module("python/dynamlir/logs/topics.py").TOPICS
    rows = (f"| `{name}` | {prose(text)} |" for name, text in topics.items())
    return "\n".join(["| topic | shows |", "|---|---|", *rows])
