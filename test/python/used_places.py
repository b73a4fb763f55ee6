"""Small programs that use existing objects, one for each kind of place: tests remove guards from them."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
from collections.abc import Callable
from typing import Any

import torch

X = torch.ones(3)
Pair = collections.namedtuple("Pair", "left right")


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Box:
    """Has everything that a user's object may have: attributes, a property, methods of all kinds, special methods."""

    scale = 3

    def __init__(self, n: int) -> None:
        self.n = n

    def times(self, x: Any) -> Any:
        return x * self.n

    @property
    def double(self) -> int:
        return self.n * 2

    @classmethod
    def named(cls, x: Any) -> Any:
        return x * cls.scale

    def __len__(self) -> int:
        return 4

    def __eq__(self, other: Any) -> bool:
        return bool(self.n == other.n)

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        return x - self.n


class Inherits(Box):
    def times(self, x: Any) -> Any:
        return super().times(x) + 1


class Slotted:
    __slots__ = ("n",)

    def __init__(self, n: int) -> None:
        self.n = n


class Makes:
    """Has attributes that its class creates."""

    def __getattr__(self, name: str) -> int:
        return len(name)


@dataclasses.dataclass
class Data:
    n: int
    m: float = 2.5


class Listed(list):  # type: ignore[type-arg]
    """A user's subclass of list."""


class Mapped(dict):  # type: ignore[type-arg]
    """A user's subclass of dict."""


class Net(torch.nn.Module):
    """Parameters, a buffer, a number and a module within."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.n = 2
        self.register_buffer("shift", torch.ones(3))

    def forward(self, x: Any) -> Any:
        y = self.linear(x) * self.n + self.shift
        return y if self.training else y + 1


NUMBER = 5
NUMBERS = [1, 2]
BOX = Box(2)
WRITTEN = 0


def helper(x: Any, n: int = 2, *, k: int = 3) -> Any:
    return x * n + k


def adds(n: int) -> Callable[[Any], Any]:
    return lambda x: x + n


ADDS = adds(7)


def tries(x: Any, d: Any) -> Any:
    try:
        return x * d["missing"]
    except KeyError:
        return x


def loops(x: Any, items: Any) -> Any:
    for item in items:
        x = x + item
    return x


def loops_over_pairs(x: Any, d: Any) -> Any:
    for key, value in d.items():
        x = x + value if key != "z" else x
    return x


def unpacks(x: Any, items: Any) -> Any:
    first, second = items
    return x * first + second


def unpacks_the_rest(x: Any, items: Any) -> Any:
    first, *rest = items
    return x * first + len(rest)


def writes_an_attribute(x: Any, box: Any) -> Any:
    box.count = box.n + 1
    return x + 1


def appends(x: Any, items: Any) -> Any:
    items.append(3)
    return x + 1


def puts(x: Any, d: Any, key: Any, n: Any) -> Any:
    d[key] = (n, key)
    return x


def writes_a_global(x: Any) -> Any:
    global WRITTEN
    WRITTEN = NUMBER
    return x


def raises(x: Any, n: Any) -> Any:
    try:
        if n:
            raise ValueError(n)
    except ValueError as error:
        return x * error.args[0]


def matches(x: Any, subject: Any) -> Any:
    match subject:
        case {"a": n}:
            return x * n
        case [first, second]:
            return x * first + second
        case Box(n=3):
            return x
    return x - 1


def closes_over(x: Any, n: Any) -> Any:
    def later() -> Any:
        return x * n

    return later


def loops_over_a_set(x: Any, items: Any) -> Any:
    for item in items:
        x = x * 2 + item
    return x


# Each use of an object: the program, and its arguments after a tensor.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a number": (lambda x, n: x * n, (3,)),
    "a float": (lambda x, n: x * n, (3.5,)),
    "a bool": (lambda x, b: x + 1 if b else x, (True,)),
    "None": (lambda x, n: x if n is None else x * n, (None,)),
    "a text": (lambda x, s: x + (s.upper() == "AB"), ("ab",)),
    "a comparison": (lambda x, a, b: x + 1 if a < b else x, (1, 2)),
    "a text in words": (lambda x, n: x + len(f"{n:>5}"), (3,)),
    "a hash": (lambda x, v: x + hash(v) % 7, ((1, 2),)),
    "a type": (lambda x, v: x + (type(v) is int), (3,)),
    "a class of two": (lambda x, v: x + 1 if isinstance(v, (int, Box)) else x, (Box(1),)),
    "a range": (loops, (range(3),)),
    "a slice": (lambda x, s: x[s], (slice(0, 2),)),
    "a size": (lambda x, s: x.reshape(s), (torch.Size([3, 1]),)),
    "a dtype": (lambda x, d: x.to(d), (torch.float64,)),
    "metadata": (lambda x: x * x.shape[0] + x.dim() if x.is_contiguous() else x, ()),
    "items of a tuple": (unpacks, ((1, 2),)),
    "items of a list": (unpacks, ([1, 2],)),
    "items of a named tuple": (unpacks, (Pair(1, 2),)),
    "the rest of a list": (unpacks_the_rest, ([1, 2, 3],)),
    "spread arguments": (lambda x, v: helper(x, *v), ((4,),)),
    "spread keywords": (lambda x, v: helper(x, **v), ({"n": 4},)),
    "the end of a list": (loops, ([1, 2],)),
    "the end of a user's list": (loops, (Listed([1, 2]),)),
    "the end of a deque": (loops, (collections.deque([1, 2]),)),
    "pairs of a dict": (loops_over_pairs, ({"a": 1, "b": 2},)),
    "pairs of a user's dict": (loops_over_pairs, (Mapped(a=1),)),
    "pairs of a counter": (loops_over_pairs, (collections.Counter("ab"),)),
    "keys and values": (lambda x, d: x + len(list(d.keys())) + sum(d.values()), ({"a": 1},)),
    "a key that is not there": (tries, ({"a": 1},)),
    "a default for a key": (lambda x, d: x * d.get("a", 1) + d.get("q", 2), ({"a": 1},)),
    "what is in a list": (lambda x, v, n: x + (n in v), ([1, 2], 2)),
    "what is in a set": (lambda x, v, n: x + (n in v), ({1, 2}, 2)),
    "what is in a dict": (lambda x, v, n: x + (n in v), ({1: 2}, 1)),
    "elements of a set": (loops_over_a_set, ({1, 2},)),
    "a length": (lambda x, v: x + len(v), ([3, 1],)),
    "how many keys": (lambda x, v: x + len(v), ({"a": 1},)),
    "what is sorted": (lambda x, v: x * sorted(v)[0], ([3, 1],)),
    "equal lists": (lambda x, a, b: x + (a == b), ([1], [1])),
    "tensors in a list": (lambda x, v: torch.stack(v).sum(0) + x, ([torch.ones(3), torch.zeros(3)],)),
    "a tensor in a dict": (lambda x, d: x + d["w"], ({"w": torch.ones(3)},)),
    "nested": (lambda x, v: x * v["a"][0].n, ({"a": [Box(2)]},)),
    "an attribute": (lambda x, b: x * b.n, (Box(3),)),
    "a class attribute": (lambda x, b: x * b.scale, (Box(3),)),
    "a method": (lambda x, b: b.times(x), (Box(3),)),
    "a method beyond": (lambda x, b: b.times(x), (Inherits(3),)),
    "a property": (lambda x, b: x * b.double, (Box(3),)),
    "a class method": (lambda x, b: b.named(x), (Box(3),)),
    "a special": (lambda x, b: x * len(b), (Box(3),)),
    "equality of a user's": (lambda x, a, b: x + (a == b), (Box(3), Box(3))),
    "an object that is called": (lambda x, b: b(x), (Box(3),)),
    "a slot": (lambda x, b: x * b.n, (Slotted(3),)),
    "an attribute that is made": (lambda x, b: x * b.abc, (Makes(),)),
    "an attribute that is missing": (lambda x, b: x + 1 if hasattr(b, "other") else x, (Data(1),)),
    "a data class": (lambda x, b: x * b.n + b.m, (Data(3),)),
    "a member of an enumeration": (lambda x, c: x + (c is Color.RED), (Color.RED,)),
    "its value": (lambda x, c: x * c.value, (Color.RED,)),
    "a global": (lambda x: x * NUMBER, ()),
    "an item of a global": (lambda x: x * NUMBERS[1], ()),
    "an attribute of a global": (lambda x: x * BOX.n, ()),
    "defaults": (lambda x: helper(x), ()),
    "a cell": (lambda x: ADDS(x), ()),
    "a cell of its own": (adds(3), ()),
    "a function as argument": (lambda x, f: f(x), (helper,)),
    "a partial": (lambda x, f: f(x), (functools.partial(helper, n=4),)),
    "a bound method": (lambda x, f: f(x), (Box(2).times,)),
    "a class as argument": (lambda x, c: x * c.scale, (Box,)),
    "an object that it makes": (lambda x: x * Box(2).n, ()),
    "torch's Python": (lambda x: torch.nn.functional.relu(x), ()),
    "a module": (lambda x, m: m(x), (Net(),)),
    "a pattern": (matches, ({"a": 2},)),
    "a pattern of a class": (matches, (Box(3),)),
    "an attribute that is written": (writes_an_attribute, (Box(1),)),
    "a list that is filled": (appends, ([1],)),
    "a key and a value that are put": (puts, ({}, "k", 4)),
    "a global that is written": (writes_a_global, ()),
    "an exception": (raises, (3,)),
    "results": (lambda x, n, v: (x, n, [n], {"k": v}), (3, [1])),
    "a function that is returned": (closes_over, (3,)),
}
