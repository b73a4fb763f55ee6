"""The targets for the figures, and a check of a run against them.

A target is a figure of a part, a limit, and whether it must stay below or above. A missed target does not fail the run;
wrong results do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Figure = tuple[str, float, str, float]
"""Its description, its value, `<=` or `>=`, its limit."""

INFERENCE, EAGER, KERNEL, CUBES, FEW_ROWS, COMPILE, LAYERS = 0.90, 1.0, 0.95, 0.97, 1.5, 1 / 8, 1.3


def figures(document: dict[str, Any]) -> Iterator[Figure]:
    """Yields every figure of the run that has a target."""
    parts = document["parts"]
    if "models" in parts:
        yield from _models(parts["models"])
    for line in parts.get("kernels", {"lines": ()})["lines"]:
        yield from _below(line, "dynamlir/inductor", KERNEL)
    for line in parts.get("gemm", {"lines": ()})["lines"]:
        limit = CUBES if line["case"]["rows"] > 16 else FEW_ROWS
        yield f"{_title(line)}: rate over torch's", line["figures"]["rate"], ">=", limit
    if "dynamlir/inductor" in parts.get("compile", {"summary": ()})["summary"]:
        mean = parts["compile"]["summary"]["dynamlir/inductor"]["value"]
        yield "cold compilations: dynamlir/inductor, geometric mean", mean, "<=", COMPILE
    for what, seen in parts.get("layers", {"summary": {}})["summary"].items():
        yield f"48 layers over 4: {what}", seen["value"], "<=", LAYERS


def _models(part: dict[str, Any]) -> Iterator[Figure]:
    """Yields the mean against inductor; and each model that is slower than eager, or else the slowest."""
    for name, seen in part["summary"].items():
        if name.startswith("dynamlir/inductor, "):
            yield f"models: {name}, geometric mean", seen["value"], "<=", INFERENCE
    worst = sorted(part["lines"], key=lambda line: -line["ratios"]["dynamlir/eager"]["value"])
    slower = [line for line in worst if line["ratios"]["dynamlir/eager"]["low"] > EAGER]
    for line in slower or worst[:1]:
        # A ratio whose interval includes 1 does not count as slower.
        yield f"{_title(line)}: dynamlir/eager", line["ratios"]["dynamlir/eager"]["low"], "<=", EAGER


def _below(line: dict[str, Any], pair: str, limit: float) -> Iterator[Figure]:
    if pair in line["ratios"]:
        yield f"{_title(line)}: {pair}", line["ratios"][pair]["value"], "<=", limit


def _title(line: dict[str, Any]) -> str:
    case = ", ".join(f"{name} {line['case'][name]}" for name in ("batch", "threads") if name in line["case"])
    return f"{line['name']} ({case})"


def met(figure: Figure) -> bool:
    """Returns true if the figure is within its limit."""
    _, value, sign, limit = figure
    return value <= limit if sign == "<=" else value >= limit


def table(document: dict[str, Any]) -> str:
    """Returns each target on a line; empty if no part has one."""
    lines = [
        f"{'met' if met(figure) else 'MISSED':8}{figure[0]:64}{figure[1]:8.3f} {figure[2]} {figure[3]:.3f}"
        for figure in figures(document)
    ]
    return "\n".join(["targets", *lines]) if lines else ""
