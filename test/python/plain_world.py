"""Functions that run plain, for `test_plain_run_warnings`, with their expected reports: reason, line, advice."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import dynamlir
import torch
from dynamlir import PlainRunWarning
from torch import Tensor

X = torch.arange(4.0)


def heard(call: Callable[..., Any], *args: Any) -> list[warnings.WarningMessage]:
    """The plain-run warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args)
    return [warning for warning in caught if issubclass(warning.category, PlainRunWarning)]


def theirs(function: Any) -> Any:
    return torch.compile(function, backend="dynamlir")


DOORS = {"dynamlir.compile": dynamlir.compile, "torch.compile": theirs}


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of one tensor; ``line`` is a text that occurs only on the line that a warning is to be about."""

    make: Callable[[], Callable[[Tensor], Any]]
    reason: str
    line: str
    hint: str
    doors: tuple[str, ...] = tuple(DOORS)

    def place(self) -> tuple[str, int]:
        lines, first = inspect.getsourcelines(inspect.getmodule(Case))  # type: ignore[arg-type]
        (at,) = [at for at, line in enumerate(lines, max(first, 1)) if self.line in line and "Case(" not in line]
        return __file__, at


def complex_numbers(x: Tensor) -> Tensor:
    y = x + 1
    return torch.view_as_real(y * 1j)


def draws_bits(x: Tensor) -> Tensor:
    x = x.mul(2)
    return x.view(torch.uint16)


def prints(x: Tensor) -> Tensor:
    print("printed")
    return x + 1


def reads_contents(x: Tensor) -> Tensor:
    first = x[1].tolist()
    return x * first


def generates(x: Tensor) -> Any:
    yield x + 1


OURS = ("dynamlir.compile",)
CASES = {
    "complex": Case(lambda: complex_numbers, "complex", "view_as_real(y * 1j)", "view_as_real()"),
    "dtype": Case(lambda: draws_bits, "dtype", "x.view(torch.uint16)", "Convert it to one of them."),
    "contents": Case(lambda: reads_contents, "data-dependent", "x[1].tolist()", "Keep it a tensor", OURS),
    "generator": Case(lambda: generates, "output", "def generates", "Return tensors", OURS),
}
