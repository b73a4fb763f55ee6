"""Runs programs of the grid plain and compiled while the number that they read changes, and reports differences."""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import torch

from . import kernels
from .kinds import HERE, HOMES, KINDS, Home, Kind, entries

ADDRESS = re.compile(r"0x[0-9a-f]+")
NUMBERS = {
    # Two more values, a change of sign, an equal value of another type, the first value again.
    "ints": (2, 3, 4, -4, -4.0, 2),
    # Values that are equal but distinguishable are next to each other.
    "floats": (0.5, 1.5, 2.5, -2.5, 0.0, -0.0, 0.5),
    "whole": (2, 3, 4, 1, 0, 2),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A way of reading a number, the kind of container that holds it, and the place of the container."""

    kind: Kind
    home: Home
    way: str
    numbers: str
    written: bool
    """True if one container is written to; otherwise each call gets a new one."""

    def __str__(self) -> str:
        how = "written to" if self.written else "new"
        return f"{self.kind.name}, {self.home.name}, {self.numbers}, {how}: {self.way}"

    @property
    def text(self) -> str:
        """The source of the function."""
        *lines, result = self.way.split("; ")
        told = result.startswith("told: ")
        result = result.removeprefix("told: ")
        lines = [f"v = {self.home.read}", *lines]
        lines.append(f"return x + 1, {result}" if told else f"return x * ({result})")
        parameters = f"x, {self.home.parameters}" if self.home.parameters else "x"
        body = "\n".join(f"        {line}" for line in lines)
        return f"def outer():\n    home = None\n\n    def main({parameters}):\n{body}\n\n{SETTER}\n"


SETTER = """    def set_cell(v):
        nonlocal home
        home = v

    return main, set_cell"""
STRIDE = 127
"""The sample contains one of this number of programs."""
KNOWN = HERE / "known.txt"
"""The list of programs that are known to be wrong."""
STATE = compile(HERE.joinpath("state.py").read_text(), "<state>", "exec")


def programs(kinds: tuple[Kind, ...] = KINDS) -> list[Program]:
    """All programs, in a fixed order: each way of each kind as an argument, and some from another place."""
    made: list[Program] = []
    for kind in kinds:
        at = KINDS.index(kind)
        for number, way in enumerate(way for name in kind.ways for way in entries(name)):
            turn = number + at * 5
            written = kind.written is not None and turn % 2 == 1
            numbers = ("whole", "whole") if kind.whole else ("ints", "floats") if turn % 3 else ("floats", "ints")
            home = HOMES[1 + turn % (len(HOMES) - 1)]
            made.append(Program(kind, HOMES[0], way, numbers[0], written))
            if turn % 3 == 0 or kind.name == "tuple":
                made.append(Program(kind, home, way, numbers[1], written))
    return made


def sample(kind: Kind) -> list[Program]:
    """A fixed selection of a kind's programs."""
    every = programs((kind,))
    return every[KINDS.index(kind) * 7 % min(STRIDE, len(every)) :: STRIDE]


def world(program: Program) -> dict[str, Any]:
    """The namespace of a module that defines the program's function."""
    made = types.ModuleType("reading.made")
    exec(STATE, made.__dict__)
    exec(program.text, made.__dict__)
    made.__dict__["main"], made.__dict__["set_cell"] = made.__dict__["outer"]()
    return made.__dict__


def shown(value: Any) -> Any:
    """Describes a value, without addresses."""
    if isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value.dtype} {value.tolist()}"
    if type(value) in (tuple, list):
        return type(value)(map(shown, value))
    return ADDRESS.sub("", f"{type(value).__name__} {value!r}")


def outcomes(program: Program, compiled: Callable[[Any], Any]) -> list[tuple[Any, ...]]:
    """The outcomes of the calls, and the state that each leaves behind."""
    names = world(program)
    names["call"] = compiled(names["main"])
    names["x"] = torch.ones(1)
    made = f"v = {program.kind.made}"
    written = f"{program.kind.written}" if program.written else made
    put = f"{program.home.put}\ngiven_x = x.clone()"
    arguments = f"given_x, {program.home.arguments}"
    found: list[tuple[Any, ...]] = []
    for at, n in enumerate(NUMBERS[program.numbers]):
        names["n"] = n
        try:
            exec(f"{written if at else made}\n{put}", names)
        except Exception as error:
            # There is no call with a number that the container cannot hold.
            found.append((type(error).__name__,))
            continue
        try:
            result = shown(eval(f"call({arguments})", names))
        except Exception as error:
            result = "raised", type(error).__name__, ADDRESS.sub("", str(error))
        left = [names[name] for name in ("LOG", "STATE", "MEMO")]
        found.append((n, result, shown(left), shown(vars(names["BOX"])), shown(names["v"])))
    return found


def differs(program: Program, dynamic: bool | None = None) -> str | None:
    """Describes how the compiled program's calls differ from the plain program's, if they do."""
    with warnings.catch_warnings(), torch.no_grad(), kernels.shared(), dynamlir.config.patch(on_plain="ignore"):
        warnings.simplefilter("ignore")
        expected = outcomes(program, lambda function: function)
        dynamlir.reset()
        seen = outcomes(program, lambda function: dynamlir.compile(function, dynamic=dynamic))
    for number, (a, b) in enumerate(zip(expected, seen, strict=True)):
        if a != b:
            parts = [f"plain {p}\nours  {o}" for p, o in zip(a, b, strict=True) if p != o]
            return "\n".join([f"{program}\n{program.text}", f"call {number}, n = {a[0]}", *parts])
    return None


def main() -> int:
    """Runs the grid and prints the programs that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", help="kinds of containers, instead of all")
    parser.add_argument("--sample", action="store_true", help="the sample only")
    parser.add_argument("--known", action="store_true", help=f"only what {KNOWN.name} lists, to write it anew")
    parser.add_argument("--verbose", action="store_true", help="print how a program differs")
    options = parser.parse_args()
    kinds = tuple(kind for kind in KINDS if not options.kinds or kind.name in options.kinds)
    chosen = [program for kind in kinds for program in (sample(kind) if options.sample else programs((kind,)))]
    if options.known:
        known = set(KNOWN.read_text().splitlines())
        chosen = [program for program in chosen if str(program) in known]
    whole = wrong = 0
    for program in chosen:
        found = differs(program)
        whole += not dynamlir.fallbacks()
        if found is None:
            continue
        wrong += 1
        print(program, flush=True)
        if options.verbose:
            also = "right" if differs(program, dynamic=False) is None else "wrong, too"
            print(f"{found}\nwith dynamic=False: {also}", flush=True)
    print(f"{len(chosen)} programs, {whole} captured whole, {wrong} differ", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
