"""`profile`: a model's time by torch's operators and by dynamlir's generated code.

Extern calls go to torch's C interface, where no profiler of Python or torch can see them. So their time is estimated by
eager's: each operator's, timed where Python can run between dispatcher and kernel, by the process clock, which other
processes do not disturb. For the extern operators this gives the time in `extern`; the `rest` of a compiled call is its
own kernels and its overhead. If that is negative, the same calls cost eager more: their operands have other layouts
there, or were just written by another operator.
"""

from __future__ import annotations

import collections
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import catalog, contestants, measure, record

KINDS: dict[str, tuple[str, ...]] = {
    "product": ("addmm", "mm", "bmm", "baddbmm"),
    "convolution": ("convolution",),
    "attention": ("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_attention_math"),
}
"""Operators by kind."""

CALLS = 5


class Stopwatch(TorchDispatchMode):
    """Records seconds and number of calls of each operator."""

    def __init__(self) -> None:
        super().__init__()
        self.now = measure.clock(1)
        self.seconds: collections.Counter[str] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        start = self.now()
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.seconds[name] += self.now() - start
            self.calls[name] += 1


def spent(call: Callable[[], Any]) -> Stopwatch:
    """Times the operators of one call."""
    with Stopwatch() as seen:
        call()
    return seen


def left_to_torch(reports: Sequence[Any]) -> collections.Counter[str]:
    """Returns the number of extern calls of each operator in the compiled model."""
    counted: collections.Counter[str] = collections.Counter()
    for report in reports:
        for extern in report.externs:
            counted[extern.schema.split(".")[1]] += extern.count
    return counted


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    seconds: float,
) -> None:
    """Prints and records the table, on one thread."""
    torch.set_num_threads(1)
    output.part(
        "profile",
        "profile: milliseconds of a call on one thread; in eager by kind of operator, in dynamlir extern and the rest",
        f"{'':30}{'batch':>6}{'eager':>9}{''.join(kind.rjust(12) for kind in KINDS)}{'other':>9}"
        f"{'dynamlir':>10}{'extern':>9}{'rest':>9}{'share':>7}{'kernels':>9}  extern calls",
    )
    for name in chosen:
        for batch in batches:
            output.add(*one(field, name, batch, seconds))


def one(field: contestants.Field, name: str, batch: int, seconds: float) -> tuple[record.Line, str]:
    """Returns one model's line."""
    import dynamlir

    with torch.no_grad():
        module, inputs = catalog.MODELS[name].make(batch)
        alone = contestants.Field(field.door, inductor=False)
        entered = contestants.enter(alone, module, named=inputs)
        reports = dynamlir.compiles()
        calls = {who: partial(function, **inputs) for who, function in entered.functions.items()}
        samples = measure.sample(calls, seconds, measure.clock(1))
        seen = [spent(calls["eager"]) for _ in range(CALLS)]
    line = record.timed(name, {"batch": batch, "threads": 1}, samples, ["dynamlir/eager"])
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    operators = {name: 1e3 * statistics.median(one.seconds[name] for one in seen) for name in seen[0].calls}
    kinds = {kind: sum(operators.get(name, 0.0) for name in names) for kind, names in KINDS.items()}
    left = left_to_torch(reports)
    # An operator that is extern only in some places counts by its share of the calls.
    extern = sum(operators.get(name, 0.0) * count / max(seen[0].calls[name], 1) for name, count in left.items())
    eager, ours = line.times["eager"], line.times["dynamlir"]
    other, rest = eager - sum(kinds.values()), ours - extern
    line.figures = {**kinds, "other": other, "extern": extern, "rest": rest, "share": rest / ours}
    cells = "".join(f"{kinds[kind]:12.2f}" for kind in KINDS)
    text = (
        f"{name:30}{batch:6}{eager:9.2f}{cells}{other:9.2f}{ours:10.2f}{extern:9.2f}{rest:9.2f}{rest / ours:7.2f}"
        f"{sum(report.kernels for report in reports):9}  "
        f"{', '.join(f'{count} {name}' for name, count in left.most_common())}"
    )
    return line, text
