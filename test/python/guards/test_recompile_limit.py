"""`recompile_limit` counts kinds of calls, and within a kind the entries that no later entry covers."""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch

pytestmark = [pytest.mark.usefixtures("quiet")]


def plain_runs() -> int:
    return int(dynamlir.counters()["fallbacks"].get("cache-limit", 0))


def test_what_a_later_entry_covers_does_not_count() -> None:
    compiled = dynamlir.compile(lambda x, how: x * 2 if how else x + 1)
    with dynamlir.config.patch(recompile_limit=2):
        for how in (True, False):
            for rows in (4, 5, 6):
                assert torch.equal(compiled(torch.ones(rows), how), torch.full((rows,), 2.0))
        # One for 4 rows, one for any number of rows, and one for any number with the other flag.
        assert len(compiled._cache) == 3 and not plain_runs()


def test_sizes_that_vary_one_after_the_other() -> None:
    compiled = dynamlir.compile(lambda *given: sum(x.sum() for x in given))
    with dynamlir.config.patch(recompile_limit=2):
        sizes = [3, 3, 3, 3]
        for at in range(4):
            for size in (5 + at, 9 + at):
                sizes[at] = size
                given = [torch.ones(size, 2) for size in sizes]
                torch.testing.assert_close(compiled(*given), sum(x.sum() for x in given))
    assert not plain_runs()


def test_sizes_of_none_and_one_are_of_one_kind() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, how: str) -> torch.Tensor:
        return x.sum(0) * y.sum(0) + len(how)

    compiled = dynamlir.compile(program)
    for how in ("a", "bc"):
        for rows in (4, 5, 1, 0):
            for others in (6, 7, 1):
                x, y = torch.randn(rows, 3), torch.randn(others, 3)
                torch.testing.assert_close(compiled(x, y, how), program(x, y, how))
    assert not plain_runs()
    assert len(compiled._cache) > 8


def test_kinds_are_limited() -> None:
    compiled = dynamlir.compile(lambda x, how: x + len(how))
    for at in range(12):
        how = "a" * at
        for rows in (3, 4):
            assert torch.equal(compiled(torch.zeros(rows), how), torch.full((rows,), float(at)))
    assert plain_runs() and len({entry.guards.code_parts[-1] for entry in compiled._cache}) <= 16
    assert len(compiled._cache) <= 16


def test_entries_of_a_kind_are_limited() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):
            x = x + 1
        return x

    compiled = dynamlir.compile(program)
    for rows in range(2, 16):
        assert torch.equal(compiled(torch.zeros(rows)), torch.full((rows,), float(rows)))
    assert len(compiled._cache) == 8 and plain_runs()


def test_there_is_room_for_a_kind_that_comes_back() -> None:
    """Also after many calls for which there was no room."""

    def program(x: torch.Tensor, how: Any) -> torch.Tensor:
        return x.sum() + len(how)

    compiled = dynamlir.compile(program)
    with dynamlir.config.patch(recompile_limit=2):
        compiled(torch.ones(3), "a"), compiled(torch.ones(3), "bb")
        for at in range(3, 40):
            assert compiled(torch.ones(3), "c" * at) == 3 + at
        assert len(compiled._cache) == 2
        for rows in range(4, 500):
            assert compiled(torch.ones(rows), "a") == rows + 1
        assert len(compiled._cache) == 3
