"""Programs over the watched world: files list reads and writes, one per line; a grammar combines them."""

from __future__ import annotations

import contextlib
import copyreg
import functools
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from guard_fuzz import programs
from hypothesis import strategies as st

from . import known

HERE = Path(__file__).parent
WORLD = HERE.joinpath("world.py").read_text()


def entries(name: str) -> list[str]:
    """The expressions listed in a file."""
    return HERE.joinpath(name).read_text().splitlines()


WRITES = entries("writes.txt")
UNRELIABLE = ("cached(2)", "cached(NUMBER)", "bump()", "next(it, 9)")
"""The guard fuzzer's expressions that write."""
READS = entries("reads.txt") + [each for each in programs.entries("numbers.txt") if each not in UNRELIABLE]
TENSORS = entries("tensors.txt") + programs.entries("tensors.txt")


def world(body: str) -> types.ModuleType:
    """A new world whose `main` has this body; Python's own caches about its classes are already filled."""
    lines = "\n".join(f"    {line}" for line in ["y = x", *body.splitlines(), "return y"])
    torch.manual_seed(0)
    made = programs.world(WORLD)
    # Compiled separately: code that is compiled together shares constants, and classes keep some of theirs.
    exec(compile(f"def main(x, o, items, it):\n{lines}\n", "<main>", "exec"), made.__dict__)
    for kind in list(vars(made).values()):
        if isinstance(kind, type):
            copyreg._slotnames(kind)  # type: ignore[attr-defined]
    isinstance(made.EMPTY, made.Shape)
    return made


@contextlib.contextmanager
def imported(made: types.ModuleType) -> Iterator[None]:
    """Makes the modules that the world's programs import available within the block."""
    sys.modules["fuzzed_import"] = made.fuzzed_import
    try:
        yield
    finally:
        sys.modules.pop("fuzzed_import", None)
        sys.modules.pop("fuzzed_other", None)


def called(function: Callable[..., Any], made: types.ModuleType) -> Any:
    """The result of a call, or the name of the exception that it raises."""
    try:
        return function(*programs.arguments(made))
    except Exception as error:
        return type(error).__name__


FORMS = [
    "y = y * ({read})",
    "y = y + ({read}) - ({other})",
    "if ({read}) > 2:\n    y = y + 1\nelse:\n    y = y - ({other})",
    "for i in range(min(abs(int({read})), 3)):\n    y = y + i",
    "try:\n    y = y * ({read})\n    raise KeyError(y)\nexcept KeyError as error:\n    y = y + len(error.args)",
    "try:\n    y = y + len(({read}))\nexcept TypeError:\n    y = y - ({other})",
    "with ENTERED as k:\n    y = y * k + ({read})",
    "with managed() as k:\n    y = y * k + ({read})",
    "with torch.no_grad():\n    y = y * ({read})",
    "inner = lambda a=({read}): a + ({other})\ny = y + inner()",
    "y = y + sum([({read}) for _ in range(2)])",
    "made = [*LIST, ({read})]\nmade.append(3)\ny = y + len(made)",
    "made = dict(TABLE)\nmade['z'] = ({read})\ny = y * made['z']",
    "made = Config(({read}))\nmade.fresh = ({other})\ny = y + made.fresh",
    "y = y + next(v for v in [({read}), 2])",
    "y = y + max(({read}), ({other}))",
    "y = {tensor}",
    "y = ({tensor}) * ({read})",
]


@functools.cache
def _forms() -> Any:
    parts = {"read": READS, "other": READS, "tensor": TENSORS}
    return st.builds(
        lambda form, **chosen: form.format(**chosen),
        st.sampled_from(FORMS),
        **{name: st.sampled_from(values) for name, values in parts.items()},
    )


def bodies() -> Any:
    """Bodies of functions that only read."""
    return st.lists(_forms(), min_size=1, max_size=5).map("\n".join)


def writing() -> Any:
    """Bodies that read, write once, and read again."""
    writes = [write for write in WRITES if write not in known.TOUCHED]
    return st.tuples(bodies(), st.sampled_from(writes), bodies()).map("\n".join)
