"""Dynamic sizes and ints where operators take a number: a factor, a step, a fill value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import each_door
from torch import nn
from torch.nn import functional

X = torch.linspace(1, 2, 6, dtype=torch.float64)

PROGRAMS: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "alpha of a sum": lambda x, n: torch.add(x, x * 2, alpha=n),
    "alpha of a difference": lambda x, n: torch.sub(x, x * 2, alpha=n + 1),
    "value": lambda x, n: torch.addcmul(x, x, x, value=n) + torch.addcdiv(x, x, x, value=n),
    "a size as alpha": lambda x, n: torch.add(x[:n], x[:n], alpha=x[:n].shape[0]),
    "a step": lambda x, n: x[::n] * 2,
    "correction": lambda x, n: torch.var(x, 0, correction=n - 1) * x,
    "a norm": lambda x, n: torch.linalg.vector_norm(x, n) * x,
}


@each_door()
@pytest.mark.parametrize("name", PROGRAMS)
def test_arguments_that_vary_are_not_taken_for_defaults(name: str, door: Callable[..., Any]) -> None:
    program = PROGRAMS[name]
    compiled = door(program)
    for n in (3, 4, 5, 2, 6):
        ours, theirs = X.clone().requires_grad_(), X.clone().requires_grad_()
        found, wanted = compiled(ours, n), program(theirs, n)
        torch.testing.assert_close(found, wanted)
        found.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


LARGE: dict[str, Callable[[torch.Tensor, int], torch.Tensor]] = {
    "a power": lambda x, n: x * (n * n * n),
    "in a quotient": lambda x, n: x * ((n * n * n) // (n * n + 1)),
    "in a remainder": lambda x, n: x * ((n * n * n) % 1000003),
    "as a float": lambda x, n: x * float(n * n * n),
    "in a root": lambda x, n: x * math.sqrt(n * n * n),
}


@each_door()
@pytest.mark.parametrize("name", LARGE)
def test_what_64_bits_do_not_hold_is_not_computed(name: str, door: Callable[..., Any]) -> None:
    def outcome(function: Callable[..., torch.Tensor], n: int) -> Any:
        with torch.no_grad():
            try:
                return function(X, n)
            except OverflowError:
                return "overflow"

    program = LARGE[name]
    compiled = door(program)
    with dynamlir.config.patch(on_plain="ignore"):
        for n in (5, 7, 100_000, (1 << 21) + 1, 1 << 31, 9):
            found, wanted = outcome(compiled, n), outcome(program, n)
            if isinstance(wanted, torch.Tensor):
                torch.testing.assert_close(found, wanted)
            else:
                assert found == wanted


def test_a_size_that_is_written_somewhere_stays_one() -> None:
    """Reporting the writes of a call does not specialize the written values."""

    class Halved(nn.Module):
        half = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.half = x.shape[0] // 2
            return x[: x.shape[0] // 2] * 2

    module, compiled = Halved(), Halved()
    run = dynamlir.compile(compiled)
    for rows in (4, 6, 8, 12, 5):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(run(x), module(x))
        assert compiled.half == module.half == rows // 2
    assert dynamlir.counters()["graphs"] == 2 and not dynamlir.fallbacks()


def test_a_counter_is_no_reason_for_plain_python() -> None:
    class Counting(nn.Module):
        step = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.step += 1
            return x * self.step

    module, compiled = Counting(), Counting()
    run = dynamlir.compile(compiled)
    for _ in range(12):
        torch.testing.assert_close(run(X), module(X))
    assert compiled.step == 12 and not dynamlir.fallbacks()


@each_door()
def test_classes_beyond_those_that_there_are_raise(door: Callable[..., Any]) -> None:
    compiled = door(lambda t, n: functional.one_hot(t, n))
    classes = torch.tensor([0, 2])
    with dynamlir.config.patch(on_plain="ignore"):
        for n in (3, 4, 5):
            assert torch.equal(compiled(classes, n), functional.one_hot(classes, n))
        with pytest.raises(RuntimeError, match="smaller than num_classes"):
            compiled(classes, 2)
