"""The report of a compilation: operations, kernels, extern calls with their lines, seconds by stage, and decisions.

What the compiler knows comes from ``GraphReport`` of ``crates/driver``, whose fields have the same names.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import threading
from collections.abc import Iterable, Sequence
from typing import Any

from .. import logs
from ..options import MODES
from ..reasons import REASONS, Event, Fallback
from . import decisions
from .decisions import Decision
from .plain_data import build, plain

SCHEMA = 2
"""The version of the JSON form: another set of keys, or another meaning of one, is another version."""
_KEPT = 256
_SLOWEST = 6
"""The number of passes in a printed report."""
LINES = 3
"""The number of lines shown for each kernel."""


@dataclasses.dataclass(frozen=True)
class Extern:
    """A call that is left to torch's library."""

    schema: str
    route: str
    location: str
    count: int = 1


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A generated kernel."""

    name: str
    launches: int
    """The launches per call."""
    bytes: int
    """The bytes that a call reads and writes through the operands of its launches."""
    lines: tuple[str, ...] = ()
    """``file:line`` of the computed operations."""


@dataclasses.dataclass(frozen=True)
class Product:
    """A product or convolution under ``mode="max-autotune"``."""

    problem: str
    """Operator, sizes, strides, and whether a fusible operation follows."""
    strategy: str
    """``library``, or the form of the code."""
    source: str
    """The source of the choice: the ``record``, just ``measured``, or the cost ``model``."""
    milliseconds: dict[str, float] = dataclasses.field(default_factory=dict)
    """The time of each strategy that was tried."""


def fastest_first(milliseconds: dict[str, float]) -> str:
    """Returns the times of strategies as text, shortest first."""
    ordered = sorted(milliseconds.items(), key=lambda item: item[1])
    return ", ".join(f"{strategy} {time:.4g}" for strategy, time in ordered)


_SCHEDULE = "dynamo-schedule"
"""The name of the decisions about kernels without a schedule."""
AUTOTUNE = "max-autotune"
"""The name of the decisions about products."""


@dataclasses.dataclass(frozen=True)
class CompileReport:
    """One graph. ``eager`` is set if it runs as plain eager, with the reason."""

    graph: str
    ops_recorded: int = 0
    ops_generated: int = 0
    ops_extern: int = 0
    kernels: int = 0
    externs: tuple[Extern, ...] = ()
    workspace_bytes: int = 0
    """The memory for values passed between kernels and operators, kept between calls."""
    live_bytes: int = 0
    """The maximum of it that is live at one step: a lower bound for the workspace."""
    stages: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds by stage. Stages that ran in parallel on several threads get their shares of the elapsed time."""
    passes: dict[str, float] = dataclasses.field(default_factory=dict)
    """Seconds by pass, summed over all threads."""
    threads: int = 0
    """The number of threads that compiled kernels; 0 if all of them had been compiled before."""
    eager: Event | None = None
    recorded: dict[str, int] = dataclasses.field(default_factory=dict)
    """The count of each recorded schema."""
    mode: str = "default"
    """torch's requested mode. ``reduce-overhead`` compiles as ``default`` does; the autotuning ones also agree."""
    launched: tuple[Kernel, ...] = ()
    """The kernels, in the order of their first launch."""
    launches: int = 0
    """The number of launches per call."""
    kernels_reused: int = 0
    """The number of kernels that had been compiled earlier in this process."""
    saved: tuple[int, ...] = ()
    """For a graph that trains: the bytes of each value saved for backward, inputs and results included."""
    recomputed: int = 0
    """For a graph that trains: the number of its operations that backward recomputes."""
    nodes: int = 0
    """For a graph that trains: the number of its nodes in autograd's graph."""
    gradients: CompileReport | None = None
    """For a graph that trains: the report of the graphs that compute its gradients, all nodes together. It describes a
    call; their compilation, with its decisions, is part of this report."""
    decisions: tuple[Decision, ...] = ()
    """The decisions in order: those of the capture, of the passes, and about calls of torch's library. There are at
    most `decisions.MOST`."""
    left_out: dict[str, int] = dataclasses.field(default_factory=dict)
    """The number of further decisions, by pass."""
    _times: Any = dataclasses.field(default=None, repr=False, compare=False)
    _outline: bytes | None = dataclasses.field(default=None, repr=False, compare=False)
    """The recorded operations (`outline`), for `dynamlir.report`."""
    _dump: str | None = dataclasses.field(default=None, repr=False, compare=False)
    """The folder with the stages, if they were dumped."""

    @property
    def seconds(self) -> float:
        """The total time of the backend."""
        return sum(self.stages.values())

    @property
    def unscheduled(self) -> dict[str, str]:
        """The kernels that run as plain loops, with the reason that they have no schedule."""
        return {one.site.what: one.reason for one in self.decided_by(_SCHEDULE)}

    @property
    def products(self) -> tuple[Product, ...]:
        """If measurements decide: each product and convolution with more than one strategy."""
        made = self.decided_by(AUTOTUNE)
        return tuple(Product(one.site.what, one.choice, one.reason, one.numbers) for one in made)

    def decided_by(self, pass_: str) -> list[Decision]:
        """Returns the decisions of one pass."""
        return [one for one in self.decisions if one.pass_ == pass_]

    def to_json(self) -> str:
        """Returns the report as JSON, with the version of its form as ``schema``. The times that
        `dynamlir.profile` measures are not in it."""
        return json.dumps({"schema": SCHEMA, **plain(self)}, allow_nan=False)

    @staticmethod
    def from_json(text: str) -> CompileReport:
        """Returns the report that `to_json` wrote. Raises `ValueError` for a text of another version or form."""
        value = json.loads(text, parse_constant=_no_number)
        schema = value.pop("schema", None) if isinstance(value, dict) else None
        if type(schema) is not int or schema != SCHEMA:
            found = "without a schema" if schema is None else f"of schema {schema!r}"
            raise ValueError(f"a report {found} cannot be read: this version of dynamlir reads schema {SCHEMA}")
        made: CompileReport = build(CompileReport, value)
        if made.eager is not None and made.eager.reason not in REASONS:
            raise ValueError(f"this version of dynamlir has no reason {made.eager.reason!r}")
        return made

    @property
    def kernel_seconds(self) -> dict[str, float]:
        """The seconds per launch of each kernel that has been measured, under `dynamlir.profile`."""
        steps = () if self._times is None else self._times.steps()
        return {name: seconds / calls for name, route, _, _, calls, seconds in steps if route is None and calls}

    @property
    def extern_seconds(self) -> tuple[float | None, ...]:
        """The same for each of `externs`; None for those that have not been measured."""
        steps = () if self._times is None else self._times.steps()
        externs = [(calls, seconds) for _, route, _, _, calls, seconds in steps if route is not None]
        return tuple(seconds / calls if calls else None for calls, seconds in externs)

    def __str__(self) -> str:
        if self.eager is not None:
            return f"graph {self.graph}: plain eager, {self.eager}"
        head = f"graph {self.graph}: {self.ops_recorded} operations recorded, {self.ops_generated} generated in "
        if not self.recorded and not self.ops_generated:
            head = f"graph {self.graph}: "
        lines = [f"{head}{self.kernels} kernels, {self.ops_extern} extern; {1000 * self.seconds:.1f} ms"]
        if self.mode != "default":
            lines.append(f"  mode {self.mode}: {MODES.get(self.mode, 'unknown')}")
        lines.append(f"  workspace {self.workspace_bytes} bytes, {self.live_bytes} live at once")
        if self.stages:
            lines.append("  milliseconds by stage: " + _milliseconds(self.stages.items()))
        if self.passes:
            slowest = sorted(self.passes.items(), key=lambda item: -item[1])[:_SLOWEST]
            threads = f" on {self.threads} threads" if self.threads > 1 else ""
            lines.append(f"  slowest passes{threads}, in milliseconds: " + _milliseconds(slowest))
        times = self.kernel_seconds
        rows = [
            (kernel.name, str(kernel.launches), str(kernel.bytes), ", ".join(kernel.lines[:LINES]))
            for kernel in self.launched
        ]
        measured = [times.get(kernel.name) for kernel in self.launched]
        lines += table(*_with_times(("kernel", "launches", "bytes", "line"), rows, measured))
        lines += table(("plain loops", "because"), list(self.unscheduled.items()))
        lines += table(
            ("product", "strategy", "by", "milliseconds"),
            [
                (product.problem, product.strategy, product.source, fastest_first(product.milliseconds))
                for product in self.products
            ],
        )
        rows = [(extern.schema, extern.route, str(extern.count), extern.location) for extern in self.externs]
        lines += table(*_with_times(("extern", "route", "count", "line"), rows, self.extern_seconds))
        if self.left_out:
            further = ", ".join(f"{name} {count}" for name, count in self.left_out.items())
            lines.append(f"  decisions that are not in this report: {further}")
        if self.gradients is not None:
            kept = f"{len(self.saved)} values of {sum(self.saved)} bytes are kept"
            nodes = f", {self.nodes} nodes" if self.nodes > 1 else ""
            lines += [f"  for the gradients {kept}, {self.recomputed} operations computed again{nodes}"]
            lines += [f"  {line}" for line in str(self.gradients).splitlines()]
        return "\n".join(lines)


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON's")


def from_native(
    native: dict[str, Any], stages: dict[str, float], decided: Iterable[Decision] = (), **own: Any
) -> CompileReport:
    """Creates a report from the dictionary that the native executable gives, and from what only Python knows: the
    stages and decisions before those of the executable, and the values of other fields."""
    made: CompileReport = build(CompileReport, native)
    kept, left_out = decisions.bounded((*decided, *made.decisions), {})
    return dataclasses.replace(made, stages={**stages, **made.stages}, decisions=kept, left_out=left_out, **own)


def _milliseconds(times: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {1000 * value:.1f}" for name, value in times)


def _with_times(
    header: tuple[str, ...], rows: Sequence[tuple[str, ...]], seconds: Sequence[float | None]
) -> tuple[tuple[str, ...], Sequence[tuple[str, ...]]]:
    """Inserts a column of microseconds before the last one, if any are known."""
    if all(time is None for time in seconds):
        return header, rows
    cells = ["" if time is None else f"{1e6 * time:.2f}" for time in seconds]
    return (*header[:-1], "mean µs", header[-1]), [
        (*row[:-1], cell, row[-1]) for row, cell in zip(rows, cells, strict=True)
    ]


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns the lines of a table; none if it has no rows."""
    if not rows:
        return []
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *rows]]


_lock = threading.Lock()
_reports: collections.deque[CompileReport] = collections.deque(maxlen=_KEPT)
_counters: collections.Counter[str] = collections.Counter()


def instead(graph: str, choice: str, failure: Fallback) -> None:
    """Records, and logs, that a graph is compiled in another way than as one for all sizes."""
    logs.logger("recompiles").info("%s: %s, since %s", graph, choice, failure.message)
    decisions.pending().append(Decision.of("capture", graph, choice, "one graph for all sizes", failure))


def add(report: CompileReport) -> None:
    """Remembers a finished compilation, with the decisions that led to it."""
    decided, left_out = decisions.pending().take()
    if report.eager is not None:
        decided += (Decision.of("capture", report.graph, "plain Python", "compiled", report.eager),)
    left_out = collections.Counter(left_out) + collections.Counter(report.left_out)
    kept, left_out = decisions.bounded((*decided, *report.decisions), left_out)
    report = dataclasses.replace(report, decisions=kept, left_out=left_out)
    with _lock:
        _reports.append(report)
        _counters["graphs"] += 1
        _counters["graphs_eager" if report.eager else "graphs_compiled"] += 1
        _counters["ops_generated"] += report.ops_generated
        _counters["ops_extern"] += report.ops_extern
        _counters["kernels"] += report.kernels
        _counters["kernels_unscheduled"] += len(report.unscheduled) + report.left_out.get(_SCHEDULE, 0)


def bump(name: str) -> None:
    """Counts an event at call time."""
    with _lock:
        _counters[name] += 1


def last() -> CompileReport | None:
    """Returns the latest finished compilation of any thread."""
    with _lock:
        return _reports[-1] if _reports else None


def all_reports() -> list[CompileReport]:
    """Returns the latest compilations, oldest first."""
    with _lock:
        return list(_reports)


def counters() -> dict[str, int]:
    """Returns totals since the last reset."""
    with _lock:
        return dict(_counters)


def reset() -> None:
    """Discards reports and totals."""
    with _lock:
        _reports.clear()
        _counters.clear()


def reasons_table(counts: dict[str, int]) -> str:
    """Returns a table of the reasons so far, with their explanations."""
    rows = [(name, str(count), REASONS[name].explanation) for name, count in sorted(counts.items())]
    return "\n".join(table(("reason", "count", "explanation"), rows))
