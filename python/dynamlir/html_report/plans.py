"""The plan of an entry, read at stage 04: its steps in order, and the life of each buffer of its workspace."""

from __future__ import annotations

import dataclasses
import math
import re

_BUFFER = re.compile(r"^ *(%[\w-]+) = dynamo\.buffer (%[\w-]+)\[(\d+)\][^:]*: .* -> memref<((?:\d+x)*)(\w+)(?:, .*)?>")
_WORKSPACE = re.compile(r"^ *(%[\w-]+) = dynamo\.workspace : memref<(\d+)xi8>")
_ALIAS = re.compile(r"^ *(%[\w-]+)(?::\d+)? = memref\.\w+ (%[\w-]+)")
_VALUE = re.compile(r"%[\w-]+")
_STEP = re.compile(r"dynamo\.launch @kernels::@(\"[^\"]*\"|[\w$.-]+)\(|dynamo\.extern (\w+) \"([^\"]*)\"")
_BITS = re.compile(r"\d+")


@dataclasses.dataclass
class Step:
    """A launch of a kernel, or a call of torch's library."""

    name: str
    route: str | None = None
    """The route of a call of torch's library; None for a kernel."""


@dataclasses.dataclass
class Buffer:
    """A part of the workspace."""

    offset: int
    bytes: int
    type: str
    first: int
    """The first step that uses it."""
    last: int


@dataclasses.dataclass
class Plan:
    """An entry's steps and buffers."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    workspace: int | None = 0
    """Its bytes; None if they depend on dynamic sizes."""
    buffers: list[Buffer] = dataclasses.field(default_factory=list)


def read(body: list[str]) -> Plan:
    """Returns the plan of an entry."""
    made = Plan()
    spaces: set[str] = set()
    owners: dict[str, Buffer] = {}
    for line in body[1:]:
        space = _WORKSPACE.match(line)
        if space:
            spaces.add(space[1])
            made.workspace = int(space[2])
            continue
        if " = dynamo.workspace" in line:
            made.workspace = None
            continue
        buffer = _BUFFER.match(line)
        if buffer:
            if buffer[2] in spaces:
                sizes = [int(size) for size in buffer[4].split("x") if size]
                bits = _BITS.search(buffer[5])
                size = math.prod(sizes) * ((int(bits[0]) if bits else 8) + 7 >> 3)
                text = f"{buffer[5]}[{', '.join(map(str, sizes))}]"
                owners[buffer[1]] = Buffer(int(buffer[3]), size, text, -1, -1)
            continue
        alias = _ALIAS.match(line)
        if alias:
            if alias[2] in owners:
                owners[alias[1]] = owners[alias[2]]
            continue
        step = _STEP.search(line)
        if step:
            made.steps.append(Step(step[1].strip('"')) if step[1] else Step(step[3], step[2]))
        at = len(made.steps) - 1 if step else len(made.steps)
        for value in _VALUE.findall(line) if owners else ():
            if value in owners:
                used = owners[value]
                used.first, used.last = at if used.first < 0 else used.first, at
    last = len(made.steps) - 1
    seen = {id(buffer): buffer for buffer in owners.values() if buffer.first >= 0}
    for one in seen.values():
        one.first, one.last = min(one.first, max(last, 0)), min(one.last, max(last, 0))
        made.buffers.append(one)
    return made
