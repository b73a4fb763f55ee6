"""Text about a program: its compiled functions, and the places that ran plain, from what its processes handed over."""

from __future__ import annotations

import collections
import json
import linecache
from collections.abc import Iterable, Sequence
from typing import Any

from . import printing

Part = dict[str, Any]


def count(number: int, what: str) -> str:
    """Returns a number with its noun."""
    if number == 1:
        return f"1 {what}"
    return f"{number} {what}es" if what.endswith("s") else f"{number} {what}s"


def plain_runs(parts: Iterable[Part]) -> list[str]:
    """Returns a paragraph for each place and reason for which something ran as plain Python."""
    found: collections.Counter[str] = collections.Counter()
    for part in parts:
        for event in part["fallbacks"]:
            if not event["expected"]:
                found[json.dumps({**event, "of": ""})] += 1
        for one in part["dynamo"]["breaks"]:
            found[json.dumps({"of": "torch.compile", "reason": "graph break", **_of_dynamo(one)})] += 1
    return [_paragraph(json.loads(text), times) for text, times in found.items()]


def _of_dynamo(one: dict[str, Any]) -> dict[str, Any]:
    lines = [line.strip() for line in one["reason"].splitlines() if line.strip()]
    hints = [line.removeprefix("Hint:").strip() for line in lines if line.startswith("Hint:")]
    explanation = [line.removeprefix("Explanation:").strip() for line in lines if line.startswith("Explanation:")]
    text = ". ".join(part.rstrip(".") for part in [lines[0] if lines else "", *explanation] if part)
    return {"line": one["line"], "message": "", "explanation": f"{text}.", "hint": (hints or [""])[0]}


def _paragraph(event: dict[str, Any], times: int) -> str:
    line = event["line"] or event.get("called_from")
    place = f"{line[0]}:{line[1]} in {line[2]}" if line else "an unknown line"
    repeated = f", counted {times} times" if times > 1 else ""
    of = f" ({event['of']})" if event["of"] else ""
    detail = f" ({' '.join(event['message'].split())})" if event["message"] else ""
    made = [printing.wrapped(f"{place}{repeated}", "", "  ")]
    if line and (source := linecache.getline(line[0], line[1]).strip()):
        made.append(printing.wrapped(source, "    ", "      "))
    made.append(printing.wrapped(f"{event['reason']}{of}: {event['explanation']}{detail}", "  ", "  "))
    if event["hint"]:
        made.append(printing.wrapped(f"Hint: {event['hint']}", "  ", "  "))
    return "\n".join(made)


def compiled(parts: Sequence[Part]) -> list[str]:
    """Returns a paragraph for each compiled function: its graphs, and why it was compiled again."""
    reports: dict[str, list[dict[str, Any]]] = {}
    for part in parts:
        for report in part["reports"]:
            reports.setdefault(report["graph"], []).append(report)
    made = [_function(name, found) for name, found in reports.items()]
    for part in parts:
        for one in part["dynamo"]["recompilations"]:
            made.append(_recompiled(one))
    return made


def _function(name: str, reports: list[dict[str, Any]]) -> str:
    graphs = [report for report in reports if report["eager"] is None]
    lines = []
    if graphs:
        total = {key: sum(report[key] for report in graphs) for key in ("ops_recorded", "kernels", "ops_extern")}
        seconds = sum(sum(report["stages"].values()) for report in graphs)
        lines.append(
            f"{count(len(graphs), 'graph')}: {count(total['ops_recorded'], 'operation')}, "
            f"{count(total['kernels'], 'kernel')}, {count(total['ops_extern'], 'extern call')}; "
            f"compiled in {seconds:.2f} s"
        )
    plain = len(reports) - len(graphs)
    if plain:
        lines.append(f"{count(plain, 'call')} not compiled; see below")
    # Each report has the decisions since the last one of its function.
    again = [
        decision["reason"] for report in reports for decision in report["decisions"] if decision["pass"] == "guards"
    ]
    for why, times in collections.Counter(again).items():
        lines.append(f"compiled again{f' {times} times' if times > 1 else ''}, since this failed: {why}")
    text = [printing.wrapped(printing.colour(name, "1"), "", "  ")]
    return "\n".join([*text, *(printing.wrapped(line, "  ", "    ") for line in lines)])


def _recompiled(one: dict[str, Any]) -> str:
    file, line, function = one["line"]
    lines = [f"{function} at {file}:{line}: torch.compile captured it again"]
    for why in one["reasons"]:
        lines.append("  since " + " ".join(str(why).split()))
    return "\n".join(printing.wrapped(line, " " * (len(line) - len(line.lstrip())), "    ") for line in lines)
