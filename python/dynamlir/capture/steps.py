"""The interpreter's step trace: for each instruction the value stack after it, and the node it added to the graph."""

from __future__ import annotations

import dataclasses
import dis
import re
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import native

# They prepare the next instruction, or mark a place: a reader of the trace does not need to see them.
_SILENT = frozenset({"RESUME", "PRECALL", "PUSH_NULL", "CACHE", "NOP", "NOT_TAKEN", "COPY_FREE_VARS", "MAKE_CELL"})

_JOINED = re.compile(r"(LOAD_FAST_BORROW|LOAD_FAST|STORE_FAST)_(LOAD_FAST_BORROW|LOAD_FAST|STORE_FAST) (\w+), (\w+)")


@dataclasses.dataclass(frozen=True)
class Step:
    """One instruction of the captured function."""

    instruction: str
    stack: tuple[str, ...]
    node: str
    """The line of the graph that the instruction added, or the empty string."""

    def __str__(self) -> str:
        return f"{self.instruction} | [{', '.join(self.stack)}] | {self.node or '–'}"


@dataclasses.dataclass(frozen=True)
class StepTrace:
    """All steps of one capture, and its graph."""

    steps: tuple[Step, ...]
    graph: str

    def __str__(self) -> str:
        rows = [("Step", "Instruction", "Stack", "Graph (new node)")]
        for number, step in enumerate(self.steps, 1):
            rows.append((str(number), step.instruction, f"[{', '.join(step.stack)}]", step.node or "–"))
        widths = [max(len(row[column]) for row in rows) for column in range(4)]
        lines = [" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
        lines.insert(1, "-|-".join("-" * width for width in widths))
        return "\n".join(lines)


def trace_steps(function: Callable[..., Any]) -> Callable[..., StepTrace]:
    """``trace_steps(fn)(*args)`` captures one call of ``fn`` and shows each step of the interpreter."""

    def run(*args: Any, **kwargs: Any) -> StepTrace:
        seen: list[tuple[str, tuple[str, ...], int]] = []
        target = getattr(function, "__wrapped__", function)
        if isinstance(target, torch.nn.Module):
            target, args = type(target).forward, (target, *args)
        code = target.__code__

        def note(at: types.CodeType, unit: int, name: str, arg: int, stack: list[str], nodes: int) -> None:
            if at is code:
                visible = tuple(entry for entry in stack if entry != "NULL")
                seen.append((_show(at, unit, name), visible, nodes))

        frame = native.module().capture(target, args, kwargs, note)
        if isinstance(frame, tuple):
            reason, message, _ = frame
            raise RuntimeError(f"the function cannot be captured whole: {reason}: {message}")
        lines = [line.strip() for line in frame.text.splitlines()[1:]]
        inputs = sum(line.endswith("= placeholder") for line in lines)
        operations = lines[inputs:-1]
        steps = []
        added = 0
        for at, (name, _, _) in enumerate(seen):
            last = at + 1 == len(seen)
            stack = () if last else seen[at + 1][1]
            total = len(operations) if last else seen[at + 1][2] - seen[0][2]
            node = "; ".join(operations[added:total])
            added = max(added, total)
            if name.split()[0] in _SILENT:
                continue
            first, second = _halves(name)
            if second:
                # The stack after the first half: a second load adds one value, a second store takes one.
                between = seen[at][1][:-1] if second.startswith("STORE") else stack[:-1]
                steps.append(Step(first, between, ""))
            steps.append(Step(second or first, stack, lines[-1] if last else node))
        return StepTrace(tuple(steps), frame.text)

    return run


def _halves(name: str) -> tuple[str, str]:
    """Splits ``LOAD_FAST_LOAD_FAST x, y``, one instruction since CPython 3.13, into the two that it combines."""
    found = _JOINED.fullmatch(name)
    if found is None:
        return name, ""
    first, second, *names = found.groups()
    return f"{first} {names[0]}", f"{second} {names[1]}"


def _show(code: types.CodeType, unit: int, name: str) -> str:
    """Returns ``LOAD_FAST x``: the instruction with the meaning of its argument."""
    for instruction in dis.get_instructions(code):
        if instruction.offset == 2 * unit:
            # Here the argument is the number itself, which `dis` does not repeat.
            meaning = str(instruction.arg) if name == "LOAD_SMALL_INT" else instruction.argrepr
            return f"{name} {meaning}".strip()
    return name
