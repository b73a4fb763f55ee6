"""Attributes stored inline in an instance, with a dict that shares them: guards read them without looking names up.

Each way to change such an attribute, or to separate the values from the dict, is noticed where it matters, and is not
taken for a change where it does not. From CPython 3.13 on a dict's version does not cover these attributes; before 3.13
the same must hold.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor, nn


class Plain:
    """Some attributes, one of them a default of the class."""

    shadowed = 1

    def __init__(self) -> None:
        self.scale, self.shift, self.inner = 2, 3, None

    def run(self, x: Tensor) -> Tensor:
        y = x * self.scale + self.shift * self.shadowed
        return y if self.inner is None else self.inner.run(y)


class Layered(nn.Module):
    """Many modules, each with a number that its class does not define."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))
        for number, layer in enumerate(self.layers):
            layer.factor = number + 1

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x) * layer.factor
        return x


def assign(owner: Any, name: str, value: Any) -> None:
    setattr(owner, name, value)


def assign_often(owner: Any, name: str, value: Any) -> None:
    """Assigns through an instruction that has been specialized for the class."""
    for number in range(200):
        owner.scale = number
    owner.scale = 2
    assign(owner, name, value)


def by_dict(owner: Any, name: str, value: Any) -> None:
    owner.__dict__[name] = value


def by_update(owner: Any, name: str, value: Any) -> None:
    vars(owner).update({name: value})


def by_new_dict(owner: Any, name: str, value: Any) -> None:
    owner.__dict__ = {**owner.__dict__, name: value}


def after_new_dict(owner: Any, name: str, value: Any) -> None:
    """The old dict lives on separately, at its address, and does not belong to the instance any more."""
    old = owner.__dict__
    owner.__dict__ = dict(old)
    old["scale"] = old["shift"] = 77
    assign(owner, name, value)


def after_deletion(owner: Any, name: str, value: Any) -> None:
    kept = owner.shift
    del owner.shift
    assign(owner, name, value)
    if name != "shift":
        owner.shift = kept


def after_many_names(owner: Any, name: str, value: Any) -> None:
    """Adds more names than an instance has room for."""
    for number in range(40):
        setattr(owner, f"more_{number}", number)
    assign(owner, name, value)


def after_names_of_another(owner: Any, name: str, value: Any) -> None:
    """The class's table of names grows because of another instance."""
    other = Plain()
    for number in range(3):
        setattr(other, f"of_another_{number}", number)
    other.shadowed = 50
    assign(owner, name, value)


def by_clearing(owner: Any, name: str, value: Any) -> None:
    kept = dict(owner.__dict__)
    owner.__dict__.clear()
    for known, old in reversed(kept.items()):
        setattr(owner, known, old)
    assign(owner, name, value)


WAYS = [
    assign,
    assign_often,
    by_dict,
    by_update,
    by_new_dict,
    after_new_dict,
    after_deletion,
    after_many_names,
    after_names_of_another,
    by_clearing,
]
CHANGES = [("shift", 5), ("shadowed", 7), ("unread", 1), ("scale", 2), ("inner", Plain())]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change[0])
def test_each_way_of_writing_is_noticed(way: Callable[..., None], change: tuple[str, Any]) -> None:
    kind = type("Plain", (Plain,), {})  # with its own table of names
    owner, x = kind(), torch.ones(2)
    compiled = dynamlir.compile(lambda x: owner.run(x))
    for _ in range(3):
        torch.testing.assert_close(compiled(x), owner.run(x))
    way(owner, *change)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), owner.run(x))
    owner.scale = 9
    torch.testing.assert_close(compiled(x), owner.run(x))


def test_another_instance_at_the_address_of_a_dead_one() -> None:
    x = torch.ones(2)
    box: list[Any] = [Plain()]
    compiled = dynamlir.compile(lambda x: box[0].run(x))
    addresses = set()
    for number in range(30):
        torch.testing.assert_close(compiled(x), x * 2 + 3 + number % 3 if number else x * 2 + 3)
        box.clear()
        gc.collect()
        box.append(Plain())
        box[0].shift = 3 + (number + 1) % 3
        addresses.add(id(box[0]))
    assert len(addresses) < 30


@torch.no_grad()
def test_modules_are_read_where_their_values_lie() -> None:
    """A check that passes looks nothing up, and a change of any attribute of any module is still noticed."""
    model, x = Layered().eval(), torch.ones(2, 3)
    compiled = dynamlir.compile(model)
    for _ in range(4):
        torch.testing.assert_close(compiled(x), model(x))
    words, _, again = compiled._cache[0].guards.remembered
    assert words > len(list(model.modules())) and again == []
    for layer in model.layers:
        layer.factor = 0.5
        torch.testing.assert_close(compiled(x), model(x))
        vars(layer)["factor"] = 2
        torch.testing.assert_close(compiled(x), model(x))
    model.layers[3].forward = lambda x: x
    torch.testing.assert_close(compiled(x), model(x))


def test_the_dict_itself_is_read() -> None:
    """Its number of items, one item, and the presence of a name."""
    owner, x = Plain(), torch.ones(2)

    def function(x: Tensor) -> Tensor:
        attributes = owner.__dict__
        return x * len(attributes) + attributes["scale"] + attributes.get("extra", 0)

    compiled = dynamlir.compile(function)

    def check() -> None:
        for _ in range(3):
            torch.testing.assert_close(compiled(x), function(x))

    check()
    owner.scale = 4
    check()
    owner.extra = 6
    check()
    del owner.extra
    check()
    owner.more = 1
    check()
    del owner.scale
    owner.__dict__["scale"] = 8
    check()


class Slotted(Plain):
    """Has a slot besides its dict."""

    __slots__ = ("more",)


class Listed(Plain, list[int]):
    """A list that has attributes."""


def of_another_class() -> Plain:
    owner = type("Another", (Plain,), {})()
    owner.__class__ = Plain
    return owner


@pytest.mark.parametrize("make", [Slotted, Listed, of_another_class], ids=lambda make: make.__name__)
def test_dicts_with_values_of_their_own(make: Callable[[], Plain]) -> None:
    """The table of names is the class's, but the values belong to the dict alone, and its version covers them."""
    owner, x = make(), torch.ones(2)
    owner.scale, owner.shift = 2000, 0.25
    compiled = dynamlir.compile(lambda x: owner.run(x))
    for _ in range(4):
        torch.testing.assert_close(compiled(x), owner.run(x))
    words, _, again = compiled._cache[0].guards.remembered
    assert words and again == []
    for way in (assign, assign_often, by_dict, after_deletion, after_many_names):
        for number in range(2):
            way(owner, "shift", number)
            torch.testing.assert_close(compiled(x), owner.run(x))
            torch.testing.assert_close(compiled(x), owner.run(x))
