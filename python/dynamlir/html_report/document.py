"""The HTML document: one file, which loads nothing."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from .. import profiling
from ..reasons import REASONS, Event
from ..reports import CompileReport
from ..reports.outline import Outline, unpacked
from . import drawings, limits, memory, profiles, recompilations, sources, stages
from .process import Guarded, Process

_HERE = os.path.dirname(__file__)
_PAGES = ("overview", "source", "graphs", "profile", "memory", "recompilations", "decisions")
_GUARDS = 60
"""The guards that are shown for one entry."""


@dataclasses.dataclass
class Kernel:
    """A row of a graph's kernels and extern calls."""

    anchor: str
    name: str
    route: str
    launches: int
    bytes: int | None
    mean: float | None
    lines: tuple[str, ...]
    part: str
    """``forward``, or ``gradients``."""


@dataclasses.dataclass
class Graph:
    """A graph, as pages show it."""

    anchor: str
    number: int
    report: CompileReport
    title: str
    kernels: list[Kernel]
    bytes: int
    drawing: str


def render(process: Process) -> str:
    """Returns the document about a process."""
    budget = limits.Budget()
    total = max(process.counters.get("graphs", 0), len(process.reports))
    reports = list(process.reports)[-limits.GRAPHS :]
    earlier = f"{total - len(reports):,} of {total:,} graphs; the latest {len(reports):,} are here"
    found = [stages.read(report._dump) for report in reports]
    outlines = [None if report._outline is None else unpacked(report._outline) for report in reports]
    gradients = _gradients(process, reports)
    rows = [_kernels(at, report, gradients.get(at), budget) for at, report in enumerate(reports)]
    noted = _sources(process, reports, outlines, rows)
    files = noted.files(budget)
    graphs = [
        _graph(at, report, kernels, _drawing(report, outline, there, kernels, noted, budget))
        for at, (report, outline, kernels, there) in enumerate(zip(reports, outlines, rows, found))
    ]
    measured = [
        part
        for at, (report, there) in enumerate(zip(reports, found))
        for part in profiles.of_report(at, report, there, gradients.get(at), budget)
    ]
    used = [memory.of_report(at, report, there, budget) for at, (report, there) in enumerate(zip(reports, found))]
    tree = recompilations.tree(reports, budget)
    decisions = _decisions(reports, noted, budget)
    environment = _environment(noted)
    return environment.get_template("report.html").render(
        pages=_PAGES,
        process=process,
        graphs=graphs,
        files=files,
        profiles=measured,
        memories=[one for one in used if one is not None],
        tree=tree,
        decisions=decisions,
        stages=_stages(reports),
        seconds=sum(report.seconds for report in reports),
        fallbacks=_fallbacks(process),
        total=total,
        left_out=[*([earlier] if total > len(reports) else []), *budget.sentences()],
        dumped=any(one is not None for one in found),
        size=(profiles.WIDTH, profiles.HEIGHT),
        memory_size=(memory.WIDTH, memory.HEIGHT),
        css=_asset("report.css"),
        js=_asset("report.js") + _asset("drawing.js"),
    )


def embedded(value: Any) -> Markup:
    """Returns data as JSON for a script element: no character in it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    # The rest of Unicode is escaped by `json` itself.
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _asset(name: str) -> Markup:
    with open(os.path.join(_HERE, "assets", name), encoding="utf-8") as file:
        return Markup(file.read())


def _environment(noted: sources.Sources) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(os.path.join(_HERE, "templates")),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        count=lambda value: f"{value:,}",
        bytes=_bytes,
        time=_time,
        per_second=lambda value: profiles.scaled(value, "B/s"),
        rate=lambda value: profiles.scaled(value, "op/s"),
        place=drawings.shown_place,
        title=_title,
        plural=lambda count, what: f"{count:,} {what}" if count == 1 else f"{count:,} {what}s",
        fixed=lambda value: f"{value:.4g}",
    )
    environment.globals.update(link=noted.link, embedded=embedded)
    return environment


def _bytes(value: int | None) -> str:
    if value is None:
        return ""
    for factor, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value} B"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0 s"


def _title(name: str) -> str:
    """Returns the name of a graph with a short path."""
    function, bracket, place = name.partition(" (")
    return f"{function} ({os.path.basename(place)}" if bracket and place.endswith(")") else name


def _kernels(at: int, report: CompileReport, gradients: profiling.Graph | None, budget: limits.Budget) -> list[Kernel]:
    rows: list[Kernel] = []
    measured = {} if gradients is None else {(step.name, step.lines): step.mean for step in gradients.steps}
    for part, one in (("forward", report), ("gradients", report.gradients)):
        if one is None:
            continue
        times, seconds = one.kernel_seconds, one.extern_seconds
        for kernel in one.launched:
            mean = times.get(kernel.name) if part == "forward" else measured.get((kernel.name, kernel.lines))
            rows.append(Kernel("", kernel.name, "", kernel.launches, kernel.bytes, mean, kernel.lines, part))
        for extern, mean in itertools.zip_longest(one.externs, seconds[: len(one.externs)]):
            lines = (extern.location,) if extern.location else ()
            mean = mean if part == "forward" else measured.get((extern.schema, lines))
            rows.append(Kernel("", extern.schema, extern.route, extern.count, None, mean, lines, part))
    kept = list(budget.first(rows, limits.KERNELS, "kernels and extern calls", report.graph))
    for number, row in enumerate(kept):
        row.anchor = f"g{at}-k{number}"
    return kept


def _graph(at: int, report: CompileReport, kernels: list[Kernel], drawing: str) -> Graph:
    parts = [report] if report.gradients is None else [report, report.gradients]
    size = sum(kernel.bytes for part in parts for kernel in part.launched)
    return Graph(f"g{at}", at, report, _title(report.graph), kernels, size, drawing)


def _drawing(
    report: CompileReport,
    outline: Outline | None,
    there: stages.Stages | None,
    kernels: list[Kernel],
    noted: sources.Sources,
    budget: limits.Budget,
) -> str:
    if outline is None:
        return ""
    anchors = {row.name: row.anchor for row in kernels if not row.route}
    picture = drawings.of_report(outline, report, there, anchors, noted.link, budget)
    return "" if picture is None else embedded(picture)


def _sources(
    process: Process, reports: Sequence[CompileReport], outlines: Sequence[Outline | None], rows: list[list[Kernel]]
) -> sources.Sources:
    noted = sources.Sources()
    for event, count in collections.Counter(map(_shortened, process.events)).items():
        if event.line is not None:
            file, line, *_ = event.line
            detail = f"({event.message}) {event.hint}" if event.message else event.hint
            times = f", {count:,} times" if count > 1 else ""
            noted.note(file, line, sources.Note("break", f"{event.reason}{times}: {event.explanation}", detail))
    for function in process.guarded:
        noted.note(function.file, function.line, _guards(function))
    for at, (report, kernels) in enumerate(zip(reports, rows)):
        for one in report.decisions:
            file, line = sources.split(one.site.location)
            if line and one.pass_ == "guards":
                text = f"compiled again: {one.reason}"
                noted.note(file, line, sources.Note("again", text, f"graph {at}", f"g{at}"))
            elif line:
                noted.mention(file, line)
        for row in kernels:
            for place in row.lines:
                file, line = sources.split(place)
                if line:
                    noted.note(file, line, _row_note(at, row))
    for chain in {op.chain: None for outline in outlines if outline is not None for op in outline.operations}:
        noted.mention(*sources.split(drawings.own_line(chain)))
    return noted


def _shortened(event: Event) -> Event:
    return dataclasses.replace(event, location=event.location[:16])


def _guards(function: Guarded) -> sources.Note:
    entries = []
    for at, guards in enumerate(function.entries):
        # Checks of types and identities make up most of them, and tell the user little.
        plain = [guard for guard in guards if "___" not in guard and guard.startswith(("L[", "G[", "len(L["))]
        more = len(guards) - min(len(plain), _GUARDS)
        entries.append("\n".join([f"entry {at}:", *(f"  {one}" for one in plain[:_GUARDS]), f"  and {more:,} more"]))
    count = len(function.entries)
    title = f"{function.name}: {count} {'entry' if count == 1 else 'entries'}, {len(function.entries[0]):,} guards"
    return sources.Note("guard", title, "\n".join(entries))


def _row_note(at: int, row: Kernel) -> sources.Note:
    facts = [f"{row.launches} ×"] if row.launches > 1 else []
    facts += [_bytes(row.bytes)] if row.bytes else []
    facts += [_time(row.mean)] if row.mean is not None else []
    facts += ["gradients"] if row.part == "gradients" else []
    kind, name = ("extern", f"{row.name} by {row.route}") if row.route else ("kernel", row.name)
    return sources.Note(kind, name, " · ".join([f"graph {at}", *facts]), row.anchor)


def _gradients(process: Process, reports: Sequence[CompileReport]) -> dict[int, profiling.Graph]:
    """Returns the measured gradients of each graph. They are known by name only: if two graphs have the same one, the
    measurements may be those of either, and are left out."""
    names = [None if report.gradients is None else report.gradients.graph for report in reports]
    measured = {graph.name: graph for graph in process.profiled}
    return {
        at: measured[name]
        for at, name in enumerate(names)
        if name is not None and name in measured and names.count(name) == 1
    }


def _decisions(reports: Sequence[CompileReport], noted: sources.Sources, budget: limits.Budget) -> dict[str, Any]:
    """Returns the decisions as rows of numbers, which are positions in a list of texts."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    every = [(at, one) for at, report in enumerate(reports) for one in report.decisions]
    rows = []
    for at, one in budget.first(every, limits.DECISIONS, "decisions"):
        numbers = ", ".join(f"{name.replace('_', ' ')} {value:,.6g}" for name, value in one.numbers.items())
        reason = one.reason if one.reason_id is None else f"{one.reason} [{one.reason_id}]"
        place = one.site.location
        cells = (one.pass_, one.site.what, one.choice, ", ".join(one.alternatives), reason, numbers)
        shown = drawings.shown_place(place)
        rows.append([at, *map(number, cells), number(shown), number(noted.link(place)), one.count])
    return {"texts": list(texts), "rows": rows, "graphs": [_title(report.graph) for report in reports]}


def _stages(reports: Sequence[CompileReport]) -> list[tuple[str, float]]:
    total: collections.Counter[str] = collections.Counter()
    for report in reports:
        total.update(report.stages)
    return list(total.items())


def _fallbacks(process: Process) -> list[tuple[str, int, str, str, list[str]]]:
    places: dict[str, dict[str, None]] = {}
    for event in process.events:
        if event.line is not None:
            places.setdefault(event.reason, {})[f"{event.line[0]}:{event.line[1]}"] = None
    return [
        (name, count, *_explained(name, REASONS), list(places.get(name, {}))[:20])
        for name, count in sorted(process.fallbacks.items(), key=lambda item: -item[1])
    ]


def _explained(name: str, known: Mapping[str, Any]) -> tuple[str, str]:
    return (known[name].explanation, known[name].hint) if name in known else ("", "")
