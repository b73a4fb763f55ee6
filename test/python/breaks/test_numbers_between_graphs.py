"""Numbers that Python computes between two graphs: a new value at each call needs no new graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from between import X, alike


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield


def graphs(function: Callable[..., Any], *calls: tuple[Any, ...]) -> int:
    """The number of graphs that several calls need. Checks that each call returns the result of the plain function."""
    compiled = dynamlir.compile(function)
    for args in calls:
        alike(compiled(*args), function(*args))
    counted = dynamlir.counters()
    assert "cache-limit" not in counted["fallbacks"], dynamlir.explain_last()
    return int(counted["graphs"])


def test_a_float_is_an_input_once_it_has_changed() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        peak = (x * 2).max().item()
        print(end="")
        return x / (peak + 1e-6)

    # One before the print, one for the first float, one for all other floats.
    assert graphs(function, *[(X + at,) for at in range(20)]) == 3


def test_a_float_that_decides_is_compared_by_python() -> None:
    def function(x: torch.Tensor, best: float) -> tuple[torch.Tensor, float]:
        loss = (x * 2).sum().item()
        print(end="")
        if loss < best:
            best = loss
        return x * best, best

    assert graphs(function, *[(X + at, 60.0) for at in range(20)]) <= 5


def test_an_integer_is_a_constant_until_it_changes() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        y, n = x + 1, int(counts.sum())
        return (y * 2 * n + 1).cos() * n

    same = torch.tensor([2, 3])
    assert graphs(function, *[(X + at, same) for at in range(20)]) == 2
    dynamlir.reset()
    # Once the number has changed, Python multiplies by it: the part in between becomes a graph for all values. Both
    # places learn that separately.
    assert graphs(function, *[(X + at, torch.tensor([at, 3])) for at in range(20)]) == 5


def test_what_is_computed_of_an_integer_is_not_settled_either() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor) -> tuple[torch.Tensor, int]:
        n = int(counts.sum())
        m = n * 2 + 1
        return x.cos() * m, m

    assert graphs(function, *[(X, torch.tensor([at, 3])) for at in range(20)]) <= 4


def test_an_integer_that_is_compared_is_no_constant() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        n = int(counts.sum())
        return x.sin() if n > 12 else x.cos()

    # The first value, and both outcomes.
    assert graphs(function, *[(X, torch.tensor([at, 3])) for at in range(20)]) <= 4


def test_the_index_of_a_loop_in_pieces() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for at in range(12):
            x = (x + at).cos()
            print(end="")
            x = x * (at + 1) if at % 2 else x - at
        return x

    assert graphs(function, *[(X + at,) for at in range(4)]) <= 6


def test_modules_by_their_index_in_a_loop_in_pieces() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(12))

    def function(x: torch.Tensor) -> torch.Tensor:
        for at in range(12):
            x = layers[at](x).relu()
            print(end="")
        return x

    with torch.no_grad():
        graphs(function, *[(X + at,) for at in range(4)])
    assert "plain" not in dynamlir.counters()["fallbacks"]


def test_how_often_a_loop_runs_is_python_s() -> None:
    def function(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        for at in range(int(counts.sum())):
            x = x.roll(at % 3) * 2
        return x

    assert graphs(function, *[(X, torch.tensor([at, 1])) for at in range(12)]) <= 4
