"""The compilations of each function as a tree: why there is another one, and what was decided for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..reports import CompileReport
from . import limits


@dataclasses.dataclass(frozen=True)
class Cause:
    """A guard that failed, or a decision about the extent of a graph."""

    kind: str
    """``guard``, ``break``, ``attempt``, ``sizes`` or ``plain``."""
    text: str
    place: str
    """``file:line``, or empty."""
    count: int = 1


@dataclasses.dataclass
class Compilation:
    """A graph of a function."""

    graph: int
    seconds: float
    causes: list[Cause]

    @property
    def again(self) -> bool:
        """True if a guard has failed."""
        return any(cause.kind == "guard" for cause in self.causes)


@dataclasses.dataclass
class Function:
    """A function with its graphs."""

    name: str
    place: str
    compilations: list[Compilation]
    recompilations: int


_KINDS = {"another attempt": "attempt", "several graphs": "break", "sizes as symbols": "sizes", "plain Python": "plain"}


def tree(reports: Sequence[CompileReport], budget: limits.Budget) -> list[Function]:
    """Returns the functions, those with the most recompilations first."""
    found: dict[str, Function] = {}
    left = list(budget.first(reports, limits.TREE, "graphs in the tree of recompilations"))
    for at, report in enumerate(left):
        causes, place = [], ""
        for one in report.decisions:
            if one.pass_ == "guards":
                place = place or one.site.location
                causes.append(Cause("guard", one.reason, one.site.location, one.count))
            elif one.pass_ == "capture":
                instead = f", not {', '.join(one.alternatives)}" if one.alternatives else ""
                text = f"{one.choice}{instead}: {one.reason}"
                causes.append(Cause(_KINDS.get(one.choice, "attempt"), text, one.site.location, one.count))
        function = found.setdefault(report.graph, Function(report.graph, place, [], 0))
        function.place = function.place or place
        made = Compilation(at, report.seconds, causes)
        function.compilations.append(made)
        function.recompilations += made.again
    return sorted(found.values(), key=lambda one: (-one.recompilations, -len(one.compilations)))
