"""C code compares objects by identity: as keys, in sets, for groups and for an order. Other objects give other results.

Each program is called with distinct objects and with one object twice, in orders in which an entry for one kind of call
must not answer the other. Items reach C code in containers, from iterators, and from key functions.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch

X = torch.zeros(1)


class Thing:
    """Compared by identity."""


class Ordered:
    """Ordered by a number, equal by identity: two of them in tuples are compared for equality first."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: Ordered) -> bool:
        return self.number < other.number

    def __gt__(self, other: Ordered) -> bool:
        return self.number > other.number


def generated(*items: Any) -> Iterator[Any]:
    yield from items


def mapped(*items: Any) -> Iterator[Any]:
    return map(lambda item: item, items)


def updated(container: Any, items: Any) -> Any:
    container.update(items)
    return container


EQUALITY: dict[str, Callable[[Any, Any], float]] = {
    "dict of pairs": lambda a, b: len(dict([(a, 1), (b, 2)])),
    "OrderedDict of pairs": lambda a, b: len(OrderedDict([(a, 1), (b, 2)])),
    "defaultdict of pairs": lambda a, b: len(defaultdict(int, [(a, 1), (b, 2)])),
    "set": lambda a, b: len(set([a, b])),
    "frozenset": lambda a, b: len(frozenset((a, b))),
    "Counter": lambda a, b: len(Counter([a, b])),
    "fromkeys": lambda a, b: len(dict.fromkeys([a, b])),
    "setdefault": lambda a, b: {a: 1}.setdefault(b, 2),
    "update": lambda a, b: len(updated({a: 1}, {b: 2})),
    "count": lambda a, b: [a].count(b),
    "count in a deque": lambda a, b: deque([a]).count(b),
    "in": lambda a, b: b in (a,),
    "==": lambda a, b: [a] == [b],
    "groupby": lambda a, b: len([key for key, _ in itertools.groupby([a, b])]),
    "groupby, taken by C code": lambda a, b: len(list(itertools.groupby((a, b)))),
    "groupby with keys": lambda a, b: len(list(itertools.groupby([0, 1], key=lambda at: (a, b)[at]))),
    "groupby with keys of an iterator": lambda a, b: len(list(itertools.groupby(iter([0, 1]), lambda at: (a, b)[at]))),
    "set of values": lambda a, b: len(set({1: a, 2: b}.values())),
    "frozenset of values": lambda a, b: len(frozenset({1: a, 2: b}.values())),
    "Counter of values": lambda a, b: len(Counter({1: a, 2: b}.values())),
    "fromkeys of values": lambda a, b: len(dict.fromkeys({1: a, 2: b}.values())),
    "groupby of values": lambda a, b: len(list(itertools.groupby({1: a, 2: b}.values()))),
    "update of a set by values": lambda a, b: len(updated(set(), {1: a, 2: b}.values())),
    "union of values": lambda a, b: len(set().union({1: a, 2: b}.values())),
    "issuperset of values": lambda a, b: {a}.issuperset({1: b}.values()),
    "dict of an iterator": lambda a, b: len(dict(zip([a, b], [1, 2]))),
    "dict of a generator": lambda a, b: len(dict((key, 1) for key in generated(a, b))),
    "OrderedDict of an iterator": lambda a, b: len(OrderedDict((key, 1) for key in mapped(a, b))),
    "set of an iterator": lambda a, b: len(set(mapped(a, b))),
    "set of a generator": lambda a, b: len(set(generated(a, b))),
    "set display": lambda a, b: len({*generated(a, b)}),
    "set comprehension": lambda a, b: len({item for item in generated(a, b)}),
    "Counter of an iterator": lambda a, b: len(Counter(mapped(a, b))),
    "fromkeys of an iterator": lambda a, b: len(dict.fromkeys(mapped(a, b))),
    "groupby of an iterator": lambda a, b: len(list(itertools.groupby(mapped(a, b)))),
    "update of a set by an iterator": lambda a, b: len(updated(set(), mapped(a, b))),
    "update of a dict by an iterator": lambda a, b: len(updated({}, zip([a, b], [1, 2]))),
    "issubset of an iterator": lambda a, b: {a}.issubset(mapped(b)),
    "in an iterator": lambda a, b: b in mapped(a),
    "countOf an iterator": lambda a, b: operator.countOf(mapped(a, a), b),
}

ORDER: dict[str, Callable[[Any, Any], float]] = {
    "sorted": lambda a, b: sorted([(a, 2), (b, 1)])[0][1],
    "max of arguments": lambda a, b: max((a, 2), (b, 1))[1],
    "max of a list": lambda a, b: max([(a, 2), (b, 1)])[1],
    "min": lambda a, b: min((a, 2), (b, 1))[1],
    "sorted by keys": lambda a, b: sorted([1, 2], key=lambda at: ((a, b)[at - 1], -at))[0],
    "max by keys": lambda a, b: max([1, 2], key=lambda at: ((a, b)[at - 1], -at)),
    "max of an iterator": lambda a, b: max(mapped((a, 2), (b, 1)))[1],
    "sorted of a generator": lambda a, b: sorted(generated((a, 2), (b, 1)))[0][1],
    "sorted of values": lambda a, b: sorted({1: (a, 2), 2: (b, 1)}.values())[0][1],
    "sorted of a deque": lambda a, b: sorted(deque([(a, 2), (b, 1)]))[0][1],
    "<": lambda a, b: (a, 2) < (b, 1),
}


def check(program: Callable[[Any, Any], float], first: Any, second: Any) -> None:
    compiled = dynamlir.compile(lambda x, a, b: x + program(a, b))
    pairs = [(first, second), (first, first), (second, first), (second, second), (first, second)]
    for one, other in (*pairs, *reversed(pairs)):
        assert compiled(X, one, other).item() == program(one, other)


@pytest.mark.parametrize("name", EQUALITY)
def test_equality(name: str) -> None:
    check(EQUALITY[name], Thing(), Thing())


@pytest.mark.parametrize("name", ORDER)
def test_order(name: str) -> None:
    check(ORDER[name], Ordered(1), Ordered(0))


def test_keys_that_are_numbers_are_captured() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        groups = itertools.groupby([1, 1, 2], key=lambda item: item * 2)
        return x + sum(len(list(group)) for _, group in groups) + sorted([3, 1, 2], key=lambda item: -item)[0]

    assert torch.equal(dynamlir.compile(program, fullgraph=True)(X), program(X))


def test_the_order_of_effects_stays() -> None:
    seen: list[str] = []

    class Hashed(Thing):
        def __hash__(self) -> int:
            seen.append("hash")
            return 1

    def items(*things: Any) -> Iterator[Any]:
        for at, thing in enumerate(things):
            seen.append(f"item {at}")
            yield thing

    def program(x: torch.Tensor, a: Any, b: Any) -> torch.Tensor:
        return x + len(set(items(a, b)))

    a, b = Hashed(), Hashed()
    compiled = dynamlir.compile(program)
    for run in (program, compiled, compiled):
        seen.clear()
        assert run(X, a, b).item() == 2
        assert seen == ["item 0", "hash", "item 1", "hash"]


def test_values_stay_the_objects_they_are() -> None:
    iterators = iter([1]), iter([2])

    def program(x: torch.Tensor) -> tuple[torch.Tensor, Any, bool]:
        stored = dict.fromkeys("ab", iterators)
        first, second = generated(1), generated(2)
        return x + 1, stored["a"], max(first, second, key=lambda _: 1) is first

    _, stored, is_first = dynamlir.compile(program)(X)
    assert stored is iterators and is_first
