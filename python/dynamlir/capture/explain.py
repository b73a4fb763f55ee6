"""`dynamlir.explain`: what becomes of one call, without compiling it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import torch.fx

from .. import native, reasons
from .api import entry_point
from .backends import Captured


@dataclasses.dataclass(frozen=True)
class Explanation:
    """What one call was captured as. A frame that cannot be captured whole has no graph and one break reason."""

    graphs: tuple[torch.fx.GraphModule, ...]
    break_reasons: tuple[tuple[str, tuple[tuple[str, int, str], ...]], ...]
    """(reason, traceback); the traceback's lines are (file, line, function), innermost first."""
    guards: tuple[str, ...]
    """The guards as Python predicates."""
    ops: tuple[str, ...]
    """The operations of the graphs, as lines."""
    capture_seconds: float

    @property
    def graph_count(self) -> int:
        """How many graphs there are."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """How often a graph was broken off."""
        return len(self.break_reasons)

    def __str__(self) -> str:
        lines = [
            f"graphs: {self.graph_count}, breaks: {self.graph_break_count}, operations: {len(self.ops)}, "
            f"guards: {len(self.guards)}; captured in {self.capture_seconds:.3f} s"
        ]
        for reason, traceback in self.break_reasons:
            lines.append(f"break: {reason}")
            lines += [f"  {file}:{line} in {function}" for file, line, function in traceback]
        return "\n".join(lines)


def explain(model: Any) -> Callable[..., Explanation]:
    """``explain(fn)(*args)`` captures one call of a function or module and says what came of it."""
    function, bound = entry_point(model)

    def run(*args: Any, **kwargs: Any) -> Explanation:
        started = time.perf_counter()
        frame = native.module().capture(function, (*bound, *args), kwargs)
        seconds = time.perf_counter() - started
        if isinstance(frame, tuple):
            reason, message, location = frame
            event = reasons.Event(reason, message, tuple(location))
            return Explanation((), ((str(event), tuple(location)),), (), (), seconds)
        lines = [line.strip() for line in frame.text.splitlines()[1:-1] if not line.endswith("= placeholder")]
        module = Captured.of(function.__qualname__, frame).module
        return Explanation((module,), (), tuple(frame.code_parts), tuple(lines), seconds)

    return run
