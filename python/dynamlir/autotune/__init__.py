"""``mode="max-autotune"``: products and convolutions get the strategy that measured fastest on this machine.

The native compiler lists the problems of a graph and the strategies worth trying, the library among them. Problems not
in the record on disk are measured, by single-operation programs. The winners go into the compilation, as data, and into
the record. A failure here costs only speed: the cost model then decides, as without the mode.
"""

from __future__ import annotations

import threading
from typing import Any

from .. import logs, native
from ..options import Options
from ..reports import AUTOTUNE, fastest_first
from ..reports.decisions import Decision, Site
from ..reports.plain_data import build
from . import measure, record
from .problem import Problem

_measuring = threading.Lock()
"""Measurements of two threads would disturb each other, and be duplicated."""


def choose(trace: Any, settings: Options) -> tuple[Decision, ...]:
    """Returns the strategy of each product of a trace that has more than one."""
    try:
        return _choose(trace, settings)
    except Exception as error:
        message = f"the cost model decides: {type(error).__name__}: {error}"
        logs.warn_once("autotune", message, message)
        return ()


def _choose(trace: Any, settings: Options) -> tuple[Decision, ...]:
    problems = [build(Problem, described) for described in native.module().problems(trace)]
    if not problems:
        return ()
    with _measuring:
        kept = record.of_this_machine(settings.cache_dir)
        known = kept.read()
        measured: dict[str, record.Entry] = {}
        try:
            for problem in problems:
                if problem.text not in known and (entry := measure.measure(problem)) is not None:
                    measured[problem.text] = entry
        finally:  # keeps the measurements even after an interruption
            if measured:
                kept.merge(measured)
    return tuple(_decision(problem, known, measured) for problem in problems)


def _decision(problem: Problem, known: dict[str, record.Entry], measured: dict[str, record.Entry]) -> Decision:
    strategy, source, times = problem.strategies[0], "model", dict[str, float]()
    for name, entries in (("measured", measured), ("record", known)):
        if (entry := entries.get(problem.text)) is not None:
            strategy, source, times = entry.strategy, name, dict(entry.milliseconds)
    logs.logger("autotune").info("%s: %s, %s %s", problem.text, strategy, source, fastest_first(times))
    others = tuple(other for other in problem.strategies if other != strategy)
    return Decision(AUTOTUNE, Site(problem.text), strategy, others, source, numbers=times)


def choices(products: tuple[Decision, ...]) -> dict[str, str]:
    """Returns the choices for the native compiler; those of the cost model are left out."""
    return {product.site.what: product.choice for product in products if product.reason != "model"}


def forget() -> None:
    """Discards measurements that could not be written to the record; the record stays."""
    record.forget()
