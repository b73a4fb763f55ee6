"""The workspace of a graph as a picture: each buffer's bytes from top to bottom, its steps from left to right."""

from __future__ import annotations

import dataclasses

from ..reports import CompileReport
from . import limits
from .plans import Plan
from .stages import Stages

WIDTH, HEIGHT = 960.0, 260.0
_HUES = (200, 165, 235, 30, 290, 185, 345)


@dataclasses.dataclass
class Box:
    """A buffer in the picture."""

    x: float
    y: float
    width: float
    height: float
    text: str
    hue: int


@dataclasses.dataclass
class Picture:
    """The workspace of one entry."""

    title: str
    steps: int
    bytes: int
    boxes: list[Box]


@dataclasses.dataclass
class Memory:
    """The memory of one graph."""

    graph: int
    workspace: int
    live: int
    saved: tuple[int, ...]
    pictures: list[Picture]
    note: str
    """The reason for a missing picture; empty if the picture exists."""


def of_report(graph: int, report: CompileReport, stages: Stages | None, budget: limits.Budget) -> Memory | None:
    """Returns the memory of a graph; None if it uses none of its own."""
    gradients = report.gradients
    workspace = max(report.workspace_bytes, 0 if gradients is None else gradients.workspace_bytes)
    live = max(report.live_bytes, 0 if gradients is None else gradients.live_bytes)
    if not workspace and not report.saved and (stages is None or all(plan.workspace for plan in stages.plans.values())):
        return None
    pictures, note = [], "" if stages is not None else "The plan is known if stages are dumped: DYNAMLIR_DUMP=DIR."
    for name, plan in (stages.plans if stages is not None else {}).items():
        if plan.workspace is None:
            note = "The plan depends on sizes that are symbols."
        elif plan.buffers and plan.workspace:
            title = "forward" if name == "main" else "gradients" if name.startswith("main_") else name
            pictures.append(_picture(title, plan.workspace, plan, report.graph, budget))
    return Memory(graph, workspace, live, report.saved, pictures, "" if pictures else note)


def _picture(title: str, size: int, plan: Plan, where: str, budget: limits.Budget) -> Picture:
    steps, buffers = plan.steps, plan.buffers
    boxes = []
    for at, one in enumerate(budget.first(buffers, limits.BUFFERS, "buffers", where)):
        names = steps[one.first].name if steps else ""
        boxes.append(
            Box(
                WIDTH * one.first / max(len(steps), 1),
                HEIGHT * one.offset / size,
                WIDTH * (one.last - one.first + 1) / max(len(steps), 1),
                max(HEIGHT * one.bytes / size, 0.6),
                f"{one.type}: bytes {one.offset:,} to {one.offset + one.bytes:,}, steps {one.first} to {one.last}, "
                f"first used by {names}",
                _HUES[at % len(_HUES)],
            )
        )
    return Picture(title, len(steps), size, boxes)
