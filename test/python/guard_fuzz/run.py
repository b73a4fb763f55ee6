"""Runs a program of the guard fuzzer plain and compiled, with changes between the calls, and reports differences."""

from __future__ import annotations

import contextlib
import math
import random
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import torch

from . import changes, programs

CALLS = 6
NUMBERS = (2, 3, 4, 5, 6, -4, 0, 1, -4.0, True, 0.5, 1.5, 2.5, -0.0)
"""The new numbers for containers. The first ones, one after another, are those that relax a number to a dynamic one."""
ADDRESS = re.compile(r"0x[0-9a-f]+")
NAMES = re.compile(r"\b[A-Za-z_]\w*\b")


class Numbers(list):
    """The elements of a tensor, compared with a tolerance: generated kernels round differently than torch's."""


def same(a: Any, b: Any) -> bool:
    """Returns true if two outcomes agree."""
    if isinstance(a, Numbers) and isinstance(b, Numbers):
        # Normalizing an almost constant row magnifies an error in an element's last bit to about 1e-4 of the largest
        # element.
        largest = max((abs(x) for x in a if math.isfinite(x)), default=0.0)
        return len(a) == len(b) and all(
            x == y or (x != x and y != y) or math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-5 + 1e-3 * largest)
            for x, y in zip(a, b, strict=True)
        )
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def shown(value: Any, places: dict[int, str], depth: int = 0) -> Any:
    """Describes a value to the last bit: contents, layout, types, and which object of the world it is."""
    if isinstance(value, torch.Tensor):
        layout = (str(value.dtype), tuple(value.shape), value.stride(), value.storage_offset(), value.requires_grad)
        return type(value).__name__, layout, Numbers(value.detach().double().flatten().tolist()), places.get(id(value))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return type(value).__name__, ADDRESS.sub("", repr(value))
    if depth > 4:
        return "…"
    known = places.get(id(value))
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value).__name__, known, [shown(item, places, depth + 1) for item in changes.stored(value)]
    if isinstance(value, dict):
        return type(value).__name__, known, [(repr(k), shown(v, places, depth + 1)) for k, v in changes.stored(value)]
    return type(value).__qualname__, known


def roots(world: Any, text: str) -> list[changes.Place]:
    """The places that a program's function names, and its arguments."""
    names = dict.fromkeys(NAMES.findall(text + "CONFIG"))
    left = ("torch", "F", "main", "made_0", "made_1", "made_2", "write_0", "write_1", "write_2")
    named = [(name, vars(world)[name]) for name in names if name in vars(world) and name not in left]
    named = [
        (name, value) for name, value in named if not isinstance(value, types.ModuleType) or "fuzzed" in value.__name__
    ]
    return [("main", world.main), *named, ("x", world.X), ("o", world.O), ("items", world.ITEMS)]


def state(world: Any, text: str, places: dict[int, str]) -> Any:
    """The state of a program's module after a call."""
    return [(path, shown(value, places, 3)) for path, value in changes.reach(roots(world, text))]


def outcome(world: Any, call: Callable[..., Any], text: str) -> Any:
    """The outcome of a call, including the state that it leaves."""
    # Two runs of one program share `sys.modules` and all other state of the process.
    if "fuzzed_import" not in sys.modules or getattr(sys.modules["fuzzed_import"], "k", 0) == 3:
        sys.modules["fuzzed_import"] = world.fuzzed_import
    # Kept alive until the end, so that no new object gets the address of one that died and is taken for it.
    before = changes.reach(roots(world, text))
    places = {id(value): path for path, value in before}
    args = programs.arguments(world)
    # `torch.manual_seed` queries each device first, and records the stack: more work than most of these programs.
    torch.default_generator.manual_seed(0)
    try:
        result = shown(call(*args), places)
    except RecursionError:
        # The depth and the place of the error differ through C.
        result = ("raised", "RecursionError")
    except Exception as error:
        result = "raised", type(error).__name__, ADDRESS.sub("", str(error))
    left = list(args[-1]), state(world, text, places)
    del before
    return result, *left


def differs(seed: int, calls: int = CALLS, *, reads: bool = False) -> str | None:
    """Describes how a seed's compiled program differs from the plain one, if at all. ``reads``: see `programs.main`."""
    text = programs.main(seed, reads)
    chance = random.Random(seed)
    plain, ours = programs.world(text), programs.world(text)
    # Most programs run their captured operations as they are: nothing is compiled, and the last bit is torch's. Numbers
    # are dynamic only in graphs that dynamlir compiles.
    own = seed % 4 == 0 or "KEPT_0" in text
    compiled = dynamlir.compile(ours.main, backend="dynamlir" if own else "eager")
    history: list[str] = []
    with contextlib.ExitStack() as undo, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        undo.callback(sys.modules.pop, "fuzzed_import", None)
        if chance.random() < 0.9:
            undo.enter_context(torch.no_grad())
        shared: list[str] = []
        for number in range(calls):
            handling = chance.random() < 0.05
            if number:
                history.append(_change(chance, plain, ours, text, shared))
            for _ in range(chance.choice([1, 1, 2, 3])):
                both = ((plain, plain.main), (ours, compiled))
                expected, seen = (_called(world, call, text, handling, shared) for world, call in both)
                if not same(expected, seen):
                    handled = f", handling {handling}"
                    return "\n".join([text, *history, f"call {number}{handled}", *_difference(expected, seen)])
    return None


def _called(world: Any, call: Callable[..., Any], text: str, handling: bool, shared: list[str]) -> Any:
    def within(*args: Any) -> Any:
        with contextlib.ExitStack() as undo:
            for name in shared:
                undo.callback(changes.SHARED[name]())
            return call(*args)

    if not handling:
        return outcome(world, within, text)
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        return outcome(world, within, text)


def _change(chance: random.Random, plain: Any, ours: Any, text: str, shared: list[str]) -> str:
    """Makes one change in both worlds; returns its description."""
    seed, kind = chance.randrange(1 << 30), chance.random()
    if "KEPT_0" in text and chance.random() < 0.7:
        return _number(chance, [plain, ours])
    if kind < 0.03 and shared:
        return f"no more: {shared.pop(chance.randrange(len(shared)))}"
    if kind < 0.12:
        name = chance.choice([name for name in changes.SHARED if name not in shared])
        shared.append(name)
        return f"shared: {name}"
    if kind < 0.15:
        name, _ = (changes.hide(seed, world) for world in (plain, ours))
        return f"builtin: {name} ({seed})"
    if kind < 0.3:
        names = [name for name, _ in roots(plain, text) if name not in ("main", "x", "o", "items")] or ["NUMBER"]
        name = chance.choice(names)
        for world in (plain, ours):
            changes.rebind(seed, world, name)
        return f"rebind: {name} ({seed})"
    if kind < 0.42:
        name = chance.choice(["X", "O", "ITEMS"])
        for world in (plain, ours):
            changes.rebind(seed, world, name) if random.Random(seed).random() >= 0.1 else None
        return f"argument: {name} ({seed})"
    here, there = (changes.reach(roots(world, text)) for world in (plain, ours))
    if [path for path, _ in here] != [path for path, _ in there]:
        return "nothing: the worlds have parted"
    at = chance.randrange(len(here))
    for places, world in ((here, plain), (there, ours)):
        changes.make(seed, places[at][1], world)
    return f"change: {here[at][0]} ({seed})"


def _number(chance: random.Random, worlds: list[Any]) -> str:
    """Writes another number to each world's container, or gives each world a new container; returns a description."""
    name = chance.choice([name for name in "012" if f"made_{name}" in vars(worlds[0])])
    n, new = chance.choice(NUMBERS), chance.random() < 0.5
    for world in worlds:
        # A container that cannot hold this number, or that another change has replaced, stays as it is.
        with contextlib.suppress(Exception):
            if new or not hasattr(world, f"write_{name}"):
                setattr(world, f"KEPT_{name}", getattr(world, f"made_{name}")(n))
            else:
                getattr(world, f"write_{name}")(getattr(world, f"KEPT_{name}"), n)
    return f"number: KEPT_{name}, {n!r}, {'new' if new else 'written'}"


def _difference(expected: Any, seen: Any) -> list[str]:
    lines = []
    for what, a, b in zip(("result", "iterator", "state"), expected, seen, strict=True):
        if not same(a, b) and what != "state":
            lines += [f"{what}: plain {a}", f"{what}: ours  {b}"]
        elif not same(a, b):
            lines += [f"state: plain {p}\nstate: ours  {o}" for p, o in zip(a, b, strict=False) if not same(p, o)][:3]
    return lines
