"""Programs of the guard fuzzer: functions that read some of their module's objects and compute with them."""

from __future__ import annotations

import builtins
import random
import sys
import types
from pathlib import Path
from typing import Any

from reading import kinds

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
    """The expressions listed in a file, one per line."""
    return HERE.joinpath(name).read_text().splitlines()


_READING = [
    compile(kinds.HERE.joinpath(name).read_text(), f"<{name}>", "exec", dont_inherit=True)
    for name in ("state.py", "prelude.py")
]
"""The definitions that ways of reading need. Each program executes them, so the classes are its own."""
_READS = [
    (kind, way)
    for kind in kinds.KINDS
    for name in kind.ways
    for way in kinds.entries(name)
    # A hash by identity differs between two runs of one program.
    if not (way.startswith("hash(") and kind.name == "values of a dict")
]
_NUMBERS, _TENSORS = entries("numbers.txt"), entries("tensors.txt")


def main(seed: int, reads: bool = False) -> str:
    """A seed's function. With ``reads``, some numbers are read in all ways from all kinds of containers."""
    chance = random.Random(seed)
    above: list[str] = []
    numbers = _NUMBERS
    if reads and chance.random() < 0.7:
        above, ours = zip(*(read(chance, at) for at in range(chance.randint(1, 3))))
        numbers = _NUMBERS + [text for texts in ours for text in texts] * (len(_NUMBERS) // len(ours))
    lines = ["    y = x"]
    for _ in range(chance.randint(1, 4)):
        number, form = chance.choice(numbers), chance.random()
        if form < 0.5:
            lines.append(f"    y = y * ({number})")
        elif form < 0.7:
            lines.append(f"    if ({number}) > {chance.randint(0, 4)}:\n        y = y + {chance.randint(1, 5)}")
        elif form < 0.85:
            lines.append(f"    for i in range(min(abs(int({number})), 3)):\n        y = y + i")
        else:
            lines.append(f"    y = y + ({number}) - ({chance.choice(numbers)})")
        if chance.random() < 0.4:
            lines.append(f"    y = {chance.choice(_TENSORS)}")
    results = [
        "y",
        "y",
        "(y, x)",
        f"[y, {chance.choice(numbers)}]",
        '{"y": y, "o": o}',
        "(y, items)",
        "(y, CONFIG, TENSOR)",
    ]
    body = "\n".join(lines)
    return "".join(above) + f"def main(x, o, items, it):\n{body}\n    return {chance.choice(results)}\n"


def read(chance: random.Random, at: int) -> tuple[str, tuple[str, ...]]:
    """The definitions of a container and of a way of reading it, and expressions for the numbers read."""
    kind, way = chance.choice(_READS)
    *lines, result = way.split("; ")
    told = result.startswith("told: ")
    lines.append(f"return {result.removeprefix('told: ')}")
    body = "\n".join(f"    {line}" for line in lines)
    text = f"def made_{at}(n):\n    return {kind.made}\n\n\ndef way_{at}(v, x):\n{body}\n\n\n"
    if kind.written is not None:
        text += f"def write_{at}(v, n):\n    {kind.written}\n\n\n"
    call = f"way_{at}(KEPT_{at}, x)"
    call = f"len(str({call}))" if told else call
    return f"{text}KEPT_{at} = made_{at}(2)\n\n\n", (call, f"tried(lambda: {call})")


def world(text: str) -> types.ModuleType:
    """A new module with all names, whose `main` is the given one."""
    made = types.ModuleType("fuzzed")
    # Dataclasses look up their module in `sys.modules`.
    sys.modules["fuzzed"] = made
    # The module's own builtins, which can be patched without affecting other code.
    made.__dict__["__builtins__"] = dict(vars(builtins))
    if "def made_0" in text:
        for code in _READING:
            exec(code, made.__dict__)
    for name, source in ((str(PRELUDE), PRELUDE.read_text()), ("<imports>", IMPORTS), ("<main>", text)):
        exec(compile(source, name, "exec"), made.__dict__)
    made.X = made.torch.arange(6.0).reshape(2, 3) - 2
    made.O = made.CONFIG
    made.ITEMS = [1, 2]
    made.fuzzed_import = types.ModuleType("fuzzed_import")
    made.fuzzed_import.k = 3
    return made


def arguments(made: Any) -> tuple[Any, ...]:
    """The arguments of `main`."""
    return made.X, made.O, made.ITEMS, iter([4, 5])
