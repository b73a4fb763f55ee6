"""The decisions of a compilation, as data: what was chosen where, from which alternatives, and why.

Passes record theirs natively (``crates/decisions``), with the same fields. Decisions that are taken in Python are
collected here for the next report.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..reasons import REASONS, Event, Fallback
from ..source_lines import innermost, place


@dataclasses.dataclass(frozen=True)
class Site:
    """The object of a decision."""

    what: str
    """An operation, a kernel, a function or a graph. In ``%7 add``, ``%7`` is the operation's first result in the text
    of the pass's stage."""
    location: str = ""
    """The user's line, as ``file:line:column``, or as ``file:line``; empty if it is not known. Columns count characters
    from 1."""


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
    """The number of times that the same was decided about the same place."""

    @staticmethod
    def of(pass_: str, what: str, choice: str, other: str, why: Event | Fallback) -> Decision:
        """Returns a decision against one alternative, for a reason of ``reasons.toml``."""
        line = innermost(why.location) or getattr(why, "called_from", None)
        reason = why.message or REASONS[why.reason].explanation
        return Decision(pass_, Site(what, place(line)), choice, (other,), reason, why.reason)


MOST = 512
"""The maximum number of decisions in a report: a large graph has thousands, and the latest reports are kept."""
_MOST_PENDING = 256


def bounded(made: Sequence[Decision], left_out: Mapping[str, int]) -> tuple[tuple[Decision, ...], dict[str, int]]:
    """Returns at most `MOST` decisions, in their order, and by pass the number of the others.

    Of each pass the first decisions remain, of all passes up to the same number. Decisions that had been left out
    before, given by ``left_out``, are counted as well.
    """
    counts = collections.Counter(one.pass_ for one in made)
    share = _share(sorted(counts.values()), MOST)
    seen: collections.Counter[str] = collections.Counter()
    kept = []
    for one in made:
        seen[one.pass_] += 1
        if seen[one.pass_] <= share:
            kept.append(one)
    others = {name: count - share for name, count in counts.items() if count > share}
    return tuple(kept), dict(collections.Counter(left_out) + collections.Counter(others))


def _share(counts: list[int], most: int) -> int:
    """Returns the number up to which all of these ascending counts fit into ``most`` together."""
    share = most
    for position, count in enumerate(counts):
        share = most // (len(counts) - position)
        if count > share:
            return share
        most -= count
    return max(counts, default=share)


class Pending:
    """The latest decisions of a thread that no report has yet. Equal ones are one, with a count."""

    def __init__(self) -> None:
        self._made: dict[str, Decision] = {}
        # Counted by hand: a program under test may have patched ``len``.
        self._size = 0
        self._left_out: collections.Counter[str] = collections.Counter()

    def append(self, decision: Decision) -> None:
        """Adds a decision; beyond a limit, the oldest one is only counted."""
        key = repr(dataclasses.replace(decision, count=1))
        known = self._made.get(key)
        if known is not None:
            self._made[key] = dataclasses.replace(known, count=known.count + decision.count)
            return
        self._made[key] = decision
        self._size += 1
        if self._size > _MOST_PENDING:
            oldest = self._made.pop(next(iter(self._made)))
            self._left_out[oldest.pass_] += 1
            self._size -= 1

    def extend(self, made: Iterable[Decision]) -> None:
        """Adds several."""
        for decision in made:
            self.append(decision)

    def take(self) -> tuple[tuple[Decision, ...], dict[str, int]]:
        """Returns and removes all, and by pass the number of those that were only counted."""
        made, self._made, self._size = tuple(self._made.values()), {}, 0
        left_out, self._left_out = dict(self._left_out), collections.Counter()
        return made, left_out


class PendingByThread(threading.local):
    """Those of one compiled function: threads that compile it at the same time take only their own."""

    def __init__(self) -> None:
        self.pending = Pending()


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
