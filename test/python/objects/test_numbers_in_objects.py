"""A number within an existing object has one role in a graph: an input that varies, or a guarded constant.

If C code reads it, it is the constant, regardless of other reads.
"""

from __future__ import annotations

import collections
import functools
import json
import operator
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

Pair = collections.namedtuple("Pair", "left right")


class Items(tuple):
    """A tuple with a `__dict__` for attributes."""


class Table(dict):
    """Without methods of its own."""


class Ordered(collections.OrderedDict):
    """Keeps an order of its own."""


@functools.lru_cache
def summed(values: tuple[Any, ...]) -> Any:
    return sum(values)


def agrees(function: Callable[..., Any], made: Callable[[Any], Any], numbers: tuple[Any, ...] = (2, 3, 4, 5, 3)) -> int:
    """Calls a function with a new container for each number, compiled and plain; returns the number of entries."""
    dynamlir.reset()
    compiled = dynamlir.compile(function)
    x = torch.ones(3)
    with torch.no_grad():
        for number in numbers:
            expected, found = function(x, made(number)), compiled(x, made(number))
            assert torch.equal(found, expected), (number, found, expected)
    return len(compiled._cache)


FLEXIBLE: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "a field": (lambda x, v: x * v.left, lambda n: Pair(n, 1)),
    "by index": (lambda x, v: x * v[0], lambda n: Pair(n, 1)),
    "from the end": (lambda x, v: x * v[-2], lambda n: Items((n, 1))),
    "unpacked": (lambda x, v: (lambda a, b: x * a - b)(*v), lambda n: Pair(n, 1)),
    "in a loop": (lambda x, v: [x := x * a for a in v][-1], lambda n: Items((n, 7))),
    "under a key": (lambda x, v: x * v["a"], lambda n: Table(a=n, b=1)),
    "under a key of an ordered one": (lambda x, v: x * v["a"], lambda n: Ordered(a=n, b=1)),
    "got": (lambda x, v: x * v.get("a"), lambda n: Table(a=n)),
    "through keys": (lambda x, v: [x := x * v[k] for k in v][-1], lambda n: Table(a=n, b=3)),
    "beside the length": (lambda x, v: x * v[0] if len(v) == 2 and v else x, lambda n: Items((n, 1))),
    "by a getter": (lambda x, v: x * operator.itemgetter(0)(v), lambda n: Pair(n, 1)),
}
EXACT: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "compared within a list": (lambda x, v: x * v[0] if [v] == [(3, 1)] else x - v[0], lambda n: (n, 1)),
    "looked for": (lambda x, v: x * v[0] + (v in [(3, 1), (5, 1)]), lambda n: (n, 1)),
    "a key": (lambda x, v: x * {v: v[0]}[v], lambda n: (n, 1)),
    "a key of a table": (lambda x, v: x * TABLE.get(v, 9) + v[0], lambda n: (n, 1)),
    "in a table": (lambda x, v: x + 1 if v in TABLE else x - v[0], lambda n: (n, 1)),
    "hashed": (lambda x, v: x * (hash(v) % 7) + v[0], lambda n: Pair(n, 1)),
    "text": (lambda x, v: x * len(f"{[v]}{v[0]:>{12}}") + float(str(v[0])), lambda n: Pair(n, 1)),
    "a copy": (lambda x, v: x * dict([v])[v[0]], lambda n: (n, 2)),
    "cached": (lambda x, v: x * summed(v) + v[0], lambda n: (n, 1)),
    "nested": (lambda x, v: x * v[0][0] + ([v] == [((3, 1), 1)]), lambda n: ((n, 1), 1)),
    "among others": (lambda x, v: x * v.left + (v in {Pair(3, 1)}), lambda n: Pair(n, 1)),
}
TABLE = {(3, 1): 5, (4, 1): 6}


@pytest.mark.parametrize("way", FLEXIBLE)
def test_one_entry_serves_all_numbers(way: str) -> None:
    summed.cache_clear()
    assert agrees(*FLEXIBLE[way]) == 2
    assert agrees(*FLEXIBLE[way], numbers=(0.5, 1.5, 2.5, 0.5)) == 2


@pytest.mark.parametrize("way", EXACT)
@pytest.mark.parametrize("numbers", [(2, 3, 4, 5, 3), (0.5, 3.0, 2.5, 3.0)], ids=["ints", "floats"])
def test_what_c_code_looks_at_is_guarded(way: str, numbers: tuple[Any, ...]) -> None:
    function, made = EXACT[way]
    summed.cache_clear()
    for number in numbers:
        # Plain Python calls first, while the function has not cached anything.
        summed((number, 1))
    agrees(function, made, numbers)


@pytest.mark.parametrize("values", [b"\x02\x03", range(2, 4), "ab"], ids=["bytes", "range", "text"])
def test_spread_values_are_guarded(values: Any) -> None:
    compiled = dynamlir.compile(lambda x, v: x + len(str(max(*v))) + sum(map(hash, v)) % 5)
    plain = compiled.__wrapped__
    for given in (values, values[1:] * 2 if not isinstance(values, range) else range(3, 9), values):
        assert torch.equal(compiled(torch.ones(1), given), plain(torch.ones(1), given))


def test_spread_sizes_are_guarded() -> None:
    compiled = dynamlir.compile(lambda x, size: x.new_zeros(*size))
    for n in (1, 2, 3, 2, 4):
        assert compiled(torch.ones(2), torch.Size((n, 2))).shape == (n, 2)


def test_another_field_of_the_same_name() -> None:
    class Held(collections.namedtuple("Held", "left right")):
        pass

    compiled = dynamlir.compile(lambda x, v: x * v.left)
    x, held = torch.ones(1), Held(2, 5)
    assert compiled(x, held).item() == 2
    Held.left = Held.__mro__[1].right  # type: ignore[misc]
    assert compiled(x, held).item() == 5
    Held.left = property(lambda self: 7)  # type: ignore[misc, assignment]
    assert compiled(x, held).item() == 7


def test_a_length_that_c_code_tells() -> None:
    class Sized:
        __len__ = [1, 2].__len__  # type: ignore[assignment]

    compiled, sized = dynamlir.compile(lambda x, v: x * len(v)), Sized()
    assert compiled(torch.ones(1), sized).item() == 2
    Sized.__len__ = [1, 2, 3].__len__  # type: ignore[method-assign]
    assert compiled(torch.ones(1), sized).item() == 3


@pytest.mark.parametrize("made", [lambda n: (n, 1), lambda n: Pair(n, 1)], ids=["a tuple", "a named tuple"])
def test_what_is_within_the_own_containers_is_guarded(made: Callable[[Any], Any]) -> None:
    agrees(lambda x, v: x * (hash((v, 1)) % 1009), made)
    agrees(lambda x, v: x * len(json.dumps({"k": [v]})) + float(json.dumps([v]).strip("[]").split(",")[0]), made)
    agrees(lambda x, v: x + operator.countOf([v, 1], (3, 1)) + len(frozenset([v, made(3)])), made)


def by_default(x, scale=2):
    return x * scale


def by_keyword(x, *, scale=2):
    return x * scale


class ByDefault:
    def __init__(self, x, scale=2):
        self.made = x * scale

    def times(self, x, scale=2):
        return x * scale + self.made


def set_default(function, value):
    function.__defaults__ = (value,)


def set_keyword(function, value):
    function.__kwdefaults__["scale"] = value


def set_keywords(function, value):
    function.__kwdefaults__ = {"scale": value}


DEFAULTS = {
    "default": (lambda x: by_default(x), by_default, set_default),
    "keyword": (lambda x: by_keyword(x), by_keyword, set_keyword),
    "all keywords": (lambda x: by_keyword(x), by_keyword, set_keywords),
    "constructor": (lambda x: ByDefault(x).made, ByDefault.__init__, set_default),
    "method": (lambda x: ByDefault(x, 3).times(x), ByDefault.times, set_default),
    "called by C code": (lambda x: next(map(by_default, [x])), by_default, set_default),
    "partial": (lambda x: functools.partial(by_keyword, x)(), by_keyword, set_keyword),
    "read beside": (lambda x: by_default(x) + by_default.__defaults__[0], by_default, set_default),
}


@pytest.mark.parametrize("way", DEFAULTS)
@pytest.mark.parametrize("numbers", [(2, 3, 4, 5, 3), (0.5, 1.5, 2.5, 0.5)], ids=["ints", "floats"])
def test_defaults_of_callees(way: str, numbers: tuple[Any, ...]) -> None:
    function, callee, change = DEFAULTS[way]
    compiled, x = dynamlir.compile(function), torch.ones(3)
    for number in numbers:
        change(callee, number)
        assert torch.equal(compiled(x), function(x)), number
