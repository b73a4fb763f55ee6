"""The decisions of a compilation, as data: what was chosen where, from which alternatives, and why.

Passes record theirs natively (``crates/decisions``), with the same fields. Decisions that are taken in Python are
collected here for the next report.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterator

from ..reasons import REASONS, Event, Fallback
from ..source_lines import innermost


@dataclasses.dataclass(frozen=True)
class Site:
    """The object of a decision."""

    what: str
    """An operation, a kernel, a function or a graph. In ``%7 add``, ``%7`` is the operation's first result in the text
    of the pass's stage."""
    location: str = ""
    """The user's line, as ``file:line`` or ``file:line:column``; empty if it is not known."""


@dataclasses.dataclass(frozen=True)
class Decision:
    """One decision."""

    pass_: str
    """The name of the pass, or of the part of the compiler: ``guards`` if an entry does not match a call, ``capture``
    about the extent of a graph, ``max-autotune``, ``extern`` about the route of a call of torch's library."""
    site: Site
    choice: str
    alternatives: tuple[str, ...] = ()
    """The other alternatives."""
    reason: str = ""
    reason_id: str | None = None
    """The ID in ``reasons.toml``, if the reason has one."""
    numbers: dict[str, float] = dataclasses.field(default_factory=dict)
    """Measured, counted or estimated quantities."""
    count: int = 1
    """The number of times that the same was decided about the same line."""

    @staticmethod
    def of(pass_: str, what: str, choice: str, other: str, why: Event | Fallback) -> Decision:
        """Returns a decision against one alternative, for a reason of ``reasons.toml``."""
        line = innermost(why.location) or getattr(why, "called_from", None)
        site = Site(what, "" if line is None else f"{line[0]}:{line[1]}")
        return Decision(pass_, site, choice, (other,), why.message or REASONS[why.reason].explanation, why.reason)


class Pending(collections.deque[Decision]):
    """The latest decisions that no report has yet."""

    def __init__(self) -> None:
        super().__init__(maxlen=256)

    def take(self) -> tuple[Decision, ...]:
        """Returns and removes all; equal ones are one, with a count."""
        counts: dict[str, list[Decision]] = {}
        # Another thread may take some meanwhile, and a program under test may have patched ``len``.
        while True:
            try:
                made = self.popleft()
            except IndexError:
                break
            counts.setdefault(repr(made), []).append(made)
        return tuple(
            dataclasses.replace(alike[0], count=sum(made.count for made in alike)) for alike in counts.values()
        )


class _Thread(threading.local):
    pending: Pending | None = None


_thread = _Thread()


@contextlib.contextmanager
def collecting(pending: Pending | None = None) -> Iterator[None]:
    """Adds the decisions of this thread to these, which the next report takes."""
    outer, _thread.pending = _thread.pending, Pending() if pending is None else pending
    try:
        yield
    finally:
        _thread.pending = outer


def pending() -> Pending:
    """Returns the decisions of this thread for its next report; nobody reads them outside a compilation."""
    return Pending() if _thread.pending is None else _thread.pending
