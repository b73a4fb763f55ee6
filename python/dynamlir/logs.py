"""Logging by topic: ``DYNAMLIR_LOGS=fallback,perf`` prints those topics to stderr; ``all`` is every one.

A ``+`` before a topic requests more detail, such as tracebacks.
"""

from __future__ import annotations

import difflib
import logging
import os
import sys

TOPICS: dict[str, str] = {
    "graph": "the fx graph handed over and the ATen operations recorded from it",
    "bytecode": "the bytecode of each captured function, and as Python source what that says and what each entry does",
    "graph_breaks": "why a function was not captured whole, and where; with + all frames of the place",
    "attempts": "each further attempt at capturing a function, and why it followed",
    "side_effects": "what a captured call does to what existed before it, once its graph has run, and where",
    "cache": "entries that a function's cache gets, and when it is emptied; with + the guards of each",
    "guards": "what each entry of a function's cache is guarded by",
    "recompiles": "which guard failed when a function is compiled again",
    "output_code": 'the Python that the backend "python" generates',
    "fallback": "why a graph, or one call of it, ran as plain eager",
    "decomposition": "which operations were replaced by torch's own decomposition, and which could not be",
    "extern": "operations left to torch's library, with route and Python line",
    "autotune": "which strategy each product got and what was measured; what is wrong with the record of it",
    "ir": "the aten-level MLIR of each graph",
    "perf": "seconds by stage of each compilation",
    "runtime": "what happens at call time: variants, repeated runs",
}

_WHOLE = frozenset({"graph", "bytecode", "guards", "output_code", "ir"})
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


def configure(text: str | None = None) -> list[str]:
    """Switches on the topics in ``text`` (default: ``DYNAMLIR_LOGS``); unknown ones warn. Returns the active topics."""
    text = os.environ.get("DYNAMLIR_LOGS", "") if text is None else text
    wanted = [part.strip() for part in text.split(",") if part.strip()]
    root = logging.getLogger("dynamlir")
    on: list[str] = []
    levels: dict[str, int] = {}
    for name in wanted:
        plain = name.removeprefix("+")
        named = list(TOPICS) if plain == "all" else [plain]
        if plain == "all" or plain in TOPICS:
            on.extend(named)
            for topic in named:
                level = logging.DEBUG if name != plain or topic in _WHOLE else logging.INFO
                levels[topic] = min(level, levels.get(topic, level))
        else:
            close = difflib.get_close_matches(plain, TOPICS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            print(
                f"dynamlir: DYNAMLIR_LOGS: unknown topic {name!r}{hint} (known: all, {', '.join(TOPICS)})",
                file=sys.stderr,
            )
    for topic in TOPICS:
        logging.getLogger(f"dynamlir.{topic}").setLevel(levels.get(topic, logging.WARNING))
    if wanted and not any(handler.get_name() == _HANDLER_NAME for handler in root.handlers):
        handler = _StderrHandler()
        handler.set_name(_HANDLER_NAME)
        handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
        root.addHandler(handler)
        root.propagate = False
    return on


class _StderrHandler(logging.StreamHandler):
    """Writes to the current ``sys.stderr``, so that redirections are honoured."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    def emit(self, record: logging.LogRecord) -> None:
        from . import progress  # which logs

        self.stream = sys.stderr
        with progress.aside():
            super().emit(record)
