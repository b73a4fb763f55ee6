"""The contestants: eager, inductor, and dynamlir by one of its two front doors."""

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
"""dynamlir's own capture, or torch's with dynamlir as the backend."""

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Field:
    """The contestants of a run."""

    door: str = DOORS[0]
    inductor: bool = True

    @property
    def compilers(self) -> list[str]:
        """The contestants besides eager."""
        return ["inductor"] * self.inductor + ["dynamlir"]

    @property
    def pairs(self) -> list[str]:
        """The pairs to compare."""
        return ["dynamlir/eager"] + ["dynamlir/inductor"] * self.inductor

    def enter(self, name: str, function: Function) -> Function:
        """Returns the function as this contestant compiles it."""
        if name == "inductor":
            return torch.compile(function, dynamic=False)
        if self.door == DOORS[0]:
            import dynamlir

            return dynamlir.compile(function)
        return torch.compile(function, backend="dynamlir", dynamic=False)


@dataclasses.dataclass
class Entered:
    """Compiled contestants, each called once, with the results."""

    functions: dict[str, Function]
    errors: dict[str, float]
    notes: list[str]
    tolerance: float

    @property
    def right(self) -> bool:
        """True if all results are eager's."""
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
    """Compiles, calls and checks; notes plain eager runs and graph breaks."""
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
    """Returns the reasons that a call was not one compiled graph."""
    import dynamlir

    reports = dynamlir.compiles()
    notes = [f"plain eager: {event}".splitlines()[0] for event in dynamlir.fallbacks()]
    if len(reports) != 1:
        notes.append(f"{len(reports)} graphs")
    return notes


def quiet() -> None:
    """Silences warnings of the libraries about intended properties of the small configurations."""
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
