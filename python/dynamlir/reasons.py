"""Registry of the reasons for which a graph runs as plain eager, and the count of how often each was met.

The reasons themselves are in ``reasons.toml``, which the native side reads as well.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import threading
import tomllib
from typing import Literal

from . import logs, places

Location = list[places.Line]
"""(file, line, function), innermost first."""


Kind = Literal["must-break", "may-capture", "refuse"]
"""What could be done about a reason; ``reasons.toml`` says what each means."""


@dataclasses.dataclass(frozen=True)
class Reason:
    """One entry of the registry; ``reasons.toml`` says what is in it."""

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
        """Whether nothing is said unless plain Python returns and is called a second time like this."""
        return self.passes or self.raises


def _read() -> dict[str, Reason]:
    with open(os.path.join(os.path.dirname(__file__), "reasons.toml"), "rb") as file:
        return {name: Reason(name, **entry) for name, entry in tomllib.load(file).items()}


REASONS: dict[str, Reason] = _read()


def known(reason: str) -> str:
    """The ID itself; `LookupError` where there is no such reason, so that none is ever taken for another."""
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
    location: tuple[places.Line, ...] = ()
    """Innermost first; torch's frames are among them."""
    called_from: places.Line | None = None
    """The user's line that made the call, where none of the location is theirs."""

    @property
    def line(self) -> places.Line | None:
        """The user's own line: the innermost of the location that is not torch's or ours, else that of the call."""
        return places.innermost(self.location) or self.called_from

    @property
    def kind(self) -> Kind:
        """What could be done about it."""
        return self.entry.kind

    @property
    def entry(self) -> Reason:
        """What is known of the reason."""
        return REASONS[self.reason]

    @property
    def explanation(self) -> str:
        """What the reason means."""
        return self.entry.explanation

    @property
    def hint(self) -> str:
        """What to do; empty where there is nothing to be done."""
        return self.entry.hint

    def __str__(self) -> str:
        where = places.described(self.location, self.called_from)
        detail = f" ({self.message})" if self.message else ""
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{self.reason}{where}: {self.explanation}{detail}{hint}"


_lock = threading.Lock()
_counts: collections.Counter[str] = collections.Counter()
_EVENT_LIMIT = 1000
_events: collections.deque[Event] = collections.deque(maxlen=_EVENT_LIMIT)


def note(reason: str, message: str = "", location: Location | None = None) -> Event:
    """Count one use of ``reason`` and log it under the topic ``fallback``."""
    place = tuple(location or ())
    called_from = places.caller() if places.innermost(place) is None else None
    event = Event(known(reason), message, place, called_from)
    with _lock:
        _counts[reason] += 1
        _events.append(event)
    logs.logger("fallback").info("%s", event)
    return event


def counts() -> dict[str, int]:
    """How often each reason was met since the last reset."""
    with _lock:
        return dict(_counts)


def events() -> list[Event]:
    """The latest events, oldest first."""
    with _lock:
        return list(_events)


def reset() -> None:
    """Forget all counts and events."""
    with _lock:
        _counts.clear()
        _events.clear()
