"""``mode="max-autotune"``: products and convolutions get the strategy that was measured to be fastest here.

The native compiler lists the problems of a graph and the strategies that are worth a try, the library among them. What
the record on disk does not know is measured, by programs of that one operation; the winners go into the compilation, as
data, and into the record. A failure here costs speed at most: the cost model decides then, as without the mode.
"""

from __future__ import annotations

import threading
from typing import Any

from .. import logs, native
from ..options import Options
from ..report import Product
from . import measure, record
from .problem import Problem

_measuring = threading.Lock()
"""Measurements of two threads would disturb each other, and be made twice."""


def choose(trace: Any, settings: Options) -> tuple[Product, ...]:
    """The strategy of each product of a trace for which there is more than one."""
    try:
        return _choose(trace, settings)
    except Exception as error:
        message = f"the cost model decides: {type(error).__name__}: {error}"
        logs.warn_once("autotune", message, message)
        return ()


def _choose(trace: Any, settings: Options) -> tuple[Product, ...]:
    problems = [Problem.of(described) for described in native.module().problems(trace)]
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
        finally:  # what took its time is kept, also where somebody interrupts
            if measured:
                kept.merge(measured)
    products = tuple(_product(problem, known, measured) for problem in problems)
    for product in products:
        logs.logger("autotune").info(
            "%s: %s, %s %s", product.problem, product.strategy, product.source, product.times()
        )
    return products


def _product(problem: Problem, known: dict[str, record.Entry], measured: dict[str, record.Entry]) -> Product:
    for source, entries in (("record", known), ("measured", measured)):
        if (entry := entries.get(problem.text)) is not None:
            return Product(problem.text, entry.strategy, source, dict(entry.milliseconds))
    return Product(problem.text, problem.strategies[0], "model", {})


def choices(products: tuple[Product, ...]) -> dict[str, str]:
    """What the native compiler is told: the cost model needs no telling."""
    return {product.problem: product.strategy for product in products if product.source != "model"}


def forget() -> None:
    """Forget what was measured and could not be written to the record; the record stays."""
    record.forget()
