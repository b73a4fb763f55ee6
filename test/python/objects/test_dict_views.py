"""Views of dicts, read-only proxies and descriptors that existed before: the values that they show are guarded at their
source.
"""

from __future__ import annotations

import enum
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from written import same

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with torch.no_grad():
        yield


def agree(function: Callable[..., Any], *calls: tuple[Any, ...], graphs: int) -> Any:
    """Checks that each call has the same outcome compiled and plain, without a graph break, and the number of graphs in
    all.
    """
    compiled = dynamlir.compile(function, fullgraph=True)
    for given in [*calls, *calls]:
        same(compiled(*given), function(*given))
    assert dynamlir.counters()["graphs"] == graphs and not dynamlir.counters()["fallbacks"]
    return compiled


def test_keys() -> None:
    def looks(x: torch.Tensor, keys: Any) -> torch.Tensor:
        return x + 1 if "c" in keys else x - 1

    held = {"a": 1, "b": 2}
    agree(looks, (X, held.keys()), (X, {"c": 1}.keys()), (X, {"b": X}.keys()), (X, OrderedDict(a=1).keys()), graphs=3)

    def steps(x: torch.Tensor, keys: Any) -> Any:
        return x + len(keys), list(keys), [key * 2 for key in keys], sorted(keys), bool(keys), keys & {"a"}

    dynamlir.reset()
    agree(steps, (X, {"a": 1, "b": 2}.keys()), (X, {"b": 2, "a": 1}.keys()), (X, {}.keys()), graphs=3)

    def grown(x: torch.Tensor, held: dict[str, int], keys: Any) -> Any:
        held["new"] = 3
        return x + len(keys), "new" in keys, list(keys)

    compiled = dynamlir.compile(grown, fullgraph=True)
    for _ in range(2):
        ours, theirs = {"a": 1}, {"a": 1}
        same(compiled(X, ours, ours.keys()), grown(X, theirs, theirs.keys()))
        assert ours == theirs
        apart = {"a": 1}
        same(compiled(X, {"a": 1}, apart.keys()), grown(X, {"a": 1}, apart.keys()))


def test_values_and_items() -> None:
    def total(x: torch.Tensor, values: Any) -> torch.Tensor:
        for value in values:
            x = x + value
        return x * len(values)

    agree(total, (X, {"a": 1, "b": 2}.values()), (X, {"a": 1, "b": 3}.values()), (X, {"a": X}.values()), graphs=3)
    compiled = dynamlir.compile(total, fullgraph=True)
    for number in range(2):
        same(compiled(X, {"a": X + number}.values()), total(X, {"a": X + number}.values()))

    def named(x: torch.Tensor, items: Any) -> Any:
        return [(name, x * value) for name, value in items], ("a", 1) in items

    dynamlir.reset()
    agree(named, (X, {"a": 1, "b": 2}.items()), (X, {"b": 2, "a": 1}.items()), graphs=2)


def test_what_a_class_holds() -> None:
    class Meta(type):
        @property
        def __dict__(cls) -> Any:
            return {"shadow": 1}

    class Hidden(metaclass=Meta):
        pass

    class Held:
        scale = 2

        def method(self) -> int:
            return 1

    held = Held()
    own = type.__dict__["__dict__"].__get__

    def function(x: torch.Tensor) -> Any:
        names = type(held).__dict__
        found = names["scale"], "more" in names, names.get("none", 5), len(vars(Held)), "method" in names
        return x * own(Held)["scale"], found, len(Hidden.__dict__)

    compiled = agree(function, (X,), graphs=1)
    Held.scale = 3
    same(compiled(X), function(X))
    Held.more = 1  # type: ignore[attr-defined]
    same(compiled(X), function(X))

    def writes(x: torch.Tensor) -> Any:
        Held.scale = 7
        return x * Held.__dict__["scale"]

    same(dynamlir.compile(writes)(X), X * 7)
    assert Held.scale == 7

    def hidden(x: torch.Tensor) -> Any:
        return x + len(own(Hidden))

    same(dynamlir.compile(hidden)(X), hidden(X))


def test_proxies() -> None:
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    def called(first: int, second: int = 2) -> None:
        pass

    def function(x: torch.Tensor, proxy: Any, signature: inspect.Signature) -> Any:
        members = Color.__members__
        found = (
            len(members),
            members["RED"].value,
            [member.value for member in members.values()],
            list(signature.parameters),
        )
        return (
            x + proxy["t"],
            "u" in proxy,
            found,
            [parameter.default for parameter in signature.parameters.values()][1],
        )

    signature = inspect.signature(called)
    proxies = [types.MappingProxyType(held) for held in ({"t": X}, {"t": X + 1}, {"t": X, "u": 1}, {"t": 4})]
    agree(function, *[(X, proxy, signature) for proxy in proxies], graphs=4)

    def returned(x: torch.Tensor) -> Any:
        return inspect.signature(called).bind(1, 2), types.MappingProxyType({"a": x + 1})

    bound, proxy = dynamlir.compile(returned, fullgraph=True)(X)
    assert bound == returned(X)[0] and type(proxy) is types.MappingProxyType
    same(proxy["a"], X + 1)


def test_attributes_by_their_descriptors() -> None:
    class Slotted:
        __slots__ = ("m", "n")

    def function(x: torch.Tensor, get: Any, slot: Any, slotted: Slotted) -> Any:
        return x * 2, get(x), torch.Tensor.dtype.__get__(x), slot.__get__(slotted), slot.__get__(slotted, Slotted)

    slotted = Slotted()
    slotted.n = 3
    compiled = agree(function, (X, torch.Tensor.shape.__get__, Slotted.n, slotted), graphs=1)
    slotted.n = 4
    same(compiled(X, torch.Tensor.shape.__get__, Slotted.n, slotted)[3:], (4, 4))
    same(compiled(X, torch.Tensor.ndim.__get__, Slotted.n, slotted)[1], 1)
    slotted.m = 5
    same(compiled(X, torch.Tensor.shape.__get__, Slotted.m, slotted)[3:], (5, 5))


def test_properties_that_call_an_object() -> None:
    class Getter:
        def __init__(self, by: int) -> None:
            self.by = by

        def __call__(self, owner: Any) -> Any:
            return owner.base * self.by

    getter = Getter(2)

    class Owner:
        base = 3
        scaled = property(getter)

    owner = Owner()

    def function(x: torch.Tensor, owner: Any) -> Any:
        return x * owner.scaled

    compiled = agree(function, (X, owner), graphs=1)
    getter.by = 5
    same(compiled(X, owner), X * 15)
    Owner.scaled = property(Getter(7))  # type: ignore[assignment]
    same(compiled(X, owner), X * 21)
