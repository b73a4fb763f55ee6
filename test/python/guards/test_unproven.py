"""Everything that a captured call has used of existing objects follows from its guards; if a guard is missing, the call
is not kept.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import dynamlir
import pytest
import torch
import used_places
from dynamlir import native

Pair = collections.namedtuple("Pair", "left right")
X = torch.ones(2)
TABLE = {("a", 1): 5}

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    # The number of guards about the arguments: each of them is left out once.
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
    with torch.no_grad():
        yield
    native.module().forget_guard()
    dynamlir.reset()


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_guard_is_missed(name: str) -> None:
    function, given, least = PROGRAMS[name]
    assert not missed(function, given, None)
    found = {number: missed(function, given, number) for number in range(40)}
    assert sum(map(bool, found.values())) >= least, found
    named = "\n".join(text for text in found.values() if text)
    assert "which no guard covers" in named and "L['" in named


def missed(function: Callable[..., Any], given: tuple[Any, ...], number: int | None) -> str:
    """The report for a call that is captured without one of its guards."""
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
    assert not dynamlir.fallbacks()


@pytest.mark.parametrize("name", used_places.PROGRAMS)
def test_whichever_guard_is_missing_is_found(name: str) -> None:
    function, given = used_places.PROGRAMS[name]
    module = native.module()

    def captured(number: int | None) -> Any:
        module.forget_guard(number)
        found = module.capture(function, (used_places.X, *given))
        module.forget_guard()
        return found

    assert not isinstance(captured(None), tuple)
    unnoticed, count = [], 0
    for number in itertools.count():
        found = captured(number)
        forgotten = module.forgotten_guard()
        if forgotten is None:
            break
        guard, implied = forgotten
        refused = isinstance(found, tuple) and found[0] == "unproven"
        count += refused
        if not refused and not implied:
            unnoticed.append(guard)
    assert not unnoticed and count


def test_what_is_said_of_a_missing_guard_names_the_line_that_uses_the_place() -> None:
    def scaled(x: torch.Tensor, box: Any) -> torch.Tensor:
        y = x + 1
        return y * box.n

    box = used_places.Box(3)
    told = [missed(scaled, (box,), number) for number in range(6)]
    line = scaled.__code__.co_firstlineno + 2
    of_box = [text for text in told if "L['box']" in text]
    assert of_box and all(f"test_unproven.py:{line} in scaled" in text for text in of_box), told


# Cases that the ledger found when it was introduced.


def test_a_property_that_takes_the_place_of_a_default_is_seen_on_what_the_frame_makes() -> None:
    class Result:
        loss = None

        def __init__(self, loss: Any) -> None:
            self.__dict__["loss"] = loss

    def program(x: torch.Tensor) -> torch.Tensor:
        return Result(x * 2).loss

    compiled = dynamlir.compile(program)
    assert torch.equal(compiled(X), X * 2)
    Result.loss = property(lambda self: X * 5)  # type: ignore[assignment]
    assert torch.equal(compiled(X), X * 5)


def test_a_class_that_takes_the_place_of_another_is_told_from_the_class_of_a_number() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if type(len(x.shape)) is Kinds.kind else x - 1

    compiled = dynamlir.compile(program)
    assert torch.equal(compiled(X), X - 1)
    with mock.patch.object(Kinds, "kind", int):
        assert torch.equal(compiled(X), X + 1)
    assert torch.equal(compiled(X), X - 1)


class Kinds:
    kind: Any = Pair


UNSET = object()


class Configured:
    chosen: Any = UNSET
    other: Any = UNSET

    def method(self) -> int:
        return 1


@pytest.mark.parametrize("new", [object(), property(lambda self: UNSET), property(lambda self: 3)])
def test_what_takes_the_place_of_an_object_without_parts(new: Any) -> None:
    # It cannot be referenced weakly or inspected: only its class shows that it is not a descriptor.
    given = Configured()

    def chosen(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if given.chosen is UNSET else 3)

    compiled = dynamlir.compile(chosen)
    assert torch.equal(compiled(X), chosen(X))
    with mock.patch.object(Configured, "chosen", new):
        assert torch.equal(compiled(X), chosen(X))
    assert torch.equal(compiled(X), chosen(X))


@pytest.mark.parametrize("new", [staticmethod(len), classmethod(len), property(len), 5, lambda self: 2])
def test_what_takes_the_place_of_a_function_that_a_class_hands_out(new: Any) -> None:
    def handed(x: torch.Tensor) -> tuple[Any, ...]:
        return x + 1, Configured.method

    compiled = dynamlir.compile(handed)
    assert compiled(X)[1] is Configured.method
    with mock.patch.object(Configured, "method", new):
        assert compiled(X)[1] == handed(X)[1]


class Rotated(collections.namedtuple("Rotated", "left right")):
    pass


@pytest.mark.parametrize("new", [Rotated.right, property(lambda self: 7), 9])
def test_what_takes_the_place_of_a_field(new: Any) -> None:
    def field(x: torch.Tensor, pair: Rotated) -> torch.Tensor:
        return x * pair.left

    compiled = dynamlir.compile(field)
    assert torch.equal(compiled(X, Rotated(2, 3)), X * 2)
    with mock.patch.object(Rotated, "left", new, create=True):
        assert torch.equal(compiled(X, Rotated(2, 3)), field(X, Rotated(2, 3)))
