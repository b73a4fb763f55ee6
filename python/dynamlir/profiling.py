"""`dynamlir.profile`: the run time of each kernel and each extern call of compiled graphs."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable
from typing import Any

from . import native
from .reports import LINES, table


@dataclasses.dataclass(frozen=True)
class Step:
    """A kernel in all its launches, or the extern calls for one line."""

    graph: str
    name: str
    """The name of the kernel, or the operator's schema."""
    route: str | None
    """The way torch's library is called; None for a kernel."""
    calls: int
    seconds: float
    """The total of all calls."""
    bytes: int | None
    """The bytes of the operands of one call; a lookup table counts as a whole. None if unknown."""
    lines: tuple[str, ...] = ()
    """``file:line`` of the computed operations."""

    @property
    def mean(self) -> float:
        """The seconds per call."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def bandwidth(self) -> float | None:
        """The bytes per second; None if the bytes are unknown."""
        return self.bytes * self.calls / self.seconds if self.bytes is not None and self.seconds else None


@dataclasses.dataclass(frozen=True)
class Graph:
    """A compiled graph that was called."""

    name: str
    calls: int
    seconds: float
    """The total of all calls, including the work around the steps: checks of inputs, memory, outputs."""
    steps: tuple[Step, ...]
    """The steps that ran, the longest first."""

    def __str__(self) -> str:
        known = sum(step.seconds for step in self.steps)
        head = f"graph {self.name}: {self.calls} calls, {_ms(self.seconds)} ms, {_ms(known)} ms of them in what follows"
        return "\n".join([head, *table(_HEADER, [_row(step, self.seconds) for step in self.steps])])


class Profile:
    """Measures kernels and extern calls of compiled graphs while it is entered; see `dynamlir.profile`."""

    def __init__(self) -> None:
        self._native: Any = None

    def __enter__(self) -> Profile:
        if self._native is not None:
            raise RuntimeError("dynamlir: a profile is entered once; call dynamlir.profile() for another one")
        self._native = native.module().Profile()
        return self

    def __exit__(self, *error: object) -> None:
        if self._native is None:
            raise RuntimeError("dynamlir: this profile was not entered; write `with dynamlir.profile() as p:`")
        self._native.close()
        _closed.append(self)

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """The graphs that were called, the longest first."""
        rows = () if self._native is None else self._native.graphs()
        # Trial runs of `mode="max-autotune"` do not have a name.
        named = [(name, *row) for name, *row in rows if name is not None]
        graphs = [Graph(name, calls, seconds, _steps(name, steps)) for name, calls, seconds, steps in named]
        return tuple(sorted(graphs, key=lambda graph: -graph.seconds))

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all graphs, the longest first."""
        return tuple(sorted((step for graph in self.graphs for step in graph.steps), key=lambda step: -step.seconds))

    @property
    def seconds(self) -> float:
        """The time of all calls of graphs; those of several threads add up."""
        return sum(graph.seconds for graph in self.graphs)

    def __str__(self) -> str:
        return "\n".join(map(str, self.graphs)) or "No compiled graph was called while this profile was entered."


_closed: collections.deque[Profile] = collections.deque(maxlen=8)


def closed() -> list[Graph]:
    """Returns the graphs of the latest profiles that were left, oldest first."""
    return [graph for one in list(_closed) for graph in one.graphs]


def reset() -> None:
    """Forgets the profiles that were left."""
    _closed.clear()


def profile() -> Profile:
    """Measures each kernel and each extern call: ``with dynamlir.profile() as p: …``, then ``print(p)``.

    Calls of compiled graphs in all threads are measured, by a monotonic clock: those that begin while the profile is
    entered, and also those that raise. Profiles may be nested, and may overlap: each has its own sums. ``p.graphs`` and
    ``p.steps`` have the numbers; the measurements are also in ``print(dynamlir.last_compile())``.

    A clock is read twice for each step, which takes some 50 ns. On a GPU the profile waits for each step, so that a
    call takes longer than usual. Steps of a graph without a kernel of ours are not waited for, and show the time of
    their launch. Plain Python and other backends are not measured, nor the trial runs of ``mode="max-autotune"``. Call
    a function once before profiling: the first call compiles it, which is not part of the times, but allocates memory
    for the first time.
    """
    return Profile()


def _steps(graph: str, rows: Iterable[tuple[Any, ...]]) -> tuple[Step, ...]:
    """Returns the steps that ran; extern calls of the same line are merged."""
    found: dict[tuple[Any, ...], Step] = {}
    for name, route, size, lines, calls, seconds in rows:
        if not calls:
            continue
        key = (name, route, *lines)
        before = found.get(key)
        if before is not None:
            calls, seconds = before.calls + calls, before.seconds + seconds
        found[key] = Step(graph, name, route, calls, seconds, size, tuple(lines))
    return tuple(sorted(found.values(), key=lambda step: -step.seconds))


_HEADER = ("step", "by", "calls", "ms", "mean µs", "share", "bytes", "GB/s", "line")


def _row(step: Step, whole: float) -> tuple[str, ...]:
    bandwidth = step.bandwidth
    return (
        step.name,
        step.route or "kernel",
        str(step.calls),
        _ms(step.seconds),
        f"{1e6 * step.mean:.2f}",
        f"{step.seconds / whole:.1%}" if whole else "",
        "" if step.bytes is None else str(step.bytes),
        "" if bandwidth is None else f"{bandwidth / 1e9:.1f}",
        ", ".join(step.lines[:LINES]),
    )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3f}"
