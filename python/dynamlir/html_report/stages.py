"""The stages of one graph, read from its dump: texts by kernel, plans, and operations by line."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator

from . import plans, work
from .locations import Chain, Locations, without

_FUNCTION = re.compile(r'^( *)func\.func (?:private |public )?@("[^"]*"|[\w$.-]+)\(')
_LABEL = re.compile(r"^([A-Za-z_$][\w$.]*):")
_PTX = re.compile(r"^\.visible \.entry ([\w$]+)\(")
_LARGEST = 64 << 20
"""The bytes of a stage that are read."""


@dataclasses.dataclass
class Kernel:
    """A kernel in several stages."""

    chains: set[Chain] = dataclasses.field(default_factory=set)
    """The lines that its operations come from."""
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    """Its text by stage: ``kernels``, ``linalg``, ``assembly``."""
    flops: int | None = None
    """The arithmetic operations of one launch; None if its sizes are dynamic."""


@dataclasses.dataclass
class Stages:
    """The stages of a graph and its gradients."""

    kernels: dict[str, Kernel] = dataclasses.field(default_factory=dict)
    primitives: dict[Chain, list[str]] = dataclasses.field(default_factory=dict)
    """The operations of stage 02, by the lines they come from."""
    plans: dict[str, plans.Plan] = dataclasses.field(default_factory=dict)
    """The plan of each entry."""


def read(folder: str | None) -> Stages | None:
    """Returns the stages in a folder; None without any."""
    if folder is None:
        return None
    kernels, linalg = _lines(folder, "03-kernels.mlir"), _lines(folder, "05-linalg.mlir")
    if kernels is None:
        return None
    made = Stages()
    locations = Locations(kernels)
    for name, level, body in functions(kernels):
        if level > 2:
            chains = {chain for line in body for chain in locations.of_line(line)}
            text = "\n".join(map(without, body))
            made.kernels[name] = Kernel(chains, {"kernels": text}, work.flops(body))
    for name, level, body in functions(linalg or []):
        if level > 2:
            made.kernels.setdefault(name, Kernel()).texts["linalg"] = "\n".join(map(without, body))
    machine = _assembly(_lines(folder, "11-kernels.s")) or _ptx(_lines(folder, "08-kernels.ptx"))
    for name, text in machine.items():
        if name in made.kernels:
            made.kernels[name].texts["assembly"] = text
    _primitives(_lines(folder, "02-prims.mlir") or [], made)
    for name, level, body in functions(_lines(folder, "04-planned.mlir") or []):
        if level == 2:
            made.plans[name] = plans.read(body)
    return made


def _lines(folder: str, name: str) -> list[str] | None:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read(_LARGEST).split("\n")
    except OSError:
        return None


def functions(lines: list[str]) -> Iterator[tuple[str, int, list[str]]]:
    """Yields the name, the indentation and the lines of each function, without the indentation."""
    at = 0
    while at < len(lines):
        match = _FUNCTION.match(lines[at])
        if match is None or not lines[at].rstrip().endswith(("{", ")")):
            at += 1
            continue
        level, end = len(match[1]), at + 1
        closing = match[1] + "}"
        while end < len(lines) and not lines[end].startswith(closing):
            end += 1
        yield match[2].strip('"'), level, [line[level:] for line in lines[at : end + 1]]
        at = end + 1


def _primitives(lines: list[str], made: Stages) -> None:
    locations = Locations(lines)
    for line in lines:
        if "dynamo." not in line or line.lstrip().startswith(("func.func", "module")):
            continue
        text = without(line.strip())
        for chain in locations.of_line(line):
            made.primitives.setdefault(chain, []).append(text)


def _assembly(lines: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    name, body = "", list[str]()
    for line in lines or []:
        label = _LABEL.match(line)
        if label and not label[1].startswith(".L"):
            name, body = label[1], []
        if not name:
            continue
        if line.startswith(".Lfunc_end"):
            found[name], name = "\n".join(body), ""
        elif not line.startswith(("\t.cfi_", "\t.p2align")):
            body.append(line.expandtabs(8))
    return found


def _ptx(lines: list[str] | None) -> dict[str, str]:
    found: dict[str, str] = {}
    name, body = "", list[str]()
    for line in lines or []:
        entry = _PTX.match(line)
        if entry:
            name, body = entry[1], []
        if name:
            body.append(line.expandtabs(8))
            if line.startswith("}"):
                found[name], name = "\n".join(body), ""
    return found
