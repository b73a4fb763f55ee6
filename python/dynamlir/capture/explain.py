"""`dynamlir.explain`: reports the capture of one call. Compiles only if the compilation report is requested."""

from __future__ import annotations

import collections
import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch.fx

from .. import config, native, nested_doors, progress, reasons, reports, source_lines
from ..compilation import compile_recording
from ..options import resolve as resolve_options
from . import pieces, sharing
from .api import entry_point, forward_of
from .backends import Captured


@dataclasses.dataclass(frozen=True)
class Explanation:
    """The capture of one call: one graph, or several with the reasons for their graph breaks."""

    graphs: tuple[torch.fx.GraphModule, ...]
    break_reasons: tuple[tuple[str, tuple[source_lines.Line, ...]], ...]
    """Pairs (reason, traceback); the traceback's lines are (file, line, function, column), innermost first."""
    guards: tuple[str, ...]
    """The guards as Python predicates."""
    ops: tuple[str, ...]
    """The operations of the graphs, as lines."""
    capture_seconds: float
    tables: tuple[str, ...] = ()
    """Each graph as a table: opcode, name, target, args, kwargs."""
    effects: tuple[tuple[str, tuple[source_lines.Line, ...]], ...] = ()
    """The effects of the call on pre-existing objects, after its graph: pairs (description, traceback)."""
    _frames: tuple[Any, ...] = dataclasses.field(default=(), repr=False, compare=False)
    _compile: Callable[[], reports.CompileReport] | None = dataclasses.field(default=None, repr=False, compare=False)

    @functools.cached_property
    def compiled(self) -> reports.CompileReport | None:
        """The compile report of the graph, compiled at first access; None where there is no graph."""
        return None if self._compile is None else self._compile()

    @functools.cached_property
    def continuations(self) -> tuple[str, ...]:
        """The source of each graph as Python functions; empty for the function from its beginning.

        After a graph break this is the rest of the frame, ``__resume_at_<offset>_<index>``. Its parameters are the
        values on the stack there and the variables still to be read. Then come the rests of the calling frames, which
        receive what the inner one has ``returned``. A loop continues with an ``iterator``, and a ``with`` is over an
        object already ``entered``. These functions are never run: CPython's own frames continue.
        """
        found: list[str] = []
        for frame in self._frames:
            found.append("\n".join(frame.continuation(1 + sum(map(bool, found)))))
        return tuple(found)

    @property
    def compile_seconds(self) -> float:
        """The time taken by the compiler, without the capture."""
        return 0.0 if self.compiled is None else self.compiled.seconds

    @property
    def extern_ops(self) -> dict[str, int]:
        """The operations of the graph that are extern calls, with their counts."""
        found: collections.Counter[str] = collections.Counter()
        for extern in () if self.compiled is None else self.compiled.externs:
            found[extern.schema] += extern.count
        return dict(found)

    @property
    def runs_plain(self) -> bool:
        """True if all operations of the function run as plain Python, because no graph contains any."""
        return not self.graphs

    @property
    def eager_ops(self) -> int | None:
        """The number of operations outside graphs: 0 if the call was captured whole, else None.

        Operations between graphs are not counted.
        """
        return None if self.break_reasons or not self.graphs else 0

    @property
    def graph_count(self) -> int:
        """The number of graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """The number of graph breaks."""
        return len(self.break_reasons)

    def print_tabular(self) -> None:
        """Prints each graph as a table, as torch's ``Graph.print_tabular`` does, with the names of `ops`."""
        for table in self.tables:
            print(table)

    def __str__(self) -> str:
        lines = [
            f"graphs: {self.graph_count}, breaks: {self.graph_break_count}, operations: {len(self.ops)}, "
            f"guards: {len(self.guards)}; captured in {self.capture_seconds:.3f} s"
        ]
        for reason, traceback in self.break_reasons:
            lines.append(f"break: {reason}")
            lines += [f"  {file}:{line} in {function}" for file, line, function, _ in traceback]
        for statement, traceback in self.effects:
            lines.append(f"after the graph: {statement}{source_lines.described(traceback)}")
        if self.eager_ops is None:
            lines.append("operations outside of graphs: not known, since only a run of the call would tell")
        return "\n".join(lines)


def _lines(frame: Any) -> list[str]:
    """Returns the operations of a graph as lines."""
    return [line.strip() for line in frame.text.splitlines()[1:-1] if not line.endswith("= placeholder")]


def _of(
    captured: Sequence[Captured],
    breaks: Sequence[reasons.Event],
    frames: Sequence[Any],
    seconds: float,
    compile_: Callable[[], reports.CompileReport] | None = None,
) -> Explanation:
    return Explanation(
        tuple(one.module for one in captured),
        tuple((str(event), event.location) for event in breaks),
        tuple(part for frame in frames for part in frame.code_parts),
        tuple(line for frame in frames for line in _lines(frame)),
        seconds,
        tuple(frame.table for frame in frames),
        tuple((statement, tuple(lines)) for frame in frames for statement, lines in frame.effects),
        tuple(frames),
        compile_,
    )


def explain(model: Any) -> Callable[..., Explanation]:
    """``explain(fn)(*args)`` captures one call of a function or module and explains the result.

    A call that cannot be captured whole is run, once, so that all its pieces are seen.
    """
    model = nested_doors.innermost(model)  # calls of compiled objects are answered by entries, not captured
    entry, bound = entry_point(model)
    function = entry or sharing.caller()

    def run(*args: Any, **kwargs: Any) -> Explanation:
        started = time.perf_counter()
        frame = native.module().capture(function, (*bound, *args), kwargs)
        seconds = time.perf_counter() - started
        if isinstance(frame, tuple):
            reason, message, location = frame
            code = function.__code__
            place = tuple(location) or ((code.co_filename, code.co_firstlineno, code.co_name, 0),)
            event = reasons.Event(reason, message, place)
            if event.kind == "refuse" or not config.graph_breaks:
                return _of((), (event,), (), seconds)
            found = pieces.collect(function, bound, model, args, kwargs)
            return _of(found.captured, found.breaks, found.frames, time.perf_counter() - started)
        forward = forward_of(model) if isinstance(model, torch.nn.Module) else None
        captured = Captured.of(function.__qualname__, frame, forward)

        def compile_it() -> reports.CompileReport:
            recording, mode = captured.session.recording, captured.session.mode
            try:
                with progress.Shown(progress.label(captured.name, function.__code__)):
                    return compile_recording(recording, mode, resolve_options(), captured.name)[1]
            except reasons.Fallback as failure:
                event = reasons.Event(failure.reason, failure.message, tuple(failure.location))
                return reports.CompileReport(graph=captured.name, eager=event)

        return _of((captured,), (), (frame,), seconds, compile_it)

    return run
