"""Who takes part: eager, inductor, and dynamlir by one of its two doors."""

from __future__ import annotations

import dataclasses
import logging
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import agree

DOORS = ("dynamlir.compile", "torch.compile")
"""dynamlir's own capture, or torch's with dynamlir behind it."""

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Field:
    """What takes part in a run."""

    door: str = DOORS[0]
    inductor: bool = True

    @property
    def compilers(self) -> list[str]:
        """The contestants besides eager."""
        return ["inductor"] * self.inductor + ["dynamlir"]

    @property
    def pairs(self) -> list[str]:
        """The ratios that are taken."""
        return ["dynamlir/eager"] + ["dynamlir/inductor"] * self.inductor

    def enter(self, name: str, function: Function) -> Function:
        """The function as this contestant compiles it."""
        if name == "inductor":
            return torch.compile(function, dynamic=False)
        if self.door == DOORS[0]:
            import dynamlir

            return dynamlir.compile(function)
        return torch.compile(function, backend="dynamlir", dynamic=False)


@dataclasses.dataclass
class Entered:
    """Compiled contestants, each called once, and what became of that."""

    functions: dict[str, Function]
    errors: dict[str, float]
    notes: list[str]
    tolerance: float

    @property
    def right(self) -> bool:
        """Whether all results are eager's."""
        return all(error <= self.tolerance for error in self.errors.values())


def forget() -> None:
    """Drops what the last line compiled."""
    import dynamlir

    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()
    dynamlir.reset()


def enter(
    field: Field,
    function: Function,
    arguments: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    tolerance: float = agree.TOLERANCE,
) -> Entered:
    """Compile, call and check; what ran as plain eager or in pieces is noted."""
    forget()
    named = named or {}
    made = Entered({"eager": function}, {}, [], tolerance)
    wanted = function(*arguments, **named)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in field.compilers:
            made.functions[name] = compiled = field.enter(name, function)
            made.errors[name] = agree.worst_error(compiled(*arguments, **named), wanted)
            if not made.errors[name] <= tolerance:
                made.notes.append(f"{name} DIFFERS FROM EAGER by {made.errors[name]:.1e}")
    made.notes += notes()
    return made


def notes() -> list[str]:
    """Why a call was not one compiled graph."""
    import dynamlir

    reports = dynamlir.compiles()
    notes = [f"plain eager: {event}".splitlines()[0] for event in dynamlir.fallbacks()]
    if len(reports) != 1:
        notes.append(f"{len(reports)} graphs")
    return notes


def quiet() -> None:
    """Libraries warn of what the small configurations say on purpose."""
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
