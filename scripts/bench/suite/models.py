"""`models`: time per call of the suite's models, with comparisons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from . import catalog, contestants, measure, record

Measured = tuple[record.Line, dict[str, list[float]]]
"""A line, and the ratios round by round."""


def run(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    threads: Sequence[int],
    seconds: float,
) -> None:
    """Prints and records the table, a line per model, batch and number of threads; then the geometric means."""
    table(output, field, "models", "call", (chosen, batches, threads), lambda *case: one(field, *case, seconds))


def table(
    output: record.Record,
    field: contestants.Field,
    part: str,
    unit: str,
    cases: tuple[Sequence[str], Sequence[int], Sequence[int]],
    measured: Callable[[str, int, int], Measured],
) -> None:
    """Prints and records a part with a line per model, batch and number of threads, in milliseconds of a ``unit``."""
    heads = "".join(f"{name:>10}" for name in ["eager", *field.compilers])
    output.part(
        part,
        f"{part}: milliseconds per {unit}, dynamlir through {field.door}; medians, 95 % intervals of the ratios",
        f"{'':30}{'batch':>6}{'threads':>8}{heads}  {'  '.join(pair.ljust(22) for pair in field.pairs)} {'error':>8}",
    )
    chosen, batches, threads = cases
    seen: dict[tuple[int, int], dict[str, list[list[float]]]] = {}
    for count in threads:
        torch.set_num_threads(count)
        for name in chosen:
            for batch in batches:
                line, values = measured(name, batch, count)
                for pair, list_ in values.items():
                    seen.setdefault((count, batch), {}).setdefault(pair, []).append(list_)
                output.add(line, text(line, field))
    means(output, seen)


def one(field: contestants.Field, name: str, batch: int, threads: int, seconds: float) -> Measured:
    """Returns one line, and the ratios round by round; the caller has set the number of threads."""
    with torch.no_grad():
        module, inputs = catalog.MODELS[name].make(batch)
        entered = contestants.enter(field, module, named=inputs)
        calls: dict[str, Callable[[], Any]] = {
            who: partial(function, **inputs) for who, function in entered.functions.items()
        }
        samples = measure.sample(calls, seconds, measure.clock(threads))
    line = record.timed(name, {"batch": batch, "threads": threads}, samples, field.pairs)
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    return line, {pair: measure.ratios(samples, *pair.split("/")) for pair in field.pairs}


def text(line: record.Line, field: contestants.Field) -> str:
    """Returns the line of the table."""
    times = "".join(f"{line.times[name]:10.2f}" for name in ["eager", *field.compilers])
    case = f"{line.case['batch']:6}{line.case['threads']:8}"
    return f"{line.name:30}{case}{times}  {line.compared()} {max(line.errors.values()):8.1e}"


def means(output: record.Record, seen: dict[tuple[int, int], dict[str, list[list[float]]]]) -> None:
    """Records geometric means by threads and batch, and over all, and the lines that are slower than their base."""
    together: dict[str, list[list[float]]] = {}
    for (count, batch), pairs in seen.items():
        for pair, lists in pairs.items():
            together.setdefault(pair, []).extend(lists)
            mean = measure.mean_ratio(lists)
            label = f"{pair}, batch {batch}, {count} thread(s)"
            output.summary(label, mean, f"geometric mean of {len(lists)}: {label}: {mean}")
    for pair, lists in together.items():
        mean = measure.mean_ratio(lists)
        output.summary(pair, mean, f"geometric mean of all {len(lists)}: {pair}: {mean}")
        slower = [
            f"{line['name']}/{line['case']['batch']}/{line['case']['threads']}"
            for line in output.lines()
            if line["ratios"][pair]["low"] > 1
        ]
        output.summary(f"{pair} above 1", slower, f"{pair} above 1: {', '.join(slower) or 'none'}")
