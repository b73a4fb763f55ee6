"""Random programs with gradients, through both front doors, against eager.

`scripts/fuzz gradients` runs longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import gradient_programs
import pytest
import torch


@pytest.mark.parametrize("door", gradient_programs.DOORS)
def test_gradients_are_eagers(door: str, seeds: Iterator[int], quiet: None) -> None:
    graphs = 0
    for seed in seeds:
        dynamlir.reset()
        torch._dynamo.reset()
        found = gradient_programs.differs(seed, door)
        assert found is None or found.cause is not None, f"seed {seed}\n{found.text}"
        graphs += dynamlir.counters().get("graphs", 0)
    assert graphs > 0


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A door whose results have lost their histories."""

    def forgetful(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: tuple(result.detach() for result in function(*args))

    monkeypatch.setitem(gradient_programs.DOORS, "dynamlir.compile", forgetful)
    found = sum(gradient_programs.differs(seed) is not None for seed in range(20))
    assert found > 10, found


def test_most_programs_are_differentiated() -> None:
    """The programs neither all fail nor all lack gradients."""
    told = []
    for seed in range(50):
        grammar = gradient_programs.Grammar(seed, several=True)
        text, how = grammar.program(), grammar.caller()
        told.append(gradient_programs.use(gradient_programs.made(text, seed), how)[-3:])
    assert sum(any(gradient is not None for gradient in each) for each in told) > 30
