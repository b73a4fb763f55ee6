"""Changes, between calls, of anything that captured functions reach. `scripts/fuzz guards` runs longer."""

from __future__ import annotations

from collections.abc import Iterator

import dynamlir
import pytest
from guard_fuzz import programs, run


def test_changes_between_calls(seeds: Iterator[int]) -> None:
    whole = ran = 0
    for seed in seeds:
        dynamlir.reset()
        found = run.differs(seed)
        assert found is None, f"seed {seed}\n{found}"
        whole += not dynamlir.fallbacks()
        ran += 1
    # Plain runs are trivially right.
    assert whole > ran / 4


def test_a_seed_is_a_program() -> None:
    assert programs.main(3) == programs.main(3) != programs.main(4)


def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without guards on what a program reads, changes to it are not noticed."""
    kept: list[object] = []

    def careless(function: object, **_options: object) -> object:
        """Returns a function that answers the second call like the first."""

        def call(*args: object) -> object:
            kept[:] = kept or [function(*args)]
            return kept[0]

        return call

    monkeypatch.setattr(dynamlir, "compile", careless)
    found = []
    for seed in range(5):
        kept.clear()
        found.append(run.differs(seed))
    assert any(found)
