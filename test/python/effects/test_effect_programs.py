"""Random functions that change existing objects. `scripts/fuzz effects` runs longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import effect_programs
import pytest
import torch


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    with torch.no_grad():
        yield


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_what_existed_is_left_as_by_plain_python(seeds: Iterator[int]) -> None:
    whole = ran = 0
    for seed in seeds:
        dynamlir.reset()
        found = effect_programs.differs(seed)
        assert found is None, f"seed {seed}\n{found}"
        whole += not dynamlir.fallbacks()
        ran += 1
    # Plain runs are trivially right.
    assert whole > ran / 3


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("every", [1, 4])
def test_breaks_between_do_not_change_that(every: int, seeds: Iterator[int]) -> None:
    breaks = 0
    with dynamlir.config.patch(break_every=every):
        for seed in seeds:
            dynamlir.reset()
            found = effect_programs.differs(seed)
            assert found is None, f"seed {seed}\n{found}"
            breaks += dynamlir.counters()["graph_breaks"]
    assert breaks > 0


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that is lost or done twice."""

    def twice(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: (function(x), function(x))[1]

    def never(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: ([], x)

    for careless in (twice, never):
        monkeypatch.setattr(dynamlir, "compile", careless)
        assert sum(effect_programs.differs(seed) is not None for seed in range(10)) > 4
