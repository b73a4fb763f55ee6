"""Logging by topic: ``DYNAMLIR_LOGS=fallback,perf`` prints those topics to stderr; ``all`` is every one, and ``help``
lists them.

A ``+`` before a topic requests more detail, such as tracebacks. Each line of output has the time, the level and the
topic, so that it can be searched. ``DYNAMLIR_LOG_FORMAT=json`` writes each record as a JSON object in a line.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys

from . import formats
from .topics import TOPICS

FORMATS = ("text", "json")

_WHOLE = frozenset({"graph", "bytecode", "guards", "ir"})
"""Topics that are a single output, which is shown without a ``+`` as well."""

_HANDLER_NAME = "dynamlir-stderr"
_warned: set[tuple[str, str]] = set()


def logger(topic: str) -> logging.Logger:
    """Returns the logger of one topic (``dynamlir.<topic>``)."""
    if topic not in TOPICS:
        raise KeyError(f"no log topic {topic!r}")
    return logging.getLogger(f"dynamlir.{topic}")


def warn_once(topic: str, key: str, message: str) -> None:
    """Logs a warning, unless there has been one of this topic and key in this process."""
    if (topic, key) not in _warned:
        _warned.add((topic, key))
        logger(topic).warning("%s", message)


def help_text() -> str:
    """Returns the topics, each with its meaning, and how to ask for them."""
    width = max(map(len, TOPICS)) + 2
    return "\n".join(
        [
            "DYNAMLIR_LOGS is a list of topics, separated by commas. +topic shows more of it.",
            "",
            *(f"  {topic.ljust(width)}{meaning}" for topic, meaning in [*TOPICS.items(), ("all", "all topics")]),
            "",
            "DYNAMLIR_LOG_FORMAT=json writes a JSON object for each record. NO_COLOR=1 prevents colours.",
            "Example: DYNAMLIR_LOGS=recompiles,+graph_breaks python train.py",
        ]
    )


def unknown(text: str) -> str:
    """Returns a message about the first unknown topic in ``text``; empty if all are known."""
    for name in _names(text):
        plain = name.removeprefix("+")
        if plain != "all" and plain not in TOPICS:
            close = difflib.get_close_matches(plain, TOPICS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"unknown topic {name!r}{hint} (known: all, help, {', '.join(TOPICS)})"
    return ""


def configure(text: str | None = None) -> list[str]:
    """Switches on the topics in ``text`` (default: ``DYNAMLIR_LOGS``); unknown ones warn. Returns the active topics.

    For ``help`` this prints the topics and ends the process.
    """
    text = os.environ.get("DYNAMLIR_LOGS", "") if text is None else text
    wanted = _names(text)
    if "help" in wanted or "+help" in wanted:
        print(help_text())
        sys.exit(0)
    root = logging.getLogger("dynamlir")
    on: list[str] = []
    levels: dict[str, int] = {}
    for name in wanted:
        if message := unknown(name):
            print(f"dynamlir: DYNAMLIR_LOGS: {message}", file=sys.stderr)
            continue
        plain = name.removeprefix("+")
        named = list(TOPICS) if plain == "all" else [plain]
        on.extend(named)
        for topic in named:
            level = logging.DEBUG if name != plain or topic in _WHOLE else logging.INFO
            levels[topic] = min(level, levels.get(topic, level))
    for topic in TOPICS:
        logging.getLogger(f"dynamlir.{topic}").setLevel(levels.get(topic, logging.WARNING))
    if wanted:
        ours = next((handler for handler in root.handlers if handler.get_name() == _HANDLER_NAME), None)
        if ours is None:
            ours = _StderrHandler()
            ours.set_name(_HANDLER_NAME)
            root.addHandler(ours)
            root.propagate = False
        ours.setFormatter(_formatter())
    return on


def _names(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _formatter() -> logging.Formatter:
    wish = os.environ.get("DYNAMLIR_LOG_FORMAT") or "text"
    if wish not in FORMATS:
        known = " or ".join(FORMATS)
        print(f"dynamlir: DYNAMLIR_LOG_FORMAT is {wish!r}, expected {known}", file=sys.stderr)
    return formats.Json() if wish == "json" else formats.Text()


class _StderrHandler(logging.StreamHandler):
    """Writes to the current ``sys.stderr``, so that redirections are honoured."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        from .. import progress  # which logs

        self.stream = sys.stderr
        with progress.aside():
            super().emit(record)
