"""Attributes of existing objects that a function writes: the call leaves them as plain Python would have."""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike
from written import Thing, follow, same


@pytest.fixture(autouse=True)
def fresh() -> Any:
    with torch.no_grad():
        yield


# -- counters


def test_a_counter_that_is_only_written_back_never_recompiles() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.steps += 1
        thing.scale = thing.scale * 0.5 + 1.0
        thing.mask = (thing.mask << 0) if False else (thing.mask ^ 5) & 255
        return x + 1

    assert follow(function, lambda: Thing(steps=0, scale=1.0, mask=3)) == 1


def test_what_a_counter_decides_is_guarded_and_not_the_counter() -> None:
    """The first entry is for its first value; then there is one for each outcome."""

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.steps += 1
        if thing.steps % 10 == 0:
            x = x * 2
        return x if thing.steps < 15 else -x

    assert follow(function, lambda: Thing(steps=0), 40) <= 6


def test_whether_a_counter_is_true_is_guarded() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.left = thing.left - 1
        return x if thing.left else -x

    assert follow(function, lambda: Thing(left=9), 9) <= 3


def test_a_counter_through_calls_and_keywords() -> None:
    def advance(thing: Any, by: int, *, name: str = "steps", **more: int) -> None:
        setattr(thing, name, by)

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        advance(thing, thing.steps + 1)
        advance(thing, by=thing.others + 2, name="others")
        return x * 2

    assert follow(function, lambda: Thing(steps=0, others=7)) == 1


def test_a_number_that_goes_elsewhere_is_what_it_was() -> None:
    """It goes into a shape, into text, into a container, to C code: once it has changed, such calls run plain."""

    def function(x: torch.Tensor, thing: Any) -> Any:
        thing.steps = thing.steps + 1
        return x.repeat(thing.steps), f"{thing.steps + 1}", [thing.steps - 1], min(thing.steps, 2)

    def world(compile_: Any) -> Any:
        compiled, thing = compile_(function), Thing(steps=0)
        return [compiled(X, thing) for _ in range(4)], thing

    alike(world, "side-effect")


def test_divisions_by_what_may_be_zero_and_large_numbers() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.half = thing.steps // 2
        thing.big = thing.big * thing.big
        thing.part = 12 // thing.divisor
        thing.steps += 3
        return x

    assert follow(function, lambda: Thing(steps=1, half=0, big=3, divisor=5, part=0), 6) <= 2
    compiled = dynamlir.compile(function)
    thing = Thing(steps=1, half=0, big=3, divisor=5, part=0)
    compiled(X, thing)
    thing.divisor = 0
    with pytest.raises(ZeroDivisionError):
        compiled(X, thing)


def test_types_of_numbers_are_guarded() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.n = thing.n + thing.m
        return x

    compiled = dynamlir.compile(function)
    for n, m in [(1, 2), (1.5, 2.5), (True, 1), (1, 2.5), ("a", "b"), ([1], [2]), (torch.ones(1), 2)]:
        ours, theirs = Thing(n=n, m=m), Thing(n=n, m=m)
        for _ in range(2):
            compiled(X, ours)
            function(X, theirs)
            same(ours, theirs)


# -- values and their identity


def test_tensors_containers_and_objects_are_stored() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        made = [x + 1, thing.first]
        thing.tensor = x * 2
        thing.again = thing.tensor
        thing.made, thing.alias = made, made
        made.append(3)
        thing.x = x
        return made, thing.again

    def check(thing: Any, result: Any, x: torch.Tensor) -> None:
        assert thing.made is thing.alias is result[0] and thing.again is thing.tensor is result[1]
        assert thing.x is x and thing.made[1] is thing.first

    first = object()
    compiled = dynamlir.compile(function)
    for call in (compiled, compiled, function):
        thing = Thing(first=first)
        check(thing, call(X, thing), X)
    assert not dynamlir.counters()["fallbacks"]


def test_what_is_read_after_a_write_is_what_was_written() -> None:
    def function(x: torch.Tensor, thing: Any) -> Any:
        before = thing.a
        thing.a = x + 1
        y = thing.a * 2
        thing.a = [before, thing.a]
        thing.b = thing.a[1] is not before
        return y, thing.a[1], hasattr(thing, "c"), vars(thing)["b"], "b" in thing.__dict__

    assert follow(function, lambda: Thing(a=1), 1) == 1


def test_two_objects_that_are_one_at_another_call() -> None:
    def function(x: torch.Tensor, one: Any, other: Any) -> torch.Tensor:
        one.n = 1
        other.n = 2
        return x * one.n

    compiled = dynamlir.compile(function)
    one, other = Thing(), Thing()
    assert torch.equal(compiled(X, one, other), X) and torch.equal(compiled(X, one, one), X * 2)
    assert torch.equal(compiled(X, other, one), X) and torch.equal(compiled(X, other, other), X * 2)


def test_an_object_that_is_read_may_be_the_one_that_was_written() -> None:
    def function(x: torch.Tensor, one: Any, other: Any) -> torch.Tensor:
        one.n = 5
        return x * other.n

    compiled = dynamlir.compile(function)
    one, other = Thing(n=1), Thing(n=2)
    assert torch.equal(compiled(X, one, other), X * 2) and torch.equal(compiled(X, one, one), X * 5)


def test_new_attributes_come_in_order_and_old_ones_keep_their_place() -> None:
    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        thing.z = 1
        thing.a = 2
        thing.m = x
        del thing.b
        thing.z = 3
        thing.b = 4
        return x

    follow(function, lambda: Thing(a=0, b=1, c=2), 3)


def test_what_was_set_back_is_not_written() -> None:
    class Watched(Thing):
        def __setattr__(self, name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

    def function(x: torch.Tensor, thing: Any) -> torch.Tensor:
        former, thing.mode = thing.mode, "fast"
        y = x * (2 if thing.mode == "fast" else 3)
        thing.mode = former
        return y

    assert follow(function, lambda: Watched(mode="slow")) == 1
    compiled = dynamlir.compile(function)
    for mode in ("slow", ["any"], None):
        thing = Thing(mode=mode)
        assert torch.equal(compiled(X, thing), X * 2) and thing.mode is mode


def test_a_number_that_is_given_twice_is_what_it_was_where_it_is_no_parameter() -> None:
    def scaled(by: int, *rest: int, **more: int) -> Any:
        return rest, more

    def function(x: torch.Tensor, thing: Any) -> Any:
        return x, scaled(thing.n, thing.n), scaled(thing.m, other=thing.m)

    compiled = dynamlir.compile(function)
    for n in (1, 2, 3):
        thing = Thing(n=n, m=10 * n)
        assert compiled(X, thing)[1:] == function(X, thing)[1:]
