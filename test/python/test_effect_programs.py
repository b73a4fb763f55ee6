"""Random functions that change what existed before their calls. `scripts/fuzz effects` goes on for longer."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import effect_programs
import pytest
import torch

pytestmark = pytest.mark.native

# The time that the programs may take, in seconds; how many run is the machine's business.
SECONDS = 40


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    with torch.no_grad():
        yield


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_what_existed_is_left_as_by_plain_python() -> None:
    whole = ran = 0
    stop = time.monotonic() + SECONDS
    for seed in itertools.count():
        if time.monotonic() > stop:
            break
        dynamlir.reset()
        found = effect_programs.differs(seed)
        assert found is None, f"seed {seed}\n{found}"
        whole += not dynamlir.fallbacks()
        ran += 1
    # What runs as plain Python is right by itself.
    assert whole > ran / 3


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("every", [1, 4])
def test_breaks_between_do_not_change_that(every: int) -> None:
    stop = time.monotonic() + SECONDS / 4
    breaks = 0
    with dynamlir.config.patch(break_every=every):
        for seed in itertools.count():
            if time.monotonic() > stop:
                break
            dynamlir.reset()
            found = effect_programs.differs(seed)
            assert found is None, f"seed {seed}\n{found}"
            breaks += dynamlir.counters()["graph_breaks"]
    assert breaks > 0


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An effect that is lost, or done twice."""

    def twice(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: (function(x), function(x))[1]

    def never(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda x: ([], x)

    for careless in (twice, never):
        monkeypatch.setattr(dynamlir, "compile", careless)
        assert sum(effect_programs.differs(seed) is not None for seed in range(10)) > 4
