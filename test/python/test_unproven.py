"""What a captured call has used of what existed follows from its guards; where one is missing, the call is not kept."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import native

pytestmark = pytest.mark.native

Pair = collections.namedtuple("Pair", "left right")
X = torch.ones(2)
TABLE = {("a", 1): 5}

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    # How many guards are about what the call is given: each is missed.
    "a number": (lambda x, n: x * n, (3,), 1),
    "a text": (lambda x, name: x + len(name + "!"), ("ab",), 1),
    "a number that decides": (lambda x, n: x + 1 if n > 2 else x, (3.5,), 1),
    "a tuple within a list": (lambda x, v: x + ([v] == [(1, "a")]), ((1, "a"),), 4),
    "a key": (lambda x, v: x * TABLE[v], (("a", 1),), 4),
    "a named tuple within a list": (lambda x, v: x + ([v] == [(1, 2)]), (Pair(1, 2),), 4),
    "a dict within a list": (lambda x, v: x + ([v] == [{"a": 1}]), ({"a": 1},), 3),
    "nested": (lambda x, v: x + (str([v]) == "[((1,), 2)]"), (((1,), 2),), 6),
}


@pytest.fixture(autouse=True)
def forgotten_nothing() -> Iterator[None]:
    native.module().unproven()
    with torch.no_grad():
        yield
    native.module().forget_guard()
    dynamlir.reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_guard_is_missed(name: str) -> None:
    function, given, least = PROGRAMS[name]
    assert not missed(function, given, None) and not native.module().unproven()
    found = {number: missed(function, given, number) for number in range(40)}
    assert sum(map(bool, found.values())) >= least, found
    named = "\n".join(text for text in found.values() if text)
    assert "which no guard says" in named and "L['" in named


def missed(function: Callable[..., Any], given: tuple[Any, ...], number: int | None) -> str:
    """What is said of a call that is captured without one of its guards."""
    dynamlir.reset()
    native.module().forget_guard(number)
    with dynamlir.config.patch(on_plain="ignore"):
        found = dynamlir.compile(function)(X, *given)
    native.module().forget_guard()
    assert torch.equal(found, function(X, *given))
    events = [event for event in dynamlir.fallbacks() if event.reason == "unproven"]
    return str(events[0]) if events else ""


def test_all_that_is_used_follows_from_the_guards() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.LayerNorm(4), torch.nn.Dropout(0.1)).eval()
    dynamlir.compile(model)(torch.ones(3, 2))
    assert native.module().unproven() == []
