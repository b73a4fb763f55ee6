"""`profile`: where a model's time goes, in calls of torch's operators or in what dynamlir generates.

Extern calls go to torch's C interface, below where torch's profiler looks. So their time is eager's, call by call in
turn with the compiled model: of `KINDS`, each with everything inside it. The rest of a compiled call is dynamlir's
kernels, the extern calls of other operators, and its own overhead; where that comes out below zero, eager spends more
on the same products than we do.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

from . import catalog, contestants, measure, record

KINDS: dict[str, tuple[str, ...]] = {
    "product": ("aten::addmm", "aten::mm", "aten::bmm", "aten::baddbmm"),
    "convolution": ("aten::convolution",),
    "attention": ("aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_scaled_dot_product_attention_math"),
}
"""Operators by what they are; one inside another is part of that."""

CALLS = 5

_KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}


def spent(call: Callable[[], Any]) -> dict[str, float]:
    """Seconds by kind in one call, and under ``all`` of all operators."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        call()
    seconds: collections.Counter[str] = collections.Counter()
    for event in profile.events():
        above = list(_ancestors(event))
        if not above:
            seconds["all"] += event.cpu_time_total / 1e6
        if event.name in _KIND_OF and not any(parent.name in _KIND_OF for parent in above):
            seconds[_KIND_OF[event.name]] += event.cpu_time_total / 1e6
    return {kind: seconds[kind] for kind in (*KINDS, "all")}


def _ancestors(event: Any) -> Iterator[Any]:
    while event.cpu_parent is not None:
        event = event.cpu_parent
        yield event


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    seconds: float,
) -> None:
    """Prints and records the table, on one thread."""
    torch.set_num_threads(1)
    parts = [*KINDS, "other"]
    output.part(
        "profile",
        "profile: milliseconds of a call on one thread, by kind of operator in eager, and what is left of dynamlir's",
        f"{'':30}{'batch':>6}{'eager':>9}{''.join(part.rjust(12) for part in parts)}{'dynamlir':>10}{'rest':>9}"
        f"{'share':>7}{'kernels':>9}  extern calls",
    )
    for name in chosen:
        for batch in batches:
            output.add(*one(field, name, batch, seconds))


def one(field: contestants.Field, name: str, batch: int, seconds: float) -> tuple[record.Line, str]:
    """One model."""
    import dynamlir

    with torch.no_grad():
        module, inputs = catalog.MODELS[name].make(batch)
        alone = contestants.Field(field.door, inductor=False)
        entered = contestants.enter(alone, module, named=inputs)
        reports = dynamlir.compiles()
        calls = {who: partial(function, **inputs) for who, function in entered.functions.items()}
        samples = measure.sample(calls, seconds, measure.clock(1))
        profiles = [spent(calls["eager"]) for _ in range(CALLS)]
    line = record.timed(name, {"batch": batch, "threads": 1}, samples, ["dynamlir/eager"])
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    kinds = {kind: 1e3 * statistics.median(seen[kind] for seen in profiles) for kind in KINDS}
    heavy = sum(kinds.values())
    eager, ours = line.times["eager"], line.times["dynamlir"]
    line.figures = {**kinds, "other": eager - heavy, "rest": ours - heavy, "share": (ours - heavy) / ours}
    externs: collections.Counter[str] = collections.Counter()
    for report in reports:
        for extern in report.externs:
            externs[extern.schema.split(".")[1]] += extern.count
    cells = "".join(f"{line.figures[kind]:12.2f}" for kind in (*KINDS, "other"))
    left = ", ".join(f"{calls} {schema}" for schema, calls in externs.most_common())
    text = (
        f"{name:30}{batch:6}{eager:9.2f}{cells}{ours:10.2f}{ours - heavy:9.2f}{line.figures['share']:7.2f}"
        f"{sum(report.kernels for report in reports):9}  {left}"
    )
    return line, text
