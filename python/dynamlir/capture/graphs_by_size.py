"""A graph with dynamic sizes: one for all sizes or, if that is impossible, graphs with static sizes.

Some gradients recorded from torch need numbers. Compiling a graph takes as long as some hundred calls. So if sizes
never recur, as in a cache that grows by one at each call, plain Python is faster than a graph for each size. The first
sizes are compiled at once; the more there have been, the more often a new size has to be seen before it is compiled.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import TYPE_CHECKING, Any

from .. import logs, native, reports
from ..compilation import compile_recording
from ..options import Options
from ..program import Program
from ..reasons import Fallback, Location
from ..recording import Layouts, Recording
from ..tracing import fresh_fake_mode

if TYPE_CHECKING:
    from .backends import Captured, Runner

Sizes = tuple[int, ...]

AT_ONCE = 16
"""The number of sizes compiled at first sight; after each further batch of this size, the required sightings double."""

MOST_MEETINGS = 64
"""The maximum number of sightings required."""

_REMEMBERED = 1024
"""The number of sizes for which the count of sightings, or the failure, is remembered."""


class Instances:
    """Builds the graph for given sizes, or raises `Fallback`, so that the call runs as plain Python."""

    def __init__(
        self, recording: Recording, name: str, settings: Options, whole: bool, layouts: Layouts | None = None
    ) -> None:
        """``whole``: the call must not run as plain Python."""
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
        """Counts these sizes; raises if they have not been seen often enough."""
        needed = min(1 << self._made // AT_ONCE, MOST_MEETINGS)
        count = self._met.get(values, 0) + 1
        if count < needed and not self._whole:
            _remember(self._met, values, count)
            message = f"{self._name} for {', '.join(map(str, values))}; {self._made} graphs were made for other sizes"
            raise Fallback("new-size", message)

    def _compile(self, values: Sizes) -> Runner:
        logs.logger("recompiles").info("%s: the graph for sizes %s", self._name, values)
        recording = _static(self._recording, values, self._layouts)
        variant, made = compile_recording(recording, fresh_fake_mode(), self._settings, self._name)
        reports.add(made)
        return variant.native()


def _static(recording: Recording, values: Sizes, layouts: Layouts | None) -> Recording:
    """Returns a recording for these values of the symbols, as if it had been recorded on tensors with these sizes."""
    if layouts:
        recording = _with_layouts(recording, values, layouts)
    # The attempt at one graph for all sizes may have decided what they are.
    builder = functools.partial(native.module().TraceBuilder, as_recorded=True)
    program = Program(recording.emit(builder)).with_values(dict(enumerate(values)))
    return dataclasses.replace(
        program.recording(), captures=recording.captures, out_spec=recording.out_spec, lengths=recording.lengths
    )


def _with_layouts(recording: Recording, values: Sizes, layouts: Layouts) -> Recording:
    """Returns the recording with the layouts that its values have for these values of the symbols."""
    chosen = {
        value: meta
        for value, noted in layouts.items()
        for case, meta in noted
        if all(values[symbol] == number for symbol, number in case.items())
    }
    inputs = [dataclasses.replace(record, meta=chosen.get(record.id, record.meta)) for record in recording.inputs]
    ops = [
        dataclasses.replace(op, results=[chosen.get(value, meta) for value, meta in zip(op.result_ids, op.results)])
        for op in recording.ops
    ]
    return dataclasses.replace(recording, inputs=inputs, ops=ops)


def sized(captured: Captured, settings: Options) -> Runner:
    """Compiles a captured graph with dynamic sizes: for all sizes, or else for those of its first call."""
    try:
        return _whole(captured, settings)
    except Fallback as failure:
        reports.instead(captured.name, "a graph for each size", failure)
    make = Instances(captured.session.recording, captured.name, settings, captured.whole)
    bound = [place for place in captured.session.bound if place is not None]
    now = tuple(int(captured.inputs[at].shape[d]) for at, d in bound)
    return native.module().SizedGraph(bound, make, now, make(now))


def _whole(captured: Captured, settings: Options) -> Runner:
    session = captured.session
    recording = dataclasses.replace(session.recording, varying=(session.sizes, session.bound))
    variant, made = compile_recording(recording, session.mode, settings, captured.name)
    reports.add(made)
    return variant.native()


def _remember(known: collections.OrderedDict[Sizes, Any], values: Sizes, what: Any) -> None:
    known[values] = what
    known.move_to_end(values)
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
