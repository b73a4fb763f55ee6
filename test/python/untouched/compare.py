"""The changes that an act makes to a world, and the differences between the effects of two functions."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable
from typing import Any

import dynamlir
from guard_fuzz import run

from . import process, programs, watch


def changes(world: types.ModuleType, act: Callable[[], Any]) -> list[str]:
    """The changes that an act leaves in a world and in the process, with the garbage collector off."""
    values = watch.parts(world)
    watch.Snapshot(values)  # creates what inspection creates, such as frames of generators
    collects = gc.isenabled()
    gc.disable()
    try:
        outside, before = process.state(), watch.Snapshot(values)
        act()
        after = watch.Snapshot(values)
        return watch.differences(values, before, after) + process.differences(outside, process.state())
    finally:
        if collects:
            gc.enable()


def effects(world: types.ModuleType, function: Callable[..., Any], written: Callable[[], Any], named: str) -> list[Any]:
    """The outcomes of two calls, and their effects on the named parts of a world, on the process and on the output."""
    found = []
    for _ in range(2):
        with process.kept():
            before = process.state()
            outcome = run.outcome(world, function, named)
            after = process.state()
        changed = [name for name in before if before[name] != after[name]]
        found.append((*outcome, watch.positions(world), changed, written()))
    return found


def unlike(body: str, written: Callable[[], Any], backend: str = "eager") -> list[str]:
    """Describes how a compiled function's calls differ from plain Python's."""
    plain, ours = programs.world(body), programs.world(body)
    named = f"{body} CONFIG LIST LOG NESTED TABLE"
    expected = effects(plain, plain.main, written, named)
    seen = effects(ours, dynamlir.compile(ours.main, backend=backend), written, named)
    return [
        f"call {call}: plain {one}\nours {other}"
        for call, pair in enumerate(zip(expected, seen, strict=True))
        for one, other in zip(*pair, strict=True)
        if not run.same(one, other)
    ]
