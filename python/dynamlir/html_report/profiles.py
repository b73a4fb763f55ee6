"""The measured times of graphs: a table, one mean call as a timeline, and a roofline."""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Sequence

from .. import profiling
from ..reports import CompileReport
from . import limits
from .plans import Plan
from .stages import Stages

_NARROWEST = 0.2
"""The least width of a step in the timeline, in percent."""


@dataclasses.dataclass
class Step:
    """A kernel, or a call of torch's library, with its measured time."""

    name: str
    route: str | None
    calls: int
    mean: float
    """Seconds per launch."""
    seconds: float
    share: float
    bytes: int | None
    flops: int | None
    lines: tuple[str, ...]

    @property
    def bandwidth(self) -> float | None:
        """Bytes per second."""
        return self.bytes / self.mean if self.bytes and self.mean else None

    @property
    def rate(self) -> float | None:
        """Arithmetic operations per second."""
        return self.flops / self.mean if self.flops and self.mean else None


@dataclasses.dataclass
class Bar:
    """A step in the timeline of one mean call; positions are in percent."""

    name: str
    route: str | None
    left: float
    width: float
    mean: float


@dataclasses.dataclass
class Point:
    """A kernel in the roofline."""

    name: str
    x: float
    y: float
    intensity: float
    rate: float


@dataclasses.dataclass
class Roofline:
    """Kernels by arithmetic operations per byte and per second, with the best of both as roofs."""

    points: list[Point]
    roof: list[tuple[float, float]]
    horizontal: list[tuple[float, str]]
    vertical: list[tuple[float, str]]
    best_rate: float
    best_bandwidth: float


@dataclasses.dataclass
class Profile:
    """The measurements of one graph."""

    graph: int
    part: str
    """``forward`` or ``gradients``."""
    steps: list[Step]
    bars: list[Bar]
    ordered: bool
    """True if the timeline has the order of the plan; else each step is one bar, with all its launches."""
    seconds: float
    """All steps, in all calls."""
    roofline: Roofline | None


Row = tuple[str, str | None, int | None, Sequence[str], int, float]
"""The name, route, bytes, lines, calls and seconds of a step."""


def of_report(
    graph: int, report: CompileReport, stages: Stages | None, gradients: profiling.Graph | None, budget: limits.Budget
) -> list[Profile]:
    """Returns what was measured of a graph, and of its gradients: up to two profiles."""
    plans = {} if stages is None else stages.plans
    rows: Sequence[Row] = [] if report._times is None else report._times.steps()
    found = [_of_part("forward", graph, report, rows, stages, plans.get("main"), budget)]
    if report.gradients is not None and gradients is not None:
        rows = [(one.name, one.route, one.bytes, one.lines, one.calls, one.seconds) for one in gradients.steps]
        # With several nodes, gradients are several entries, whose order autograd decides.
        nodes = [plan for name, plan in plans.items() if name != "main"]
        plan = nodes[0] if len(nodes) == 1 else None
        found.append(_of_part("gradients", graph, report.gradients, rows, stages, plan, budget))
    return [one for one in found if one is not None]


def _of_part(
    part: str,
    graph: int,
    report: CompileReport,
    rows: Sequence[Row],
    stages: Stages | None,
    plan: Plan | None,
    budget: limits.Budget,
) -> Profile | None:
    merged: dict[tuple[str, str | None, tuple[str, ...]], Step] = {}
    for name, route, size, lines, calls, seconds in rows:
        if not calls:
            continue
        key = name, route, tuple(lines)
        before = merged.get(key)
        if before is not None:
            calls, seconds = calls + before.calls, seconds + before.seconds
        kernel = stages.kernels.get(name) if stages is not None and route is None else None
        flops = None if kernel is None else kernel.flops
        merged[key] = Step(name, route, calls, seconds / calls, seconds, 0.0, size, flops, tuple(lines))
    if not merged:
        return None
    total = sum(step.seconds for step in merged.values())
    for step in merged.values():
        step.share = step.seconds / total if total else 0.0
    steps = sorted(merged.values(), key=lambda step: -step.seconds)
    kept = list(budget.first(steps, limits.STEPS, "measured steps", report.graph))
    bars, ordered = _timeline(report, list(merged.values()), plan)
    bars = list(budget.first(bars, limits.STEPS, "steps in timelines", report.graph))
    return Profile(graph, part, kept, bars, ordered, total, _roofline(kept))


def _timeline(report: CompileReport, steps: list[Step], plan: Plan | None) -> tuple[list[Bar], bool]:
    if plan is not None and plan.steps:
        calls: collections.Counter[tuple[str, str | None]] = collections.Counter()
        seconds: collections.defaultdict[tuple[str, str | None], float] = collections.defaultdict(float)
        for step in steps:
            calls[step.name, step.route] += step.calls
            seconds[step.name, step.route] += step.seconds
        order = [(step.name, step.route) for step in plan.steps]
        if all(calls[one] for one in order):
            return _placed([(*one, seconds[one] / calls[one]) for one in order]), True
    launches = {kernel.name: kernel.launches for kernel in report.launched}
    for extern in report.externs:
        launches[extern.schema] = launches.get(extern.schema, 0) + extern.count
    lines = collections.Counter(step.name for step in steps)
    times = [step.mean * max(launches.get(step.name, 1) / lines[step.name], 1) for step in steps]
    return _placed([(step.name, step.route, time) for step, time in zip(steps, times)]), False


def _placed(order: list[tuple[str, str | None, float]]) -> list[Bar]:
    total = sum(seconds for _, _, seconds in order) or 1.0
    bars, at = [], 0.0
    for name, route, seconds in order:
        width = 100 * seconds / total
        bars.append(Bar(name, route, at, max(width, _NARROWEST), seconds))
        at += width
    return bars


WIDTH, HEIGHT = 720.0, 320.0


def _roofline(steps: list[Step]) -> Roofline | None:
    found = [(step, step.rate, step.bandwidth) for step in steps]
    known = [(step, rate, bandwidth) for step, rate, bandwidth in found if rate and bandwidth]
    if not known:
        return None
    best_rate, best_bandwidth = max(rate for _, rate, _ in known), max(bandwidth for _, _, bandwidth in known)
    xs = [math.log10(rate / bandwidth) for _, rate, bandwidth in known]
    ys = [math.log10(rate) for _, rate, _ in known]
    ridge = math.log10(best_rate / best_bandwidth)
    left, right = math.floor(min(*xs, ridge)), math.ceil(max(*xs, ridge))
    left, right = (left - 1, right + 1) if left == right else (left, right)
    top = math.ceil(max(ys) + 0.05)
    bottom = math.floor(min(*ys, top - 1))

    def across(value: float) -> float:
        return WIDTH * (value - left) / (right - left)

    def down(value: float) -> float:
        return HEIGHT * (top - value) / (top - bottom)

    points = [
        Point(step.name, across(x), down(y), rate / bandwidth, rate)
        for (step, rate, bandwidth), x, y in zip(known, xs, ys)
    ]
    # The slanted roof begins at the left edge, or where it enters the picture from below.
    start = max(left, bottom - math.log10(best_bandwidth))
    roof = [(start, start + math.log10(best_bandwidth)), (ridge, math.log10(best_rate)), (right, math.log10(best_rate))]
    return Roofline(
        points,
        [(across(x), down(y)) for x, y in roof],
        [(down(power), scaled(10.0**power, "op/s")) for power in range(bottom, top + 1)],
        [(across(power), f"{10.0**power:g}") for power in range(left, right + 1)],
        best_rate,
        best_bandwidth,
    )


def scaled(value: float | None, unit: str) -> str:
    """Returns a quantity with a prefix: ``12.3 GB/s``."""
    if value is None:
        return ""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"
