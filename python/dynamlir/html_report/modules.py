"""The modules that operations of a graph belong to, as far as their parameters and lines tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..reports.outline import Chain, Operation, Value

_OURS = re.compile(r"_modules\['([^']+)'\]")
_DYNAMOS = re.compile(r"^L_\w*?self_+((?:_*modules_.+?)?)_*(?:parameters|buffers)_\w+$")

_OWN = re.compile(r"^L\['self'\]\.\w+$")


def path_of(name: str) -> str | None:
    """Returns the path of the module that has a parameter or buffer with this source; None if it is none."""
    ours = _OURS.findall(name)
    if ours:
        return ".".join(ours)
    match = _DYNAMOS.match(name)
    if match is None:
        return None
    return ".".join(part.strip("_") for part in re.split(r"_*modules_", match[1]) if part.strip("_"))


def short(name: str) -> str:
    """Returns the source of a parameter as the module's path and the parameter's name, if that is known."""
    path = path_of(name)
    own = name.rpartition(".")[2] if "[" in name else re.split("_(?:parameters|buffers)_", name)[-1].rstrip("_")
    return name if path is None else f"{path}.{own}" if path else own


def is_parameter(name: str) -> bool:
    """Returns true if an input with this source is a tensor of a module."""
    return path_of(name) is not None or _OWN.match(name) is not None


def of_operations(inputs: Sequence[Value], operations: Sequence[Operation]) -> list[str]:
    """Returns the path of a module for each operation.

    It is the module whose parameters the operation uses, directly or through views. For another operation it follows
    from the closest operations with a module, before and after it: from the one with which it shares more calls.
    """
    owners = {one.number: path for one in inputs if (path := path_of(one.name)) is not None}
    known: list[str | None] = []
    for op in operations:
        path = next((owners[value] for value in op.operands if value in owners), None)
        known.append(path)
        if path is not None and op.kind == "view":
            owners.update(dict.fromkeys(op.results, path))
    before, after = _latest(known), _latest(known[::-1])[::-1]
    count = len(known)
    return [
        path if path is not None else _beside(operations, known, at, before[at], count - 1 - after[at])
        for at, path in enumerate(known)
    ]


def _latest(known: list[str | None]) -> list[int]:
    """Returns for each position the last one so far with a path; the count if there is none."""
    found, latest = [], len(known)
    for at, path in enumerate(known):
        latest = at if path is not None else latest
        found.append(latest)
    return found


def _beside(operations: Sequence[Operation], known: list[str | None], at: int, before: int, after: int) -> str:
    """Returns the path for an operation between two whose paths are known; either may be out of range."""
    found: list[tuple[int, str]] = []
    for near in (before, after):
        if 0 <= near < len(known) and (path := known[near]) is not None:
            shared, deeper = _compared(operations[at].calls, operations[near].calls)
            parts = path.split(".")
            found.append((shared, ".".join(parts[: max(len(parts) - deeper, 0)])))
    most = max((shared for shared, _ in found), default=0)
    paths = [path for shared, path in found if shared == most]
    return _common(paths) if len(found) == 2 or most else ""


def _compared(own: Chain, others: Chain) -> tuple[int, int]:
    """Returns the number of calls that both share, from the outermost on, and that of the modules that only the other
    is in."""
    shared = 0
    while shared < min(len(own), len(others)) and own[-1 - shared] == others[-1 - shared]:
        shared += 1
    deeper = len(others) - shared
    if deeper and shared < len(own) and own[-1 - shared][0] == others[-1 - shared][0]:
        deeper -= 1  # two lines of the same module
    return shared, deeper


def _common(paths: list[str]) -> str:
    parts = [path.split(".") for path in paths]
    same = [one[0] for one in zip(*parts) if all(part == one[0] for part in one)]
    return ".".join(same)
