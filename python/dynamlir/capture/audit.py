"""Audits: what calls answered by the cache would be captured as now, compared with what they were captured as.

The native part captures and compares; here is what an audit leaves as it was, what it counts, and what it tells. See
`dynamlir.config.audit`.
"""

from __future__ import annotations

import collections
import dataclasses
import random
import sys
import threading
import warnings
from typing import Any

import torch

from .. import config, machinery, places, plain
from ..places import Line

_KEPT = 256


class StaleEntryWarning(UserWarning):
    """An audit has found an entry of the cache that would have given an old answer. The call is right nevertheless."""


class StaleEntry(RuntimeError):
    """An audit has found an entry of the cache that would have given an old answer; ``difference`` says how.

    Raised where `dynamlir.config.on_audit` is ``"error"``. The entry is gone: the next call is right.
    """

    @property
    def difference(self) -> Difference:
        found: Difference = self.args[0]
        return found


@dataclasses.dataclass(frozen=True)
class Difference:
    """In what an entry differed from a call that its guards let through."""

    function: str
    what: str
    """What differed: the program, what is done after the graph, the guards, or whether it can be captured."""
    kept: str
    """What the entry had there."""
    found: str
    """What the call comes to."""
    places: tuple[str, ...]
    """What has changed between the two, as far as that is known: expressions that were read, with both values."""
    guards: tuple[str, ...]
    """The guards of these, which let the change through."""
    location: tuple[Line, ...]
    """The Python lines, innermost frame first."""

    @property
    def line(self) -> Line | None:
        """The user's own line."""
        return places.innermost(self.location)

    def __str__(self) -> str:
        where = places.described(self.location)
        text = f"an entry of {self.function} is stale: {self.what} would be different{where}, and no guard says so."
        text += f"\n  kept: {self.kept}\n  now:  {self.found}"
        if self.places:
            text += f"\n  read: {'; '.join(self.places)}"
        if self.guards:
            text += f"\n  guarded by: {'; '.join(self.guards)}"
        return f"{text}\nThe entry is dropped. This is an error of dynamlir: please report it."


@dataclasses.dataclass(frozen=True)
class Audits:
    """What audits have found since the last `dynamlir.reset`."""

    same: int
    """Calls that their entries answer rightly."""
    skipped: dict[str, int]
    """Calls that could not be audited, by why."""
    differences: list[Difference]
    """The latest differences, oldest first."""
    unsteady: list[Difference]
    """Of the latest calls that were skipped since two captures in a row differ, in what these do."""

    def __str__(self) -> str:
        skipped = [f"  skipped {count}: {why}" for why, count in self.skipped.items()]
        found = [str(difference) for difference in self.differences]
        return "\n".join([f"{self.same} calls audited, {len(self.differences)} stale", *skipped, *found])


_lock = threading.Lock()
_same = 0
_skipped: collections.Counter[str] = collections.Counter()
_differences: collections.deque[Difference] = collections.deque(maxlen=_KEPT)
_unsteady: collections.deque[Difference] = collections.deque(maxlen=_KEPT)
_said: set[tuple[object, str, Line | None]] = set()


def audits() -> Audits:
    """What audits have found since the last `dynamlir.reset`; see `dynamlir.config.audit`."""
    with _lock:
        return Audits(_same, dict(_skipped), list(_differences), list(_unsteady))


def reset() -> None:
    """Forget what was found."""
    global _same
    with _lock:
        _same = 0
        _skipped.clear()
        _differences.clear()
        _unsteady.clear()
        _said.clear()


def note(skipped: str | None) -> None:
    """Count an audit that has found nothing, or was skipped for a reason."""
    global _same
    with _lock:
        if skipped is None:
            _same += 1
        else:
            _skipped[skipped] += 1


def note_unsteady(difference: Difference) -> None:
    """Count an audit of a call that is another program each time that it is captured."""
    note("it is not the same program when it is captured twice")
    with _lock:
        _unsteady.append(difference)


def tell(subject: plain.Subject, difference: Difference) -> None:
    """Count a difference and tell the user: once for each function and place, or as an exception each time."""
    with _lock:
        _differences.append(difference)
    if config.on_audit == "error":
        raise StaleEntry(difference)
    key = (subject.key, difference.what, difference.line)
    with _lock:
        if key in _said:
            return
        _said.add(key)
    line = difference.line
    file, number = line[:2] if line is not None else subject.place or ("<unknown>", 1)
    warnings.warn_explicit(str(difference), StaleEntryWarning, file, number)


def begin() -> Undisturbed | str:
    """What an audit of a call is to leave as it was; why it is skipped where it is."""
    if machinery.killed():
        return "torch's switch says that nothing is captured"
    failure = machinery.active()
    if failure is not None:
        return f"{failure.reason} is active"
    return Undisturbed()


class _Of(type):
    """Classes that are said to be above all warnings of one thread."""

    thread: int | None

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls.thread == threading.get_ident()


class Undisturbed:
    """What is the program's, and is as it was after an audit, whatever is captured meanwhile.

    Modes, grad mode, autocast and torch's generator are put back by the capture itself, as ever; here are the
    generators of Python and NumPy, and warnings, which were given when the entry was made. These are not given again,
    nor is it noted anywhere that they were, and those of other threads are as ever.
    """

    def __init__(self) -> None:
        self._random = random.getstate()
        numpy: Any = sys.modules.get("numpy.random")
        self._numpy = None if numpy is None else (numpy, numpy.get_state())
        self._torch = torch.get_rng_state()
        self._warnings: Any = _Of("WarningOfThread", (Warning,), {"thread": threading.get_ident()})
        self._filter = ("ignore", None, self._warnings, None, 0)
        # Not by a function of `warnings`: after that all modules would give their warnings again.
        self._filters: list[Any] = warnings.filters  # type: ignore[assignment]
        self._filters.insert(0, self._filter)

    def end(self) -> None:
        """Put all back. May be called again where it was interrupted."""
        self._warnings.thread = None
        if self._filter in self._filters:
            self._filters.remove(self._filter)
        random.setstate(self._random)
        if self._numpy is not None:
            numpy, state = self._numpy
            numpy.set_state(state)
        torch.set_rng_state(self._torch)
