"""Further attempts at capturing a frame: logged, and decisions of the next report."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from .. import logs, reasons
from ..reasons import Location
from ..reports.decisions import Decision, Site
from ..source_lines import innermost, place

_SECOND = 2


class _Thread(threading.local):
    def __init__(self) -> None:
        self.latest: list[Decision] = []


_thread = _Thread()


def log_attempt(name: str, count: int, why: str, found: tuple[str, str, Location] | None) -> None:
    """Records that a frame is captured once more, and what has ended the attempt before."""
    event = None if found is None else reasons.Event(found[0], found[1], tuple(found[2]))
    after = "" if event is None else f", after {event}"
    logs.logger("attempts").info("%s: attempt %d, since %s%s", name, count, why, after)
    line = None if event is None else innermost(event.location)
    site = Site(name, place(line))
    reason, reason_id = (why, None) if event is None else (f"{why}: {event.message}", event.reason)
    if count == _SECOND:
        _thread.latest = []
    choice, others = "another attempt", ("keep the one before",)
    _thread.latest.append(Decision("capture", site, choice, others, reason, reason_id, {"attempt": count}))


def log_constants(name: str, sizes: Sequence[str], reason: str, message: str, location: Location) -> None:
    """Logs the reason that sizes cannot be dynamic, or that a graph with dynamic sizes cannot be built."""
    event = reasons.Event(reason, message, tuple(location))
    logs.logger("recompiles").info("%s: %s as a constant: %s", name, ", ".join(sizes), event)


def take() -> list[Decision]:
    """Returns the decisions to capture this thread's latest frame once more, and forgets them."""
    taken, _thread.latest = _thread.latest, []
    return taken
