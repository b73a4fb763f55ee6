"""C code converts objects to numbers through special methods such as ``__index__``, and refuses other results, as in
plain Python.

The values that the methods return vary between the calls, so a capture replaces them by symbols. The programs catch
what C code raises, so an exception is one more possible outcome.
"""

from __future__ import annotations

import array
import datetime
import decimal
import fractions
import itertools
import json
import math
import operator
import pickle
import struct
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

pytestmark = [pytest.mark.usefixtures("quiet")]


def alias(self: Any) -> Any:
    return self.pair[0]


class Asked:
    """Keeps the number in a tuple, so that it varies. Methods return it unchanged, or compute with it."""

    def __init__(self, number: Any) -> None:
        self.pair = (number, 1)

    def __int__(self) -> int:
        number: int = self.pair[0]
        return number + 1

    def __float__(self) -> float:
        number: float = self.pair[0]
        return number * 1.5

    def __complex__(self) -> complex:
        return complex(self.pair[0])

    # One function for several special methods.
    __index__ = __len__ = __hash__ = __length_hint__ = alias


class Within(Asked):
    """One method calls another."""

    def __int__(self) -> int:
        return super().__int__() + self.__index__()

    def __float__(self) -> float:
        return float(super().__float__()) + 1


BOX = Asked(2)


def tried(ask: Callable[[Any], Any]) -> Any:
    try:
        return ask(BOX)
    except (AttributeError, TypeError, ValueError) as error:
        return len(str(error))


ASKS = {
    "int": int,
    "float": float,
    "complex": lambda v: complex(v).real,
    "int_new": lambda v: int.__new__(int, v),
    "float_new": lambda v: float.__new__(float, v),
    "index": operator.index,
    "item": lambda v: (5, 6, 7, 8, 9, 10, 11)[v],
    "text": lambda v: ord("abcdefgh"[v]),
    "times": lambda v: len("ab" * v),
    "range": lambda v: len(range(v)),
    "length": len,
    "hint": operator.length_hint,
    "truth": lambda v: 2 if v else 3,
    "hash": lambda v: hash(v) % 7,
    "key": lambda v: {v: 4}[v],
    "sqrt": math.sqrt,
    "islice": lambda v: list(itertools.islice(itertools.count(), v))[-1],
    "repeat": lambda v: len(list(itertools.repeat(1, v))),
    "bytes": lambda v: v.__index__().to_bytes(2, "big")[1],
    "round": lambda v: round(1.23456, v),
    "format": lambda v: len("%d" % v),  # noqa: UP031
    "tensor": lambda v: torch.full((2,), v)[0].item(),
    "json": lambda v: len(json.dumps(vars(v))),
    "json of a list": lambda v: len(json.dumps([*vars(v).values()])),
    "json of a number": lambda v: len(json.dumps(v.pair[0])),
    "struct": lambda v: sum(struct.pack("d", v.pair[0])),
    "date": lambda v: (datetime.date(2000, 1, 1) + datetime.timedelta(days=v.pair[0])).day,
    "fraction": lambda v: fractions.Fraction(*v.pair).numerator,
    "decimal": lambda v: int(decimal.Decimal(v.pair[0]) * 2),
    "array": lambda v: array.array("d", v.pair)[0],
    "pickle": lambda v: len(pickle.dumps(v.pair)),
    "statistics": lambda v: sum(map(float, v.pair)),
}
WHOLE, PARTS = (2, 5, 6, 3), (0.5, 2.5, 7.25)


@pytest.mark.parametrize("kind", [Asked, Within])
@pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS)
def test_what_a_method_returns_is_a_number(ask: Callable[[Any], Any], kind: type[Asked]) -> None:
    global BOX

    def function(x: torch.Tensor) -> Any:
        return x * tried(ask), tried(ask)

    compiled, x = dynamlir.compile(function), torch.ones(2)
    for number in (*WHOLE, *PARTS):
        BOX = kind(number)
        (found, told), (expected, other) = compiled(x), function(x)
        assert torch.equal(found, expected)
        assert (type(told), told) == (type(other), other)


@pytest.mark.parametrize(
    "use",
    [
        lambda v: sum(v),
        lambda v: list(v),
        lambda v: [].extend(v),
        lambda v: {}.update(v),
        lambda v: any(v),
        lambda v: (*v,),
    ],
)
def test_what_is_not_iterable_is_told_in_the_words_of_who_asks(use: Callable[[Any], Any]) -> None:
    def function(x: torch.Tensor, value: Any) -> Any:
        try:
            use(value)
        except TypeError as error:
            return x * 2, str(error)
        return x, ""

    def refuses(x: torch.Tensor, value: Any) -> Any:
        try:
            _first, _second = value
        except TypeError as error:
            return x * 2, str(error)
        return x, ""

    class Refusing:
        def __iter__(self) -> Any:
            raise TypeError("of its own")

    for program in (function, refuses):
        compiled, x = dynamlir.compile(program, backend="eager"), torch.ones(2)
        for value in (5, 6, None, Refusing(), 2.5):
            assert compiled(x, value)[1] == program(x, value)[1]
