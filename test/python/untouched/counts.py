"""Counts the runs of a program's own special methods by an audit hook, in a separate process, since hooks stay.

``python -m untouched.counts`` prints a line for each program whose capture or compiled call runs a method too often.
"""

from __future__ import annotations

import collections
import gc
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import torch

from . import programs

counted: collections.Counter[tuple[int, str]] = collections.Counter()


def audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Counts a call: each method of the world reads the ``__code__`` of a function whose name identifies the method."""
    if event == "object.__getattr__" and arguments[1] == "__code__" and arguments[0].__name__.startswith("called_"):
        counted[id(arguments[0].__globals__), arguments[0].__name__] += 1


def counts(world: types.ModuleType, function: Callable[..., Any]) -> collections.Counter[str]:
    """The number of runs of each of a world's methods during a call."""
    counted.clear()
    programs.called(function, world)
    return collections.Counter({name: count for (at, name), count in counted.items() if at == id(world.__dict__)})


def too_often(body: str) -> list[str]:
    """The methods that a program's capture, or its first or second compiled call, runs more often than plain Python."""
    plain, ours, alone = (programs.world(body) for _ in range(3))
    expected = [counts(plain, plain.main) for _ in range(2)]
    dynamlir.reset()
    with dynamlir.config.patch(graph_breaks=False):
        captured = counts(alone, dynamlir.explain(alone.main))
    compiled = dynamlir.compile(ours.main, backend="eager")
    first = counts(ours, compiled)
    # An abandoned capture has run the methods up to the place where it ended; then plain Python runs them.
    first -= captured if dynamlir.fallbacks() else collections.Counter()
    seen = {"captured": captured, "first": first, "second": counts(ours, compiled)}
    limits = {"captured": expected[0], "first": expected[0], "second": expected[1]}
    return [f"{when}: {dict(seen[when])}, plain: {dict(limits[when])}" for when in seen if seen[when] - limits[when]]


def main() -> None:
    warnings.simplefilter("ignore")
    gc.disable()  # other worlds' finalizers are not counted, but take their time
    sys.addaudithook(audit)
    torch.set_grad_enabled(False)
    ran: collections.Counter[str] = collections.Counter()
    for read in programs.entries("reads.txt"):
        world = programs.world(f"y = y * ({read})")
        ran += counts(world, world.main)
        for line in too_often(f"y = y * ({read})"):
            print(f"{read}\t{line}")
    print(len(ran))


if __name__ == "__main__":
    main()
