"""Special methods that are C code, under another name or bound to another object, are followed when they change."""

from __future__ import annotations

import collections
import functools
import operator
import sys

import dynamlir
import pytest
import torch

X = torch.ones(2)
VALUES = [0.5, 1.5, 2.5, 0.5, 3.5]


def shown(value):
    return (
        value.tolist() if isinstance(value, torch.Tensor) else [*map(shown, value)] if type(value) is tuple else value
    )


def agree(function, held, change):
    """Checks that the function gives what plain Python gives, with each value in turn in the held object."""
    compiled = dynamlir.compile(function)
    for value in VALUES:
        change(held, value)
        assert shown(compiled(X, held)) == shown(function(X, held)), value


def put(held, value):
    held["lr"] = value


class ByItem(dict):
    __getattr__ = dict.__getitem__


class ByGet(dict):
    __getattr__ = dict.get


class Ordered(collections.OrderedDict):
    __getattr__ = collections.OrderedDict.__getitem__


@pytest.mark.parametrize("kind", [ByItem, ByGet, Ordered, type("Derived", (ByItem,), {})])
def test_attributes_that_are_items(kind):
    agree(lambda x, c: (x * c.lr, hasattr(c, "lr")), kind(lr=1), put)


def test_an_attribute_that_is_not_an_item():
    compiled = dynamlir.compile(lambda x, c: x * (c.lr if hasattr(c, "lr") else 3))
    with pytest.raises(KeyError):
        compiled(X, ByItem())
    assert compiled(X, ByGet(lr=2)).tolist() == [2, 2]


TABLE: dict = {"lr": 1}
ITEMS: list = [1]
BAG: collections.deque = collections.deque([1])
SEEN: set = {1}


class Bound:
    __getattr__ = TABLE.__getitem__
    __len__ = ITEMS.__len__
    __iter__ = BAG.__iter__
    __contains__ = SEEN.__contains__
    __add__ = ITEMS.__add__
    __index__ = BAG.__len__
    __enter__ = BAG.copy
    __exit__ = functools.partial(lambda *given: None)


def fill(held, value):
    TABLE["lr"] = value
    ITEMS[:] = [value] * int(value * 2)
    for container in (BAG, SEEN):
        container.clear()
    BAG.extend([value] * int(value * 2))
    SEEN.add(value)


def enters(x, c):
    with c as held:
        return x * held[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: x * c.lr,
        lambda x, c: x * len(c),
        lambda x, c: x * sum(c),
        lambda x, c: x * sum(v for v in c),
        lambda x, c: (x, 1.5 in c),
        lambda x, c: (x, len(operator.add(c, [1]))),
        lambda x, c: x * operator.index(c),
        lambda x, c: x * len(range(c)),
        lambda x, c: x.new_ones([c, 1]),
        lambda x, c: torch.arange(9.0)[c],
        enters,
    ],
)
def test_bound_to_something_else(function):
    agree(function, Bound(), fill)


class Length:
    __len__ = functools.partial(len, ITEMS)
    if sys.version_info >= (3, 14):
        # Bound in the same way as functions.
        __len__ = staticmethod(__len__)


def test_a_partial():
    agree(lambda x, c: x * len(c), Length(), fill)


class Told:
    """Special methods that are objects with a `__call__` of their own."""

    def __init__(self, value):
        self.value = value

    def __call__(self, *given):
        return self.value


@functools.lru_cache
def remembered(*given):
    return TABLE["lr"]


class Others:
    __len__ = staticmethod(ITEMS.__len__)
    __index__ = Told(1)
    __getattr__ = functools.lru_cache(lambda *given: TABLE["lr"])
    __float__ = remembered


def tell(held, value):
    fill(held, value)
    Others.__index__.value = int(value * 2)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: x * len(c),
        lambda x, c: x * operator.index(c),
        lambda x, c: (x, [1, 2, 3, 4, 5, 6, 7, 8][c]),
        lambda x, c: x * c.lr,
        lambda x, c: x * float(c),
    ],
)
def test_other_callables(function):
    remembered.cache_clear()
    agree(function, Others(), tell)


class Asked:
    of = property(operator.attrgetter("_of"))


def test_a_property_of_c_sees_what_was_written():
    def raises(x, o):
        o._of = o._of + 1
        return x * o.of

    compiled = dynamlir.compile(raises)
    for value in VALUES:
        ours, theirs = Asked(), Asked()
        ours._of = theirs._of = value
        assert torch.equal(compiled(X, ours), raises(X, theirs)) and ours._of == theirs._of


def test_specials_that_read_the_object_itself_are_captured():
    class Own(list):
        __len__, __iter__ = list.__len__, list.__iter__

    compiled = dynamlir.compile(lambda x, c: x * len(c) + sum(c), fullgraph=True)
    for held in (Own([1]), Own([2, 3])):
        assert compiled(X, held).tolist() == [len(held) + sum(held)] * 2
