"""Reads by C code from an existing object decide what a call computes, so they are guarded or the call runs plain.

For each kind of object: its methods, its attributes and the language's operations on it. Two differing objects of a
kind go through one compiled function, then the first one again after a change. A method may also have been taken from
its object beforehand: `counts = names.count`.
"""

# The old ways to format are among the tested ones.
# ruff: noqa: UP031

import collections
import copy
import datetime
import decimal
import enum
import fractions
import functools
import itertools
import operator
import pathlib
import re
import types
import uuid
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import dynamlir
import numpy as np
import pytest
import sampled
import torch

X = torch.arange(1.0, 4.0)


class Tuple(tuple):
    pass


class List(list):
    pass


class Dict(dict):
    pass


class Set(set):
    pass


class FrozenSet(frozenset):
    pass


class Ordered(collections.OrderedDict):
    pass


class Default(collections.defaultdict):
    pass


class Queue(collections.deque):
    pass


class Integer(int):
    pass


class Real(float):
    pass


class Complex(complex):
    pass


class Text(str):
    __slots__ = ()


class Bytes(bytes):
    pass


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Flags(enum.Flag):
    A = 1
    B = 2


Point = collections.namedtuple("Point", "a b")


def doubled(a: int, b: int = 2) -> int:
    return a * b


def tripled(a: int, b: int = 3) -> int:
    return a * b


# Kinds of objects by name: two factories of differing objects, and a change to the first object.
Make = Callable[[], Any]
Change = Callable[[Any], object]
KINDS: dict[str, tuple[Make, Make, Change | None]] = {
    "list": (lambda: [1, 2], lambda: [2, 1, 1], lambda v: v.append(1)),
    "tuple": (lambda: (1, 2), lambda: (2, 1, 1), None),
    "dict": (lambda: {1: 2}, lambda: {2: 1, 3: 4}, lambda v: v.update({1: 5, 7: 8})),
    "set": (lambda: {1}, lambda: {2, 3}, lambda v: v.update({4, 1})),
    "frozenset": (lambda: frozenset([1]), lambda: frozenset([2, 3]), None),
    "Tuple": (lambda: Tuple([1, 2]), lambda: Tuple([2, 1, 1]), None),
    "List": (lambda: List([1, 2]), lambda: List([2, 1, 1]), lambda v: v.append(1)),
    "Dict": (lambda: Dict({1: 2}), lambda: Dict({2: 1, 3: 4}), lambda v: v.update({1: 5, 7: 8})),
    "Set": (lambda: Set([1]), lambda: Set([2, 3]), lambda v: v.update({4, 1})),
    "FrozenSet": (lambda: FrozenSet([1]), lambda: FrozenSet([2, 3]), None),
    "OrderedDict": (
        lambda: collections.OrderedDict({1: 2}),
        lambda: collections.OrderedDict({2: 1, 3: 4}),
        lambda v: v.update({1: 5, 7: 8}),
    ),
    "Ordered": (lambda: Ordered({1: 2}), lambda: Ordered({2: 1, 3: 4}), lambda v: v.update({1: 5, 7: 8})),
    "defaultdict": (
        lambda: collections.defaultdict(int, {1: 2}),
        lambda: collections.defaultdict(list, {2: 1, 3: 4}),
        lambda v: setattr(v, "default_factory", None),
    ),
    "Default": (
        lambda: Default(int, {1: 2}),
        lambda: Default(list, {2: 1, 3: 4}),
        lambda v: setattr(v, "default_factory", None),
    ),
    "Counter": (
        lambda: collections.Counter([1, 1]),
        lambda: collections.Counter([2, 3, 3]),
        lambda v: v.update([1, 7]),
    ),
    "ChainMap": (
        lambda: collections.ChainMap({1: 2}),
        lambda: collections.ChainMap({2: 1}, {3: 4}),
        lambda v: v.update({1: 5, 7: 8}),
    ),
    "UserDict": (
        lambda: collections.UserDict({1: 2}),
        lambda: collections.UserDict({2: 1}),
        lambda v: v.update({1: 5, 7: 8}),
    ),
    "deque": (lambda: collections.deque([1, 2]), lambda: collections.deque([2, 1, 1]), lambda v: v.append(1)),
    "Queue": (lambda: Queue([1, 2]), lambda: Queue([2, 1, 1]), lambda v: v.append(1)),
    "keys": (lambda: {1: 2}.keys(), lambda: {2: 1, 3: 4}.keys(), None),
    "values": (lambda: {1: 2}.values(), lambda: {2: 1, 3: 4}.values(), None),
    "items": (lambda: {1: 2}.items(), lambda: {2: 1, 3: 4}.items(), None),
    "mappingproxy": (lambda: types.MappingProxyType({1: 2}), lambda: types.MappingProxyType({2: 1, 3: 4}), None),
    "bytearray": (lambda: bytearray(b"ab"), lambda: bytearray(b"bca"), lambda v: v.extend(b"d")),
    "memoryview": (lambda: memoryview(b"ab"), lambda: memoryview(b"bca"), None),
    "range": (lambda: range(3), lambda: range(1, 9, 2), None),
    "slice": (lambda: slice(1), lambda: slice(0, 5, 2), None),
    "str": (lambda: "ab", lambda: "Bca", None),
    "bytes": (lambda: b"ab", lambda: b"Bca", None),
    "int": (lambda: 3, lambda: 1000, None),
    "float": (lambda: 3.0, lambda: 0.5, None),
    "complex": (lambda: 3j, lambda: 1 + 1j, None),
    "Text": (lambda: Text("ab"), lambda: Text("Bca"), None),
    "Bytes": (lambda: Bytes(b"ab"), lambda: Bytes(b"Bca"), None),
    "Integer": (lambda: Integer(3), lambda: Integer(1000), None),
    "Real": (lambda: Real(3), lambda: Real(0.5), None),
    "Complex": (lambda: Complex(3j), lambda: Complex(1 + 1j), None),
    "Enum": (lambda: Color.RED, lambda: Color.GREEN, None),
    "IntEnum": (lambda: Level.LOW, lambda: Level.HIGH, None),
    "Flag": (lambda: Flags.A, lambda: Flags.A | Flags.B, None),
    "namedtuple": (lambda: Point(1, 2), lambda: Point(2, 1), None),
    "SimpleNamespace": (
        lambda: types.SimpleNamespace(a=1),
        lambda: types.SimpleNamespace(a=12),
        lambda v: setattr(v, "a", 3),
    ),
    "Pattern": (lambda: re.compile("a"), lambda: re.compile("b+"), None),
    "Match": (lambda: re.match("a", "ab"), lambda: re.match("(b)(c)", "bca"), None),
    "date": (lambda: datetime.date(2000, 1, 1), lambda: datetime.date(2001, 2, 3), None),
    "datetime": (lambda: datetime.datetime(2000, 1, 1), lambda: datetime.datetime(2001, 2, 3, 4), None),
    "timedelta": (lambda: datetime.timedelta(1), lambda: datetime.timedelta(2, 3), None),
    "Decimal": (lambda: decimal.Decimal(1), lambda: decimal.Decimal("2.5"), None),
    "Fraction": (lambda: fractions.Fraction(1), lambda: fractions.Fraction(2, 3), None),
    "Path": (lambda: pathlib.PurePosixPath("/a/b"), lambda: pathlib.PurePosixPath("c/dd.e"), None),
    "UUID": (lambda: uuid.UUID(int=1), lambda: uuid.UUID(int=1 << 70 | 2), None),
    "partial": (
        lambda: functools.partial(doubled, 1),
        lambda: functools.partial(tripled, 1, b=7),
        lambda v: v.keywords.update(b=11),
    ),
    "itemgetter": (lambda: operator.itemgetter(0), lambda: operator.itemgetter(1), None),
    "itemgetter of two": (lambda: operator.itemgetter(0, 1), lambda: operator.itemgetter(slice(2)), None),
    "attrgetter": (lambda: operator.attrgetter("real"), lambda: operator.attrgetter("imag"), None),
    "methodcaller": (lambda: operator.methodcaller("count", 1), lambda: operator.methodcaller("index", 2), None),
    "exception": (lambda: ValueError(1), lambda: ValueError(1, 23), lambda v: setattr(v, "args", (4, 5, 6))),
    "function": (lambda: copy.copy(doubled), lambda: tripled, None),
    "method": (lambda: Point(1, 2)._asdict, lambda: Point(2, 1)._asdict, None),
    "C function": (lambda: abs, lambda: len, None),
    "function of pybind11": (lambda: torch._C._is_tracing, lambda: torch._C._get_nnpack_enabled, None),
    "ufunc": (lambda: np.sqrt, lambda: np.square, None),
    "numpy function": (lambda: np.max, lambda: np.min, None),
    "numpy scalar": (lambda: np.float32(2), lambda: np.float32(3), None),
    "ndarray": (lambda: np.array([1.0, 2.0]), lambda: np.array([2.0, 1.0, 1.0]), lambda v: v.fill(7)),
    "property": (lambda: property(doubled), lambda: property(tripled), None),
    "classmethod": (lambda: classmethod(doubled), lambda: classmethod(tripled), None),
    "Size": (lambda: torch.Size([1, 2]), lambda: torch.Size([2, 1, 1]), None),
    "dtype": (lambda: torch.float32, lambda: torch.int64, None),
    "device": (lambda: torch.device("cpu"), lambda: torch.device("meta"), None),
    "finfo": (lambda: torch.finfo(torch.float32), lambda: torch.finfo(torch.float64), None),
    "class": (lambda: Tuple, lambda: List, None),
    "module": (lambda: operator, lambda: re, None),
    "generic alias": (lambda: list[int], lambda: dict[str, int], None),
    "iterator": (lambda: iter([1, 2]), lambda: iter([2, 1, 1]), None),
    "zip": (lambda: zip([1, 2], [3, 4]), lambda: zip([2], [1]), None),
    "generator": (lambda: (i for i in range(2)), lambda: (i for i in range(3, 9)), None),
    "object": (object, object, None),
}

# Operations of the language and its builtins on a value.
USES: dict[str, Callable[[Any], Any]] = {
    "str": str,
    "repr": lambda v: repr(v),
    "format": lambda v: f"{v}",
    "percent": lambda v: "%s" % (v,),
    "bool": lambda v: 1 if v else 2,
    "not": lambda v: not v,
    "len": lambda v: len(v),
    "list": lambda v: list(v),
    "tuple": lambda v: tuple(v),
    "dict": lambda v: dict(v),
    "set": lambda v: sorted(set(v)),
    "sorted": lambda v: sorted(v),
    "reversed": lambda v: list(reversed(v)),
    "sum": lambda v: sum(v),
    "max": lambda v: max(v),
    "any": lambda v: any(v),
    "enumerate": lambda v: [i * 2 for i, _ in enumerate(v)],
    "for": lambda v: [item for item in v],
    "unpack": lambda v: (lambda *items: items)(*v),
    "keywords": lambda v: (lambda **items: items)(**{str(key): value for key, value in v.items()}),
    "star": lambda v: [0, *v],
    "in": lambda v: 1 in v,
    "first": lambda v: v[0],
    "second": lambda v: v[1],
    "last": lambda v: v[-1],
    "slice": lambda v: v[:2],
    "equal": lambda v: v == [1, 2],
    "equal to itself": lambda v: v == v,
    "less": lambda v: v < (2,),
    "add": lambda v: v + v,
    "add one": lambda v: v + 1,
    "times": lambda v: v * 2,
    "or": lambda v: v | v,
    "and": lambda v: v & v,
    "negative": lambda v: -v,
    "abs": abs,
    "int": lambda v: int(v),
    "float": lambda v: float(v),
    "complex": lambda v: complex(v),
    "bytes": lambda v: bytes(v),
    "round": lambda v: round(v),
    "index": lambda v: [7, 8, 9, 10][v],
    "hash of value": lambda v: {v: 1}[v],
    "call": lambda v: v(4),
    "call with list": lambda v: v([1, 2, 1]),
    "call with nothing": lambda v: v(),
    "map": lambda v: list(map(v, [4, 9])),
    "key": lambda v: max([(1, 9), (2, 3)], key=v),
    "isinstance": lambda v: isinstance(v, dict),
    "type": lambda v: type(v).__name__,
    "callable": callable,
    "join": lambda v: ",".join(str(item) for item in v),
    "copy": copy.copy,
    "in a list": lambda v: str([v]),
    "in a dict": lambda v: str({1: v}),
    "equal in a list": lambda v: [v] == [[1, 2]],
    "is one in a list": lambda v: 1 in [v],
    "is one in a tuple": lambda v: [1] in (v, 3),
    "counted in a list": lambda v: [v, 3].count([1, 2]),
    "percent of a list": lambda v: "%s" % [v],
    "percent of a dict": lambda v: "%(a)s" % {"a": v},
    "ascii of a tuple": lambda v: ascii((v,)),
    "text of an exception": lambda v: str(ValueError(v, 1)),
    "grouped": lambda v: [len(list(group)) for _, group in itertools.groupby([v, v, 1])],
    "accumulated": lambda v: list(itertools.accumulate([v, v])),
    "spread by starmap": lambda v: list(itertools.starmap(lambda *items: items, [v])),
    "values of a dict": lambda v: 1 in {0: v}.values(),
    "match": lambda v: _matched(v),
}


def _matched(value: Any) -> Any:
    match value:
        case [first, *rest]:
            return (first, len(rest))
        case {1: item}:
            return item
        case int() | float():
            return value
    return None


# Methods that need an argument are tried with each of these.
ARGUMENTS = [(), (1,), (1, 5), ("a",), ([1],), (b"a",)]
# These change their object, or depend on addresses or on Python's internal state.
LEFT_OUT = set(
    [
        "__hash__",
        "__sizeof__",
        "__dir__",
        "__init__",
        "__new__",
        "__class__",
        "__doc__",
        "__init_subclass__",
        "__subclasshook__",
        "__subclasses__",
        "__dict__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__weakref__",
        "__globals__",
        "__builtins__",
        "__code__",
        "__module__",
        "__annotations__",
        "__setattr__",
        "__delattr__",
        "__annotate__",
        "today",
        "now",
        "utcnow",
        "uuid1",
        "__array_interface__",
        "__array_struct__",
        "ctypes",
        "data",
        "tobytes",
        "getfield",
        "dump",
        "dumps",
        "tofile",
        "__loader__",
        "__spec__",
        "__cached__",
        "__file__",
        "template",
        "_cache",
        "_cache2",
        "Scanner",
        "__text_signature__",
        "is_dir",
        "_parser",
        "_flavour",
        "__all__",
        "scanner",
        "fromhex",
        "release",
    ]
)


def text(value: object) -> str:
    """A value as comparable text, without addresses."""
    if isinstance(value, torch.Tensor):
        return str(value.tolist())
    if isinstance(
        value, (list, tuple, set, frozenset, dict, collections.deque, str, bytes, int, float, complex, bytearray)
    ):
        return f"{type(value).__name__} {re.sub(r'0x[0-9a-f]+', '', repr(value))}"
    if isinstance(value, Iterable) and not hasattr(value, "__len__"):
        return type(value).__name__
    return f"{type(value).__name__} {re.sub(r' at 0x[0-9a-f]+', '', repr(value))}"


def answer(function: Callable[..., Any], *args: Any) -> str:
    try:
        value, number = function(X, *args)
    except Exception as error:  # Any exception of plain Python is right.
        return f"raises {type(error).__name__}"
    return f"{text(value)} {number.tolist()}"


def program(use: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function whose graph is the same for every value: only guards can tell the calls apart."""
    return lambda x, value: (use(value), x + 1)


def agree(use: Callable[[Any], Any], kind: str, taken: str | None = None) -> list[str]:
    """The failures of this use with two objects of a kind, called in turn and repeated after a change."""
    first, second, change = KINDS[kind]
    wrong = []
    compiled = dynamlir.compile(program(use))

    def given(make: Make) -> list[Any]:
        return [make(), make()]

    def method(value: Any) -> Any:
        return value if taken is None else getattr(value, taken)

    pairs = [given(first), given(second), given(first)]
    for ours, theirs in pairs:
        expected = answer(program(use), method(theirs))
        seen = answer(compiled, method(ours))
        if expected != seen:
            wrong.append(f"{kind}: {seen}, not {expected}")
    if change is not None:
        ours, theirs = given(first)
        taken_from = method(ours), method(theirs)
        answer(compiled, taken_from[0])
        answer(program(use), taken_from[1])
        change(ours)
        change(theirs)
        if (expected := answer(program(use), taken_from[1])) != (seen := answer(compiled, taken_from[0])):
            wrong.append(f"{kind}, changed: {seen}, not {expected}")
    return wrong


@pytest.fixture(autouse=True)
def quiet():
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("kind", sampled.one_in(4, KINDS))
def test_what_the_language_does_with_it(kind):
    wrong = [f"{name}: {line}" for name, use in USES.items() for line in agree(use, kind)]
    assert not wrong, "\n".join(wrong)


def members(kind: str) -> list[str]:
    first, second, _ = KINDS[kind]
    return [name for name in dir(first()) if name not in LEFT_OUT and has(first(), name) and has(second(), name)]


def has(value: object, name: str) -> bool:
    try:
        getattr(value, name)
    except Exception:  # For example, an attribute that a subclass removes.
        return False
    return True


@pytest.mark.whole
@pytest.mark.parametrize("kind", sampled.one_in(8, KINDS))
def test_its_attributes_and_methods(kind):
    wrong = []
    for name in members(kind):
        use = operator.attrgetter(name)
        if not callable(getattr(KINDS[kind][0](), name)):
            wrong += [f"{name}: {line}" for line in agree(lambda v, use=use: use(v), kind)]
            continue
        for args in ARGUMENTS:
            scope = {}
            exec(f"def call(v): return v.{name}(*{args!r})", scope)
            try:
                result = scope["call"](KINDS[kind][0]())
            except Exception:
                continue
            del result
            wrong += [f"{name}{args}: {line}" for line in agree(scope["call"], kind)]
            wrong += [f"{name}{args} taken before: {line}" for line in agree(lambda m, args=args: m(*args), kind, name)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("use", ["str", "list", "first", "sum", "in", "equal", "unpack", "copy"])
@pytest.mark.parametrize("kind", ["list", "tuple", "Tuple", "List", "namedtuple", "Size"])
def test_such_uses_are_captured(kind, use):
    """The tests above would also pass if everything ran plain."""
    compiled = dynamlir.compile(program(USES[use]))
    compiled(X, KINDS[kind][0]())
    assert len(compiled._cache) == 1


@pytest.mark.parametrize(
    ("kind", "name", "args"),
    [
        ("list", "count", (1,)),
        ("dict", "get", (1,)),
        ("set", "issubset", ([1],)),
        ("str", "upper", ()),
        ("Real", "is_integer", ()),
        ("List", "count", (1,)),
        ("Dict", "get", (1,)),
        ("Set", "issubset", ([1],)),
        ("Pattern", "match", ("a",)),
        ("range", "count", (1,)),
        ("itemgetter", "__call__", ([1, 2],)),
        ("partial", "__call__", (3,)),
        ("ufunc", "__call__", (4.0,)),
    ],
)
@pytest.mark.parametrize("before", [False, True], ids=["method", "taken before"])
def test_such_methods_are_captured(kind, name, args, before):
    held = KINDS[kind][0]()
    compiled = dynamlir.compile(program(lambda v: v(*args) if before else getattr(v, name)(*args)))
    compiled(X, getattr(held, name) if before else held)
    assert len(compiled._cache) == 1, dynamlir.counters()["fallbacks"]
