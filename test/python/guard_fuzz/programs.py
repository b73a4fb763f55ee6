"""Programs of the guard fuzzer: functions that read some of what their module has, and compute with it."""

from __future__ import annotations

import builtins
import random
import sys
import types
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PRELUDE = HERE / "prelude.py"

IMPORTS = """
import copy, dataclasses, functools, inspect, operator, sys
import torch
import torch.nn.functional as F


def imported_number():
    import fuzzed_import

    return fuzzed_import.k


def imported_name():
    from fuzzed_import import k

    return k


def tried(find):
    # What fails in one call need not fail in the next.
    try:
        return find()
    except Exception as error:
        return len(type(error).__name__)


def handled():
    try:
        raise KeyError
    except KeyError as error:
        return 2 if error.__context__ is None else 3

"""


def entries(name: str) -> list[str]:
    """The expressions that a file lists, one a line."""
    return HERE.joinpath(name).read_text().splitlines()


_NUMBERS, _TENSORS = entries("numbers.txt"), entries("tensors.txt")


def main(seed: int) -> str:
    """The function of a seed."""
    chance = random.Random(seed)
    lines = ["    y = x"]
    for _ in range(chance.randint(1, 4)):
        number, form = chance.choice(_NUMBERS), chance.random()
        if form < 0.5:
            lines.append(f"    y = y * ({number})")
        elif form < 0.7:
            lines.append(f"    if ({number}) > {chance.randint(0, 4)}:\n        y = y + {chance.randint(1, 5)}")
        elif form < 0.85:
            lines.append(f"    for i in range(min(abs(int({number})), 3)):\n        y = y + i")
        else:
            lines.append(f"    y = y + ({number}) - ({chance.choice(_NUMBERS)})")
        if chance.random() < 0.4:
            lines.append(f"    y = {chance.choice(_TENSORS)}")
    results = [
        "y",
        "y",
        "(y, x)",
        f"[y, {chance.choice(_NUMBERS)}]",
        '{"y": y, "o": o}',
        "(y, items)",
        "(y, CONFIG, TENSOR)",
    ]
    return "def main(x, o, items, it):\n" + "\n".join(lines) + f"\n    return {chance.choice(results)}\n"


def world(text: str) -> types.ModuleType:
    """A new module with everything, in which `main` is the given one."""
    made = types.ModuleType("fuzzed")
    # Dataclasses look for their module.
    sys.modules["fuzzed"] = made
    # Builtins of its own, which can be patched without anybody else noticing.
    made.__dict__["__builtins__"] = dict(vars(builtins))
    for name, source in ((str(PRELUDE), PRELUDE.read_text()), ("<imports>", IMPORTS), ("<main>", text)):
        exec(compile(source, name, "exec"), made.__dict__)
    made.X = made.torch.arange(6.0).reshape(2, 3) - 2
    made.O = made.CONFIG
    made.ITEMS = [1, 2]
    made.fuzzed_import = types.ModuleType("fuzzed_import")
    made.fuzzed_import.k = 3
    return made


def arguments(made: Any) -> tuple[Any, ...]:
    """What `main` is called with."""
    return made.X, made.O, made.ITEMS, iter([4, 5])
