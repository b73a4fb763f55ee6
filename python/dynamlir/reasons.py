"""The registry of the reasons that a graph runs as plain eager, and the count of each.

The reasons themselves are in ``reasons.toml``, which the native side reads as well.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
import tomllib
from typing import Literal

from . import logs, source_lines

Location = list[source_lines.Line]
"""The lines of a call chain, innermost first."""


Kind = Literal["must-break", "may-capture", "refuse"]
"""The possible ways to handle a reason; ``reasons.toml`` explains each kind."""


@dataclasses.dataclass(frozen=True)
class Reason:
    """One entry of the registry; ``reasons.toml`` explains its fields."""

    id: str
    kind: Kind
    explanation: str
    hint: str
    cause: str = "function"
    passes: bool = False
    raises: bool = False
    whole: bool = False

    @property
    def waits(self) -> bool:
        """True if the reason is reported only after plain Python returned and is called a second time like this."""
        return self.passes or self.raises


def _read() -> dict[str, Reason]:
    with open(os.path.join(os.path.dirname(__file__), "reasons.toml"), "rb") as file:
        return {name: Reason(name, **entry) for name, entry in tomllib.load(file).items()}


REASONS: dict[str, Reason] = _read()


def known(reason: str) -> str:
    """Returns the ID itself; raises `LookupError` for an unknown reason, so that none is ever confused with another."""
    if reason not in REASONS:
        raise LookupError(f"dynamlir: there is no reason {reason!r} in reasons.toml")
    return reason


class Fallback(Exception):
    """The graph cannot be compiled; carries the ID of the reason, a message and the Python line."""

    def __init__(self, reason: str, message: str = "", location: Location | None = None) -> None:
        super().__init__(message)
        self.reason = known(reason)
        self.message = message
        self.location = location or []


@dataclasses.dataclass(frozen=True)
class Event:
    """One occasion on which plain eager ran."""

    reason: str
    message: str
    location: tuple[source_lines.Line, ...] = ()
    """Innermost first; torch's frames are among them."""
    called_from: source_lines.Line | None = None
    """The user's line that made the call, if the location has none."""

    @property
    def line(self) -> source_lines.Line | None:
        """The user's own line: the innermost of the location that is not torch's or ours, else that of the call."""
        return source_lines.innermost(self.location) or self.called_from

    @property
    def kind(self) -> Kind:
        """The possible way to handle it."""
        return self.entry.kind

    @property
    def entry(self) -> Reason:
        """The registry entry of the reason."""
        return REASONS[self.reason]

    @property
    def explanation(self) -> str:
        """The meaning of the reason."""
        return self.entry.explanation

    @property
    def hint(self) -> str:
        """Advice for the user; empty if there is none."""
        return self.entry.hint

    def __str__(self) -> str:
        where = source_lines.described(self.location, self.called_from)
        detail = f" ({self.message})" if self.message else ""
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{self.reason}{where}: {self.explanation}{detail}{hint}"


_lock = threading.Lock()
_counts: collections.Counter[str] = collections.Counter()
_EVENT_LIMIT = 1000
_events: collections.deque[Event] = collections.deque(maxlen=_EVENT_LIMIT)


def note(reason: str, message: str = "", location: Location | None = None) -> Event:
    """Counts one use of ``reason`` and logs it under the topic ``fallback``."""
    place = tuple(location or ())
    called_from = source_lines.caller() if source_lines.innermost(place) is None else None
    event = Event(known(reason), message, place, called_from)
    with _lock:
        _counts[reason] += 1
        _events.append(event)
    logs.logger("fallback").info("%s", event, extra={"user_line": event.line})
    return event


def counts() -> dict[str, int]:
    """Returns the count of each reason since the last reset."""
    with _lock:
        return dict(_counts)


def events() -> list[Event]:
    """Returns the latest events, oldest first."""
    with _lock:
        return list(_events)


def reset() -> None:
    """Discards all counts and events."""
    with _lock:
        _counts.clear()
        _events.clear()
