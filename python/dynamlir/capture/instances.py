"""A graph whose sizes vary: one for all sizes, or where that cannot be, graphs of numbers.

Some gradients that are recorded from torch take numbers. Compiling for these takes as long as some hundred
calls. So where sizes never come back, as in a cache that grows by one at each call, plain Python is faster than a
graph for each of them. The first sizes are compiled at once; the more there have been, the more often others have to
be met before they are.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Any

from .. import logs, native, report, sizes
from ..options import Options
from ..reasons import Fallback, Location
from ..recording import Recording
from ..tracing import fresh_fake_mode

if TYPE_CHECKING:
    from .backends import Captured, Runner

Sizes = tuple[int, ...]

AT_ONCE = 16
"""How many are compiled as soon as they are met; after as many more, twice the number of meetings is asked for."""

MOST_MEETINGS = 64
"""So many meetings are enough always."""

_REMEMBERED = 1024
"""Of how many sizes it is known how often they were met, or why there is no graph for them."""


class Instances:
    """Makes the graph for given sizes, or raises `Fallback`, which leaves the call to plain Python."""

    def __init__(
        self, recording: Recording, name: str, settings: Options, whole: bool, layouts: sizes.Layouts | None = None
    ) -> None:
        """``whole`` says that a call must not run as plain Python."""
        self._recording, self._name, self._layouts = recording, name, layouts
        self._settings, self._whole = settings, whole
        self._made = 0
        self._met: collections.OrderedDict[Sizes, int] = collections.OrderedDict()
        self._failed: collections.OrderedDict[Sizes, tuple[str, str, Location]] = collections.OrderedDict()

    def __call__(self, values: Sizes) -> Runner:
        if values in self._failed:
            raise Fallback(*self._failed[values])
        self._meet(values)
        try:
            runner = self._compile(values)
        except Fallback as failure:
            _remember(self._failed, values, (failure.reason, failure.message, failure.location))
            raise
        self._made += 1
        self._met.pop(values, None)
        return runner

    def _meet(self, values: Sizes) -> None:
        """Count these sizes; raises where they have not been met often enough."""
        needed = min(1 << self._made // AT_ONCE, MOST_MEETINGS)
        count = self._met.get(values, 0) + 1
        if count < needed and not self._whole:
            _remember(self._met, values, count)
            message = f"{self._name} for {', '.join(map(str, values))}; {self._made} graphs were made for other sizes"
            raise Fallback("new-size", message)

    def _compile(self, values: Sizes) -> Runner:
        from ..backend import compile_recording

        logs.logger("recompiles").info("%s: the graph for sizes %s", self._name, values)
        recording = sizes.at(self._recording, values, self._layouts)
        variant, made = compile_recording(recording, fresh_fake_mode(), self._settings, self._name)
        report.add(made)
        return variant.native()


def sized(captured: Captured, settings: Options) -> Runner:
    """A captured graph whose sizes vary: compiled for all of them, or else for those of its first call."""
    try:
        return _whole(captured, settings)
    except Fallback as failure:
        logs.logger("recompiles").info("%s: a graph for each size, since %s", captured.name, failure.message)
    make = Instances(captured.session.recording, captured.name, settings, captured.whole)
    bound = [place for place in captured.session.bound if place is not None]
    now = tuple(int(captured.inputs[at].shape[d]) for at, d in bound)
    return native.module().SizedGraph(bound, make, now, make(now))


def _whole(captured: Captured, settings: Options) -> Runner:
    from ..backend import compile_recording

    session = captured.session
    recording = dataclasses.replace(session.recording, varying=(session.sizes, session.bound))
    variant, made = compile_recording(recording, session.mode, settings, captured.name)
    report.add(made)
    return variant.native()


def _remember(known: collections.OrderedDict[Sizes, Any], values: Sizes, what: Any) -> None:
    known[values] = what
    known.move_to_end(values)
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
