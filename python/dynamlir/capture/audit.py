"""Audits: calls answered from the cache are captured anew, and the result is compared with the cached entry.

The native part captures and compares. This module keeps the program's state undisturbed, counts, and reports. See
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

from .. import config, foreign_modes, plain_warnings, source_lines
from ..source_lines import Line

_KEPT = 256


class StaleEntryWarning(UserWarning):
    """An audit found a cache entry that would have given an old answer. The call itself still gets the right one."""


class StaleEntry(RuntimeError):
    """An audit found a cache entry that would have given an old answer; ``difference`` has the details.

    Raised if `dynamlir.config.on_audit` is ``"error"``. The entry has been removed, so the next call is right.
    """

    @property
    def difference(self) -> Difference:
        found: Difference = self.args[0]
        return found


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference between an entry and a call that its guards accepted."""

    function: str
    what: str
    """The part that differs: the program, the epilogue, the guards, or whether it can be captured."""
    kept: str
    """The entry's version of that part."""
    found: str
    """The call's version of that part."""
    places: tuple[str, ...]
    """The expressions that were read and have changed in between, with both values, as far as known."""
    guards: tuple[str, ...]
    """The guards on these expressions, which accepted the change."""
    location: tuple[Line, ...]
    """The Python lines, innermost frame first."""

    @property
    def line(self) -> Line | None:
        """The line in the user's own code."""
        return source_lines.innermost(self.location)

    def __str__(self) -> str:
        where = source_lines.described(self.location)
        text = f"an entry of {self.function} is stale: {self.what} would be different{where}, and no guard says so."
        text += f"\n  kept: {self.kept}\n  now:  {self.found}"
        if self.places:
            text += f"\n  read: {'; '.join(self.places)}"
        if self.guards:
            text += f"\n  guarded by: {'; '.join(self.guards)}"
        return f"{text}\nThe entry is dropped. This is an error of dynamlir: please report it."


@dataclasses.dataclass(frozen=True)
class Audits:
    """The results of audits since the last `dynamlir.reset`."""

    same: int
    """The number of calls that their entries answered correctly."""
    skipped: dict[str, int]
    """The number of calls that could not be audited, by reason."""
    differences: list[Difference]
    """The latest differences, oldest first."""
    unsteady: list[Difference]
    """The differences for the latest calls that were skipped because two consecutive captures differ."""

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
    """Returns the results of audits since the last `dynamlir.reset`; see `dynamlir.config.audit`."""
    with _lock:
        return Audits(_same, dict(_skipped), list(_differences), list(_unsteady))


def reset() -> None:
    """Discards all results."""
    global _same
    with _lock:
        _same = 0
        _skipped.clear()
        _differences.clear()
        _unsteady.clear()
        _said.clear()


def note(skipped: str | None) -> None:
    """Counts an audit that found nothing, or was skipped for a reason."""
    global _same
    with _lock:
        if skipped is None:
            _same += 1
        else:
            _skipped[skipped] += 1


def note_unsteady(difference: Difference) -> None:
    """Counts an audit of a call that gives a different program at each capture."""
    note("it is not the same program when it is captured twice")
    with _lock:
        _unsteady.append(difference)


def tell(subject: plain_warnings.Subject, difference: Difference) -> None:
    """Counts a difference and reports it: as a warning once per function and line, or as an exception every time."""
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
    """Returns the state that an audit of a call must leave unchanged, or the reason to skip the audit."""
    if foreign_modes.killed():
        return "torch's switch says that nothing is captured"
    failure = foreign_modes.active()
    if failure is not None:
        return f"{failure.reason} is active"
    return Undisturbed()


class _Of(type):
    """Classes that claim to be a base of all warnings, on one thread."""

    thread: int | None

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls.thread == threading.get_ident()


class Undisturbed:
    """The program's state that an audit restores, regardless of what is captured meanwhile.

    The capture itself restores modes, grad mode, autocast and torch's generator, as always. This class handles the
    generators of Python and NumPy, and warnings. Those were given when the entry was created; the audit neither repeats
    them nor records them as given. Warnings of other threads are unaffected.
    """

    def __init__(self) -> None:
        self._random = random.getstate()
        numpy: Any = sys.modules.get("numpy.random")
        self._numpy = None if numpy is None else (numpy, numpy.get_state())
        self._torch = torch.get_rng_state()
        self._warnings: Any = _Of("WarningOfThread", (Warning,), {"thread": threading.get_ident()})
        self._filter = ("ignore", None, self._warnings, None, 0)
        # Not by a function of `warnings`: that would let all modules repeat their warnings.
        self._filters: list[Any] = warnings.filters  # type: ignore[assignment]
        self._filters.insert(0, self._filter)

    def end(self) -> None:
        """Restores everything. May be called again after an interruption."""
        self._warnings.thread = None
        if self._filter in self._filters:
            self._filters.remove(self._filter)
        random.setstate(self._random)
        if self._numpy is not None:
            numpy, state = self._numpy
            numpy.set_state(state)
        torch.set_rng_state(self._torch)
