"""The data that a graph's picture is drawn from, in the browser: nodes, modules, lines, kernels and their texts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import source_lines
from ..reports import CompileReport
from ..reports.outline import Outline
from . import limits, modules
from .locations import Chain
from .sources import shown
from .stages import Stages

_PRODUCTS = {
    "addbmm", "addmm", "addmv", "baddbmm", "bilinear", "bmm", "convolution", "dot", "einsum", "linear", "matmul", "mm",
    "mv", "outer",
}  # fmt: skip
_VIEWS = {"_unsafe_view", "alias", "detach", "lift_fresh"}
"""Operations that are recorded as copies, and move nothing."""
_PRIMITIVES = 400
"""The operations of stage 02 that are shown for one operation: layers share their lines."""


def of_report(
    outline: Outline,
    report: CompileReport,
    stages: Stages | None,
    kernels: dict[str, str],
    link: Callable[[str], str],
    budget: limits.Budget,
) -> dict[str, Any] | None:
    """Returns a picture as JSON data; None if it does not fit into the report.

    ``kernels`` gives the anchor of each kernel's row, ``link`` that of a line.
    """
    what, where = "operations in pictures of graphs", report.graph
    operations = budget.first(outline.operations, limits.NODES, "operations in pictures of large graphs", where, False)
    operations = budget.first(operations, limits.ALL_NODES, what, where)
    if outline.operations and not operations:
        return None
    paths = modules.of_operations(outline.inputs, operations)
    names = list(dict.fromkeys(["", *paths]))
    numbers = {name: at for at, name in enumerate(names)}
    chains: dict[Chain, int] = {}
    nodes: list[list[Any]] = []
    makers: dict[int, int] = {}
    parameters: dict[int, str] = {}
    for one in outline.inputs:
        if modules.is_parameter(one.name):
            parameters[one.number] = one.name
        else:
            makers[one.number] = len(nodes)
            nodes.append([one.name, "", "input", one.type, [], -1, 0, []])
    known = list(kernels)
    places = {name: at for at, name in enumerate(known)}
    made_by = _kernels_by_chain(report, stages, places)
    externs = {(one.schema, one.location) for one in report.externs}
    for op, path in zip(operations, paths):
        line = own_line(op.chain)
        kind = _kind(op.schema, op.kind, (op.schema, line) in externs)
        operands = list(dict.fromkeys(makers[value] for value in op.operands if value in makers))
        used = [modules.short(parameters[value]) for value in op.operands if value in parameters]
        for value in op.results:
            makers[value] = len(nodes)
            if op.kind == "view":
                parameters.update((value, parameters[first]) for first in op.operands[:1] if first in parameters)
        by = [] if kind in ("view", "extern") else made_by(op.chain, line)
        chain = chains.setdefault(op.chain, len(chains))
        types = ", ".join(op.types)
        nodes.append([_label(op.schema), op.schema, kind, types, operands, chain, numbers[path], by, used])
    returned = list(dict.fromkeys(makers[value] for value in outline.outputs if value in makers))
    if returned:
        nodes.append(["outputs", "", "output", "", returned, -1, 0, []])
    return {
        "nodes": nodes,
        "modules": names,
        "places": [_place(chain, link) for chain in chains],
        "primitives": _primitives(chains, stages),
        "kernels": [[name, kernels[name], *_texts(name, stages, budget)] for name in known],
        "exact": stages is not None,
    }


def own_line(chain: Chain) -> str:
    """Returns the user's line of an operation as ``file:line``; empty if it has none."""
    return next((f"{file}:{line}" for file, line in chain if source_lines.is_users(file)), "")


def _label(schema: str) -> str:
    parts = schema.split(".")
    return parts[1] if len(parts) > 1 else schema


def _kind(schema: str, kind: str, is_extern: bool) -> str:
    label = _label(schema)
    if kind == "view" or label in _VIEWS:
        return "view"
    if is_extern:
        return "extern"
    if kind == "write":
        return "write"
    return "product" if label in _PRODUCTS or "scaled_dot_product" in label else "op"


def _kernels_by_chain(
    report: CompileReport, stages: Stages | None, places: dict[str, int]
) -> Callable[[Chain, str], list[int]]:
    """Returns a function that names the kernels of an operation: by all its lines if the stages are known, else by the
    user's line."""
    by_chain: dict[Chain, list[int]] = {}
    by_line: dict[str, list[int]] = {}
    gradients = () if report.gradients is None else report.gradients.launched
    for kernel in (*report.launched, *gradients):
        if kernel.name not in places:
            continue
        for line in kernel.lines:
            by_line.setdefault(line, []).append(places[kernel.name])
        if stages is not None and kernel.name in stages.kernels:
            for chain in stages.kernels[kernel.name].chains:
                by_chain.setdefault(chain, []).append(places[kernel.name])
    return lambda chain, line: by_line.get(line, []) if stages is None else by_chain.get(chain, [])


def _place(chain: Chain, link: Callable[[str], str]) -> list[str]:
    line = own_line(chain)
    return [shown_place(line), link(line), " ← ".join(f"{shown(file)}:{number}" for file, number in chain)]


def shown_place(place: str) -> str:
    """Returns ``file:line`` with the path from the current folder."""
    file, colon, rest = place.rpartition(":")
    return f"{shown(file)}{colon}{rest}" if file else place


def _primitives(chains: dict[Chain, int], stages: Stages | None) -> dict[str, str]:
    found = {} if stages is None else stages.primitives
    return {str(at): "\n".join(found[chain][:_PRIMITIVES]) for chain, at in chains.items() if chain in found}


def _texts(name: str, stages: Stages | None, budget: limits.Budget) -> list[dict[str, str]]:
    if stages is None or name not in stages.kernels:
        return [{}]
    texts = {stage: budget.text(text) for stage, text in stages.kernels[name].texts.items()}
    return [{stage: text for stage, text in texts.items() if text is not None}]
