"""The two forms of a record: lines for people, and a line of JSON for programs."""

from __future__ import annotations

import datetime
import json
import logging
import os
import sys

_COLOURS = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "31"}


def _rank() -> str | None:
    """Returns the number of this process among those of a distributed program."""
    return os.environ.get("RANK") if os.environ.get("WORLD_SIZE", "1") != "1" else None


class Text(logging.Formatter):
    """The time, the level and the topic before each line of a record; in colours on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        time = f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03d}"
        level, topic = record.levelname.ljust(7), f"[{record.name}]"
        if _has_colours():
            time = f"\x1b[2m{time}\x1b[0m"
            level = f"\x1b[{_COLOURS.get(record.levelname, '0')}m{level}\x1b[0m"
            topic = f"\x1b[1m{topic}\x1b[0m"
        rank = _rank()
        prefix = " ".join([time, level, *([f"rank {rank}"] if rank is not None else []), topic])
        return "\n".join(f"{prefix} {line}".rstrip() for line in text.splitlines() or [""])


class Json(logging.Formatter):
    """A record as a JSON object in one line."""

    def format(self, record: logging.LogRecord) -> str:
        from .. import source_lines  # which imports torch: a command only asks for the topics

        line = getattr(record, "user_line", None) or source_lines.caller()
        made = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(),
            "level": record.levelname.lower(),
            "topic": record.name.removeprefix("dynamlir."),
            "message": record.getMessage(),
            "file": None if line is None else line[0],
            "line": None if line is None else line[1],
            "function": None if line is None else line[2],
            "column": (line[3] or None) if line is not None else None,
            "process": record.process,
            "thread": record.threadName,
        }
        if (rank := _rank()) is not None:
            made["rank"] = int(rank) if rank.isdecimal() else rank
        if record.exc_info:
            made["exception"] = self.formatException(record.exc_info)
        return json.dumps(made, ensure_ascii=False)


def _has_colours() -> bool:
    stderr = sys.stderr
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stderr is not None and stderr.isatty() and not plain
