"""Constructors and torch convert instances of the user's subclasses of numbers and `str` as in plain Python."""

from __future__ import annotations

import array
import collections
import decimal
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch


class Whole(int):
    pass


class Real(float):
    pass


class Complex(complex):
    pass


class Text(str):
    pass


class Queue(collections.deque):
    pass


class Labelled(str):
    def __new__(cls, text: str, held: list[Any]) -> Labelled:
        made = super().__new__(cls, text)
        made.held = held  # type: ignore[attr-defined]
        return made


class Counted(int):
    def __init__(self, value: int) -> None:
        self.value = value


def agrees(function: Callable[..., Any], values: list[Any]) -> None:
    compiled, x = dynamlir.compile(function), torch.ones(2)
    for value in values:
        expected, found = function(x, value), compiled(x, value)
        assert type(found) is type(expected) and found.tolist() == expected.tolist(), (value, found, expected)


NUMBERS = {
    "int": [2, 3, 4, 3],
    "Whole": [Whole(2), Whole(3), Whole(4), Whole(3)],
    "Real": [Real(2.5), Real(3.5), Real(4.5)],
    "Decimal": [decimal.Decimal(2), decimal.Decimal(3)],
}
WAYS: dict[str, Callable[..., Any]] = {
    "its class": lambda x, v: x * float(type(v)(v)),
    "another class": lambda x, v: x * Whole(v) + Real(v),
    "text": lambda x, v: x * float(Text(v)),
    "complex": lambda x, v: x * Complex(v),
    "in a list": lambda x, v: x.new_tensor([v]),
    "in a list of lists": lambda x, v: torch.tensor([[float(v), 1], (2, v)], dtype=torch.float64),
    "under a keyword": lambda x, v: torch.as_tensor(data=[v], dtype=torch.float64),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number(way: str, kind: str) -> None:
    agrees(WAYS[way], NUMBERS[kind])


HOLDERS: dict[str, Callable[[int], Any]] = {
    "array": lambda n: array.array("l", [n, 1]),
    "bytearray": lambda n: bytearray([n, 1]),
    "deque": lambda n: collections.deque([n, 1]),
    "its own": lambda n: Queue([n, 1]),
    "list": lambda n: [n, 1],
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_queue_made_of_another(holder: str) -> None:
    agrees(lambda x, v: x * Queue(v)[0], [HOLDERS[holder](n) for n in (2, 3, 4)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, v: torch.ones(3, 4)[:, v] * x,
        lambda x, v: x.new_tensor([v]),
        lambda x, v: Queue([x, v])[0] * Queue([v])[0][0],
        lambda x, v: x * Labelled("a", v).held[0],  # type: ignore[attr-defined]
        lambda x, v: x * Counted(v[0]).value + Counted(v[1]),
    ],
)
def test_a_list_that_existed(function: Callable[..., Any]) -> None:
    agrees(function, [[0, 1], [1, 2], [2, 3], [0, 1]])


def test_a_queue_of_tensors() -> None:
    compiled = dynamlir.compile(lambda x, v: Queue(v)[0] * x, fullgraph=True)
    for scale in (1, 2):
        assert compiled(torch.ones(2), [torch.ones(2) * scale]).tolist() == [scale] * 2


@pytest.mark.parametrize("kind", [Whole, Real])
def test_one_entry_serves_equal_numbers(kind: Callable[[Any], Any]) -> None:
    compiled = dynamlir.compile(lambda x, v: x * v + x.new_tensor([kind(v)]), fullgraph=True)
    for number in (2, 2, 3, 2, -1, 0, 3):
        assert compiled(torch.ones(2), kind(number)).tolist() == [2 * number] * 2
    assert len(compiled._cache) == 4


def test_zeros_of_users_floats_are_told_apart() -> None:
    agrees(lambda x, v: x / (x * v), [Real(0.0), Real(-0.0), Real(0.0)])
