"""Containers that other code holds too, under another name, in modules, or with observers of removals: a change through
one holder is seen by all, as in plain Python.
"""

from __future__ import annotations

import collections
import copy
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike
from written import Thing, entries

CALLS = 8


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    dynamlir.reset()
    with torch.no_grad():
        yield


# -- aliases


def test_the_attributes_of_an_object_under_another_name() -> None:
    def function(x: torch.Tensor, thing: Any, table: dict[str, int]) -> torch.Tensor:
        table["a"] = 5
        return x * thing.a

    compiled = dynamlir.compile(function)
    for aliased in (False, True, False):
        thing = Thing(a=2)
        assert torch.equal(compiled(X, thing, vars(thing) if aliased else {}), X * (5 if aliased else 2))


def test_the_attributes_and_tables_of_a_module_under_another_name() -> None:
    def attribute(x: torch.Tensor, module: Any, table: dict[str, Any]) -> torch.Tensor:
        table["a"] = 5
        return x * module.a

    def item(x: torch.Tensor, module: Any, table: dict[str, Any]) -> torch.Tensor:
        table["b"] = x * 2
        return module._buffers["b"] + 1

    calls = [dynamlir.compile(attribute), dynamlir.compile(item)]
    for aliased in (False, True, False):
        module: Any = torch.nn.Module()
        module.a = 2
        module.register_buffer("b", torch.zeros(2))
        assert torch.equal(calls[0](X, module, vars(module) if aliased else {}), X * (5 if aliased else 2))
        assert torch.equal(calls[1](X, module, module._buffers if aliased else {}), X * 3 if aliased else X)


def test_globals_as_an_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: torch.Tensor, table: dict[str, Any]) -> torch.Tensor:
        table["CALLS"] = 3
        return x * CALLS

    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(X, {}), X * 8)
    monkeypatch.setitem(globals(), "CALLS", 8)
    assert torch.equal(compiled(X, globals()), X * 3)


@pytest.mark.parametrize("first", [False, True])
def test_buffers_of_a_module_as_an_argument(first: bool) -> None:
    def function(x: torch.Tensor, module: Any, table: dict[str, Any]) -> torch.Tensor:
        table["b"] = x * 2
        return module.b + 1

    compiled = dynamlir.compile(function)
    for aliased in (first, not first, first, not first):
        module = torch.nn.Module()
        module.register_buffer("b", torch.zeros(2))
        result = compiled(X, module, module._buffers if aliased else {"b": X})
        assert torch.equal(result, X * 3 if aliased else X)
    assert entries(compiled) == 2


def test_lists_that_are_named_as_those_of_modules() -> None:
    def function(x: torch.Tensor, thing: Any, hooks: list[int]) -> torch.Tensor:
        hooks.append(1)
        return x * len(thing.pre_hooks)

    compiled = dynamlir.compile(function)
    for aliased in (False, True):
        thing = Thing(pre_hooks=[5, 6])
        assert torch.equal(compiled(X, thing, thing.pre_hooks if aliased else [9]), X * (3 if aliased else 2))


def test_two_containers_that_are_one_at_another_call() -> None:
    def function(x: torch.Tensor, one: list[int], other: list[int]) -> Any:
        one.append(1)
        return x * len(other)

    compiled = dynamlir.compile(function)
    for _ in range(2):
        one: list[int] = []
        assert torch.equal(compiled(X, one, [5, 6]), X * 2) and one == [1]
        same: list[int] = []
        assert torch.equal(compiled(X, same, same), X) and same == [1]


def test_a_dict_that_is_read_may_be_the_one_that_was_changed() -> None:
    def function(x: torch.Tensor, one: dict[str, int], other: dict[str, int]) -> Any:
        one["n"] = 5
        return x * other["n"]

    compiled = dynamlir.compile(function)
    for _ in range(2):
        one, other = {"n": 1}, {"n": 2}
        assert torch.equal(compiled(X, one, other), X * 2) and one == {"n": 5} and other == {"n": 2}
        both = {"n": 3}
        assert torch.equal(compiled(X, both, both), X * 5) and both == {"n": 5}


def test_the_dict_of_an_object_is_its_attributes() -> None:
    def world(compile_: Any) -> Any:
        def function(x: torch.Tensor, thing: Any) -> Any:
            vars(thing).update(a=1)
            thing.b = 2
            return x, thing.a, thing.b

        thing = Thing()
        return compile_(function)(X, thing), vars(thing)

    alike(world, "side-effect")


# -- modules


def test_buffers_parameters_and_modules_are_assigned() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.weight = torch.nn.Parameter(torch.ones(2))
            self.log: list[Any] = []

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean = self.mean * 0.5 + x
            self.log.append(self.mean)
            return self.mean * self.weight

    ours, theirs = Model(), Model()
    theirs.load_state_dict(ours.state_dict())
    compiled = dynamlir.compile(ours)
    for at in range(5):
        torch.testing.assert_close(compiled(X + at), theirs(X + at))
        torch.testing.assert_close(ours.mean, theirs.mean)
        assert ours.log[-1] is ours.mean and len(ours.log) == len(theirs.log)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


def test_a_buffer_is_registered() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if not hasattr(self, "first"):
                self.register_buffer("first", x * 1)
            return x - self.first

    ours, theirs = Model(), Model()
    compiled = dynamlir.compile(ours)
    for at in range(3):
        torch.testing.assert_close(compiled(X + at), theirs(X + at))
        assert list(dict(ours.named_buffers())) == ["first"]


def test_layers_that_keep_what_they_saw() -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)
            self.cache: dict[str, Any] = {}

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.cache["input"] = x
            self.cache["calls"] = self.cache.get("calls", 0) + 1
            return self.linear(x)

    model = torch.nn.Sequential(*(Layer() for _ in range(4)))
    theirs = copy.deepcopy(model)
    compiled = dynamlir.compile(model)
    for at in range(4):
        torch.testing.assert_close(compiled(X + at), theirs(X + at))
        for ours, plain in zip(model, theirs):
            torch.testing.assert_close(ours.cache["input"], plain.cache["input"])
            assert ours.cache["calls"] == plain.cache["calls"]
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert entries(compiled) <= 3


# -- observers


class Noisy:
    """Logs its own death."""

    def __init__(self, gone: list[str]) -> None:
        self.gone = gone

    def __del__(self) -> None:
        self.gone.append("gone")


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.values.clear(),
        lambda held: held.values.pop(),
        lambda held: held.values.__setitem__(0, 1),
        lambda held: held.table.__setitem__("noisy", 1),
        lambda held: held.table.update(noisy=2),
        lambda held: held.table.pop("noisy") and None,
        lambda held: held.queue.append(1),
    ],
)
def test_what_dies_with_its_container_is_noticed_as_ever(change: Callable[..., Any]) -> None:
    def world(compile_: Any) -> Any:
        gone: list[str] = []
        held = Thing(values=[Noisy(gone)], table={"noisy": Noisy(gone)}, queue=collections.deque([Noisy(gone)], 1))

        def function(x: torch.Tensor, held: Any) -> Any:
            change(held)
            return x, len(gone)

        return compile_(function)(X, held), len(gone)

    alike(world, "side-effect")
