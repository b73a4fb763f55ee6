"""Checks random functions that compute with sizes, which change from call to call. `scripts/fuzz sizes` runs longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import size_programs
import torch


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    with torch.no_grad():
        yield


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("dynamic", [None, True])
def test_sizes_are_those_of_the_call(dynamic: bool | None, seeds: Iterator[int]) -> None:
    graphs = 0
    for seed in seeds:
        dynamlir.reset()
        found = size_programs.differs(seed, dynamic=dynamic)
        assert found is None, f"seed {seed}\n{found}"
        graphs += dynamlir.counters()["graphs"]
    assert graphs > 0


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fake compiler that returns the result of the first call for all calls."""

    def hasty(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        first: list[Any] = []
        return lambda *args: (first or first.append(function(*args)) or first)[0]  # type: ignore[func-returns-value]

    monkeypatch.setattr(dynamlir, "compile", hasty)
    found = sum(size_programs.differs(seed) is not None for seed in range(20))
    assert found > 10, found
