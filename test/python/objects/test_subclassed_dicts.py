"""Existing instances of dict subclasses that hold tensors, like the outputs of models, behave as in plain Python."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from worlds import X, alike


class Output(collections.OrderedDict):
    """A dict with items by name and by position."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return tuple(self[name] for name in self.keys())[key]


class Table(dict):
    """Without methods of its own."""


@pytest.fixture(autouse=True)
def fresh() -> Any:
    with torch.no_grad():
        yield


LOOKS: dict[str, Callable[[Any], Any]] = {
    "items": lambda held: [(name, value + 1) for name, value in held.items()],
    "values": lambda held: [value * 2 for value in held.values()],
    "get": lambda held: (held.get("a") - 1, held.get("z"), held.get("z", 5)),
    "item": lambda held: held["a"] + 1,
    "keys": lambda held: (list(held.keys()), held["a"] + 0),
    "whether a key is there": lambda held: (held["a"] + 1, "a" in held, "z" in held, "z" not in held),
    "length": lambda held: (len(held), held["a"] + 1),
    "the same objects": lambda held: (held.get("a") is held.get("b"), held.get("a") is next(iter(held.values()))),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("kind", [Output, Table])
def test_tensors_are_found_in_it(kind: type[Any], look: str) -> None:
    def world(compile_: Any) -> Any:
        compiled = compile_(lambda held: LOOKS[look](held))
        seen = []
        for scale in range(3):
            held = kind(a=X * scale, b=X + scale)
            seen.append(compiled(held))
        both = X + 7
        return [*seen, compiled(kind(b=both, a=both)), compiled(kind(a=X, c=X, b=X))]

    alike(world)


def test_positions_follow_the_order_that_it_has_itself() -> None:
    def function(held: Any) -> Any:
        return held[0] + 1, [name for name, _ in held.items()], len(held)

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Output(a=X, b=X * 2, c=X * 3)
        seen = [compiled(held)]
        held.move_to_end("a")
        seen.append(compiled(held))
        del held["c"]
        seen.append(compiled(held))
        held["b"] = X * 9
        return [*seen, compiled(held)]

    alike(world)


def test_what_it_hands_out_is_what_it_holds() -> None:
    """The user's objects keep their identity, and writes reach them."""

    class Layer:
        count = 0

    def function(held: Any, x: torch.Tensor) -> Any:
        for value in held.values():
            value.count += 1
        return x + 1, next(iter(held.values())) is held.get("first")

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Table(first=Layer(), second=Layer())
        return [(compiled(held, X), [layer.count for layer in held.values()]) for _ in range(3)]

    alike(world)


@pytest.mark.parametrize("name", ["items", "values", "get", "__len__"])
def test_a_method_that_its_class_gets_later_is_called(name: str) -> None:
    class Own(dict):
        pass

    def function(held: Any) -> Any:
        items, values = list(held.items()), list(held.values())
        return len(items), len(values), held.get("a"), len(held), X + 1

    def world(compile_: Any) -> Any:
        if name in vars(Own):
            delattr(Own, name)
        compiled, held = compile_(function), Own(a=X)
        seen = [compiled(held)]
        setattr(Own, name, lambda self, *given: 7 if name == "__len__" else {"get": 7}.get(name, [7, 7]))
        return [*seen, compiled(held)]

    # C code calls the class's own `__len__`, a Python function that would see the tensors.
    alike(world, *["unguardable"] * (name == "__len__"))


def test_numbers_in_it_are_guarded() -> None:
    def function(held: Any) -> Any:
        return [value * 2 for value in held.values()], held.get("n") + 1

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Table(x=X, n=1)
        seen = [compiled(held)]
        held["n"] = 5
        return [*seen, compiled(held)]

    alike(world)


def test_one_that_the_frame_changes_is_left_to_python() -> None:
    def function(held: Any) -> Any:
        held["b"] = held.get("a") + 1
        return [value * 2 for value in held.values()]

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Table(a=X)
        return [(compiled(held), list(held)) for _ in range(2)]

    alike(world, "side-effect")


def test_one_whose_attributes_the_frame_has_written() -> None:
    def function(held: Any) -> Any:
        held.seen = True
        return [value * 2 for value in held.values()]

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Table(a=X)
        return [(compiled(held), held.seen) for _ in range(2)]

    alike(world)


@pytest.mark.whole
def test_a_default_that_looking_puts_in_is_left_to_python() -> None:
    class Defaults(collections.defaultdict):
        pass

    def function(held: Any) -> Any:
        return [value * 2 for value in held.values()], held["z"] + 1

    def world(compile_: Any) -> Any:
        compiled, held = compile_(function), Defaults(lambda: X, a=X)
        return [(compiled(held), list(held)) for _ in range(2)]

    alike(world, "side-effect")


class Names(dict):
    """Globals that know each name, and count the queries for them."""

    asked = 0

    def __missing__(self, name: str) -> int:
        Names.asked += 1
        return len(name)


def test_globals_for_which_code_answers() -> None:
    """The result of `__missing__` is in no namespace, so no guard can check a builtin of that name."""
    used = (lambda x: x * unknown + len).__code__  # type: ignore[name-defined]  # noqa: F821

    def function(x: Any) -> Any:
        return types.FunctionType(used, Names())(x + 1) - 1

    def world(compile_: Any) -> Any:
        compiled, Names.asked = compile_(function), 0
        return [(compiled(X), Names.asked) for _ in range(3)]

    alike(world, "unguardable")
