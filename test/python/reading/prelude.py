"""The module of the grid's programs: classes that hold numbers, and functions that take them."""

# ruff: noqa: F401
import array
import collections
import contextvars
import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import inspect
import itertools
import json
import math
import operator
import os
import struct
import time
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
import torch

Named = collections.namedtuple("Named", "left right")


class Typed(NamedTuple):
    left: Any
    right: Any = 1


class OwnSequence:
    """Members that subclasses of sequences add: they read items that C code stores."""

    @property
    def doubled(self):
        return self[0] * 2

    @property
    def described(self):
        return f"{self[0]}{[*self]}"

    @property
    def first(self):
        a, *_ = self
        return a

    def by_super(self):
        return super().__getitem__(0)

    def by_len(self):
        items = [self[i] for i in range(len(self))]
        return items[0]

    def by_loop(self):
        total = 0
        for a in self:
            total = total * 3 + a
        return total

    def __call__(self, value):
        return max(self) + value

    def __float__(self):
        return float(sum(self))

    def __int__(self):
        return int(self[0])

    @classmethod
    def of_class(cls, value):
        return cls.__getitem__(value, 0)


class Tupled(OwnSequence, tuple):
    pass


class Listed(OwnSequence, list):
    pass


class Queued(OwnSequence, collections.deque):
    pass


class Fielded(OwnSequence, Typed):
    @property
    def doubled(self):
        return self.left * 2


class Asking(tuple):
    """A tuple whose items are read through Python methods."""

    def __getitem__(self, key):
        return super().__getitem__(key)

    def __iter__(self):
        return super().__iter__()

    def __eq__(self, other):
        return super().__eq__(other)

    def __hash__(self):
        return super().__hash__()

    def __contains__(self, value):
        return super().__contains__(value)


class AskingList(list):
    """A list whose items are read through Python methods."""

    def __getitem__(self, key):
        return super().__getitem__(key)

    def __iter__(self):
        return super().__iter__()

    def __len__(self):
        return super().__len__()


class OwnMapping:
    """Members that subclasses of dict add: they read items that C code stores."""

    @property
    def doubled(self):
        return self["a"] * 2

    @property
    def described(self):
        return f"{self['a']}{dict(self)}"

    def by_super(self):
        return super().__getitem__("a")

    def by_get(self):
        return dict.get(self, "a")

    def by_values(self):
        return sum(self.values())

    def total_of(self):
        total = 0
        for key in self:
            total = total * 3 + self[key]
        return total

    def __missing__(self, key):
        if key == "missing":
            return self["a"] + 1
        raise KeyError(key)

    def __call__(self, value):
        return self.get("a") + value

    def __float__(self):
        return float(self["a"])

    def __int__(self):
        return int(dict.__getitem__(self, "a"))

    def __hash__(self):
        return hash(self["a"])

    def __gt__(self, value):
        return self["a"] > value

    def __add__(self, value):
        return self["a"] + value


class Mapped(OwnMapping, dict):
    pass


class Ordered(OwnMapping, collections.OrderedDict):
    pass


class Defaulted(OwnMapping, collections.defaultdict):
    pass


class Counted(OwnMapping, collections.Counter):
    pass


class Attributed(OwnMapping, dict):
    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


class AttributedByMethod(OwnMapping, dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError as error:
            raise AttributeError(name) from error


class AskingDict(OwnMapping, dict):
    def __getitem__(self, key):
        return super().__getitem__(key)

    def get(self, key, default=None):
        return super().get(key, default)

    def values(self):
        return super().values()


@dataclasses.dataclass
class Part:
    first: Any = 1
    second: Any = 2


@dataclasses.dataclass
class Record:
    a: Any
    b: Any = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any
    b: Any = 1


@dataclasses.dataclass(slots=True)
class SlottedRecord:
    a: Any
    b: Any = 1


@dataclasses.dataclass(order=True, unsafe_hash=True)
class OrderedRecord:
    a: Any
    b: Any = 1


class Plain:
    def __init__(self, a, b=1):
        self.a = a
        self.b = b


class SlottedPair:
    __slots__ = ("a", "b")

    def __init__(self, a, b=1):
        self.a = a
        self.b = b


class Computed:
    def __init__(self, a, b=1):
        self.pair = (a, b)

    @property
    def a(self):
        return self.pair[0]

    @property
    def b(self):
        return self.pair[1]


class Module(torch.nn.Module):
    def __init__(self, a, b=1):
        super().__init__()
        self.a = a
        self.b = b


class Box:
    def __init__(self, held=0):
        self.held = held

    def ask(self):
        return self.held


class Speaking:
    """An object whose special methods all use its number."""

    def __init__(self, a):
        self.a = a

    @property
    def doubled(self):
        return self.a * 2

    def method(self):
        return self.a

    @classmethod
    def of_class(cls, value):
        return cls.method(value)

    def __call__(self, value):
        return self.a + value

    def __getitem__(self, key):
        return self.a + key

    def __float__(self):
        return float(self.a)

    def __int__(self):
        return int(self.a)

    def __complex__(self):
        return complex(self.a)

    def __index__(self):
        return abs(int(self.a))

    def __bool__(self):
        return self.a > 3

    def __len__(self):
        return abs(int(self.a))

    def __hash__(self):
        return hash(self.a)

    def __abs__(self):
        return abs(self.a)

    def __neg__(self):
        return -self.a

    def __round__(self, digits=None):
        return round(self.a)

    def __floor__(self):
        return math.floor(self.a)

    def __add__(self, value):
        return self.a + value

    __radd__ = __add__

    def __mul__(self, value):
        return self.a * value

    def __eq__(self, value):
        return self.a == value

    def __lt__(self, value):
        return self.a < value

    def __contains__(self, value):
        return self.a == value

    def __iter__(self):
        return iter((self.a, 1))

    def __repr__(self):
        return f"Speaking({self.a})"

    def __format__(self, form):
        return format(self.a, form)

    def __bytes__(self):
        return bytes([abs(int(self.a))])

    def __getattr__(self, name):
        if name == "missing":
            return self.a
        raise AttributeError(name)

    def __enter__(self):
        return self.a

    def __exit__(self, *error):
        return False


class SpeakingOfPair(Speaking):
    """A variant whose number is in a named tuple."""

    def __init__(self, a):
        self.pair = Named(a, 1)

    @property
    def a(self):
        return self.pair[0]


class SpeakingOfDict(Speaking):
    """A variant whose number is in a subclass of dict."""

    def __init__(self, a):
        self.table = Mapped(a=a)

    @property
    def a(self):
        return self.table["a"]


def taking(a=0, b=1, *rest):
    return a * 2 + b


def generated(values):
    yield from values


def delegated(values):
    for value in values:  # noqa: UP028
        yield value


def matched(value):
    match value:
        case [a, _]:
            return a
        case {"a": a}:
            return a
        case Plain(a=a) | Record(a=a):
            return a
    return 5


def matched_three(value):
    match value:
        case [3, _]:
            return 2
        case [a, 1] if a > 3:
            return 4
    return 5


def matched_named(value):
    match value:
        case Named(left, right) | Typed(left, right):
            return left * 2 + right
    return 5


def matched_record(value):
    match value:
        case Record(a, b) | Frozen(a, b) | SlottedRecord(a, b) | OrderedRecord(a, b):
            return a * 2 + b
    return 5


def raised(value):
    raise LookupError(value)


def made_function(held):
    def function(more=held, *, extra=held):
        return held + more + extra

    function.k = held
    return function


def made_lambda(held):
    return lambda: held


def made_generator_function(held):
    def function():
        return sum(held for _ in range(2))

    return function


class Method:
    def __init__(self, a):
        self.a = a

    def ask(self):
        return self.a

    __call__ = ask


class MethodOfPair(Method):
    def __init__(self, a):
        self.pair = Named(a, 1)

    def ask(self):
        return self.pair[0]

    @property
    def a(self):
        return self.pair[0]


class Whole(int):
    pass


class Real(float):
    pass


def fresh_module(n):
    module = types.ModuleType("fresh")
    module.a, module.b = n, 1
    return module


def same(value):
    return value
