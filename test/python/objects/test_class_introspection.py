"""Queries about classes (`__subclasses__`, abstract base classes, numpy's types), `torch.fx`'s mappings, and operators
that subclasses of `tuple` define: the answers are those of plain Python.
"""

from __future__ import annotations

import _abc
import abc
import json
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import dynamlir
import numpy as np
import pytest
import torch
from torch.fx.node import map_aggregate, map_arg
from written import same

X = torch.arange(3.0)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with torch.no_grad():
        yield


def captured(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled whole, with a check against eager at each call."""
    compiled = dynamlir.compile(function, fullgraph=True)

    def call(*given: Any) -> Any:
        ours = compiled(*given)
        same(ours, function(*given))
        return ours

    return call


def test_subclasses() -> None:
    class Base:
        pass

    class First(Base):
        scale = 2

    def function(x: torch.Tensor) -> Any:
        known = Base.__subclasses__()
        for one in known:
            x = x * one.scale
        known.append(Base)
        return x, known, [one.__name__ for one in Base.__subclasses__()], First.__subclasses__()

    call = captured(function)
    for _ in range(2):
        assert call(X)[1] == [First, Base]

    class Second(Base):
        scale = 3

    assert call(X)[1] == [First, Second, Base]
    assert dynamlir.counters()["graphs"] == 2
    del Second


def test_what_numpy_says_of_its_types() -> None:
    def function(x: torch.Tensor, n: Any) -> Any:
        least = float(np.finfo(np.float32).min), np.finfo("float64").eps
        return (
            torch.clamp(x, least[0]),
            least,
            np.issubdtype(type(n), np.integer),
            np.issubdtype(np.float32, np.floating),
        )

    call = captured(function)
    for n in (1, 1.0, 2):
        call(X, n)

    def unknown(x: torch.Tensor) -> Any:
        return x + np.iinfo(np.asarray([1], dtype=np.int8).dtype).max

    same(dynamlir.compile(unknown)(X), unknown(X))


def test_what_torch_fx_maps() -> None:
    def function(x: torch.Tensor, held: Any) -> Any:
        scale = 2
        doubled = map_aggregate(
            [x, {"a": x + 1, "b": [held[0], 1]}, (2, None)], lambda leaf: leaf * scale if leaf is not None else leaf
        )
        return (
            doubled[0],
            doubled[1]["a"],
            list(doubled[1]["b"]),
            doubled[2],
            type(doubled) is list,
            list(map_arg(held, torch.relu)),
        )

    call = captured(function)
    call(X, [X + 3, X])
    call(X, [X + 4])


class Pair(namedtuple("Pair", "a b")):
    def __new__(cls, a: Any, b: Any) -> Pair:
        return super().__new__(cls, a, b)

    def __add__(self, other: Any) -> Any:  # type: ignore[override]
        return Pair(self.a + other.a, self.b * other.b) if isinstance(other, Pair) else NotImplemented

    def __eq__(self, other: object) -> Any:
        return self.a == other.a if isinstance(other, Pair) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


class Plain(NamedTuple):
    a: Any
    b: Any


class Wider(Pair):
    def __radd__(self, other: Any) -> Any:
        return other.a - self.a


def test_operators_of_tuples_with_their_own() -> None:
    def function(left: Pair, right: Pair) -> Any:
        both = left + right
        return both.a, both.b, type(both), left == right

    call = captured(function)
    call(Pair(X, X + 1), Pair(X + 2, X + 3))
    call(Pair(X, 2), Pair(1, X))

    def added(left: Any, right: Any) -> Any:
        return left + right

    compiled = dynamlir.compile(added)
    for left, right in [
        (Pair(X, X + 1), Wider(X + 2, X)),
        (Pair(X, X + 1), Plain(X + 2, X)),
        (Plain(X, X + 1), Pair(X + 2, X)),
        (Pair(X, X + 1), (X + 2,)),
    ]:
        try:
            theirs = added(left, right)
        except TypeError:
            with pytest.raises(TypeError):
                compiled(left, right)
        else:
            same(compiled(left, right), theirs)
    former = Pair.__add__
    try:
        Pair.__add__ = lambda self, other: Pair(self.a - other.a, other.b)  # type: ignore[assignment, method-assign]
        call(Pair(X, X + 1), Pair(X + 2, X + 3))
    finally:
        Pair.__add__ = former  # type: ignore[method-assign]


class Hooked(abc.ABC):  # noqa: B024
    """Accepts the classes named in `accepted` as subclasses."""

    accepted: ClassVar[list[str]] = []

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return other.__name__ in json.loads(json.dumps(cls.accepted))


class Below(Hooked):
    """Inherits the hook."""


class Around(abc.ABC):  # noqa: B024
    """Has the hook in a subclass: Python queries subclasses as well."""


class Within(Around):
    """See `Around`."""

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        return Hooked.__subclasshook__(other)


class Told:
    """A class whose instances are queried."""


@pytest.mark.parametrize("base", [Hooked, Below, Around])
@pytest.mark.parametrize("asks", [isinstance, lambda value, base: issubclass(type(value), base)])
def test_a_hook_that_answers_otherwise_once_its_cache_is_reset(base: Any, asks: Any) -> None:
    value = Told()

    def function(x: Any) -> Any:
        return x + 1 if asks(value, base) else x + 2

    compiled = dynamlir.compile(function)
    classes = (Hooked, Below, Around, Within)
    try:
        for accepted in ([], ["Told"], []):
            Hooked.accepted[:] = accepted
            for forgets in (_abc._reset_caches, abc.ABCMeta._abc_caches_clear):
                assert torch.equal(compiled(X), function(X))
                for each in classes:
                    forgets(each)
                assert torch.equal(compiled(X), function(X))
    finally:
        Hooked.accepted.clear()
        for each in classes:
            _abc._reset_caches(each)
