"""The effect table: its claims about each C function that a capture calls, checked against the function's behaviour.

Every function of the table is called with arguments that observe it – numbers, sequences, keys, functions – in all
combinations of a few. The methods that it calls, the changes that it makes and the references that it keeps must match
the table.
"""

from __future__ import annotations

import array
import collections
import copy
import functools
import importlib
import itertools
import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import dynamlir
import pytest
import torch
from dynamlir import native

LOG: list[str] = []


class Claim(NamedTuple):
    module: str
    name: str
    effect: str
    reads: str
    writes: str
    specials: list[str]
    functions: bool
    keeps: str


def rows() -> list[Claim]:
    return [Claim(*row) for row in native.module().effect_claims()]


# -- arguments that observe

ANSWERS: dict[str, Any] = {
    "__abs__": 2.0,
    "__add__": 4.0,
    "__radd__": 4.0,
    "__mul__": 4.0,
    "__rmul__": 4.0,
    "__bool__": True,
    "__bytes__": b"two",
    "__call__": 2,
    "__ceil__": 2,
    "__complex__": 2j,
    "__divmod__": (1, 0),
    "__rdivmod__": (1, 0),
    "__eq__": True,
    "__float__": 2.0,
    "__floor__": 2,
    "__format__": "two",
    "__ge__": True,
    "__getitem__": 2,
    "__gt__": False,
    "__hash__": 2,
    "__index__": 2,
    "__int__": 2,
    "__le__": True,
    "__length_hint__": 2,
    "__lt__": False,
    "__pow__": 4,
    "__rpow__": 4,
    "__repr__": "two",
    "__round__": 2,
    "__str__": "two",
    "__trunc__": 2,
    "__contains__": True,
    "__getattr__": 2,
    "__del__": None,
    "__copy__": 2,
    "__deepcopy__": 2,
    "__fspath__": "two",
    "__set_name__": None,
    "__get__": 2,
    "__sizeof__": 2,
    "__reduce_ex__": (int, (2,)),
    "__instancecheck__": True,
    "__missing__": 2,
}


def watched(name: str, *specials: str, **more: Callable[..., Any]) -> Any:
    """An object whose special methods log their calls."""

    def method(special: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any) -> Any:
            LOG.append(special)
            return ANSWERS[special]

        return call

    return type(name, (), {special: method(special) for special in specials} | more)()


class Sequence:
    """Two elements, accessible in every way."""

    def __init__(self) -> None:
        self.elements: list[Any] = [WHOLE, WHOLE]

    def __iter__(self) -> Iterator[Any]:
        LOG.append("__iter__")
        return Steps(self.elements)

    def __reversed__(self) -> Iterator[Any]:
        LOG.append("__reversed__")
        return Steps(self.elements[::-1])

    def __len__(self) -> int:
        LOG.append("__len__")
        return 2

    def __getitem__(self, key: Any) -> Any:
        LOG.append("__getitem__")
        return self.elements[key] if isinstance(key, int) else self

    def keys(self) -> Iterator[Any]:
        LOG.append("keys")
        return Steps([0, 1])


class Steps:
    def __init__(self, elements: Iterable[Any]) -> None:
        self.rest = list(elements)

    def __iter__(self) -> Iterator[Any]:
        LOG.append("__iter__")
        return self

    def __next__(self) -> Any:
        LOG.append("__next__")
        if not self.rest:
            raise StopIteration
        return self.rest.pop(0)


def function(*args: Any) -> Any:
    LOG.append("function")
    return args[0] if args else 2


NUMBER = (
    *("abs", "bool", "ceil", "complex", "divmod", "rdivmod", "float", "floor", "index", "int", "pow", "rpow", "round"),
    *("trunc", "add", "radd", "mul", "rmul"),
)
OBJECT = (
    *("repr", "str", "format", "bytes", "hash", "eq", "lt", "le", "gt", "ge", "length_hint", "contains", "copy"),
    *("deepcopy", "fspath", "sizeof", "reduce_ex"),
)
WHOLE = watched("Whole", *(f"__{name}__" for name in NUMBER + OBJECT))
REAL = watched("Real", "__float__", "__hash__", "__eq__", "__lt__")
OBJECTS: list[Callable[[], Any]] = [
    lambda: WHOLE,
    lambda: REAL,
    Sequence,
    lambda: Steps([WHOLE, WHOLE]),
    lambda: [WHOLE, WHOLE],
    lambda: {"a": WHOLE},
    lambda: function,
    lambda: "a",
    lambda: 2,
    lambda: 0.5,
    lambda: torch.float32,
]

# Functions that act on the process instead of their arguments; and those that never end or need a frame.
UNCALLED = {"builtins.super", "builtins.__build_class__"}
ENDLESS = {"count", "cycle", "repeat"}


def resolve(claim: Claim) -> Any:
    try:
        return getattr(importlib.import_module(claim.module), claim.name, None)
    except ImportError:
        return None


def consume(result: Any) -> None:
    """Consumes all of a lazy result."""
    if isinstance(result, Iterator):
        for value in itertools.islice(result, 5):
            if isinstance(value, itertools.groupby | Iterator) and value is not result:
                list(itertools.islice(value, 3))


def contents(value: Any) -> Any:
    """The contents of an argument, by identity, except the remaining items of iterators."""
    if isinstance(value, Steps):
        return None
    if isinstance(value, Sequence):
        return [id(element) for element in value.elements], sorted(vars(value))
    if isinstance(value, list | dict):
        return list(map(id, value)), len(value)
    return sorted(getattr(value, "__dict__", ()))


class Seen(NamedTuple):
    called: set[str]
    changed: bool
    kept: bool


def references(objects: list[Any]) -> list[int]:
    """The reference counts, read by the same instructions each time, some of which do not count a reference."""
    return [sys.getrefcount(one) for one in objects]


def watch(callable_: Any, makers: tuple[Callable[[], Any], ...]) -> Seen | None:
    """The observations of a call; None if it raised."""
    arguments = [make() for make in makers]
    before = [contents(argument) for argument in arguments]
    counts = references(arguments)
    LOG.clear()
    try:
        result = callable_(*arguments)
        consume(result)
    except (TypeError, ValueError, OverflowError, RuntimeError, AttributeError, ArithmeticError, LookupError):
        return None
    called = set(LOG)
    changed = before != [contents(argument) for argument in arguments]
    del result
    kept = any(now > then for now, then in zip(references(arguments), counts, strict=True))
    return Seen(called, changed, kept)


FUNCTIONS = [row for row in rows() if "." not in row.name]


@pytest.mark.parametrize("claim", FUNCTIONS, ids=lambda row: f"{row.module}.{row.name}")
def test_claims_hold(claim: Claim) -> None:
    callable_ = resolve(claim)
    if callable_ is None or f"{claim.module}.{claim.name}" in UNCALLED or claim.effect in ("SetsState", "MutatesFirst"):
        pytest.skip("absent here, or tried below")
    allowed = {*claim.specials, *(["function"] if claim.functions else [])}
    calls = 0
    for count in range(4 if claim.name not in ENDLESS else 2):
        for makers in (
            itertools.product(OBJECTS, repeat=count) if count < 3 else zip(OBJECTS, OBJECTS, OBJECTS, strict=True)
        ):
            seen = watch(callable_, makers)
            if seen is None:
                continue
            calls += 1
            told = [make().__class__.__name__ for make in makers]
            if claim.effect in ("Pure", "Asked", "ReadsState"):
                assert seen.called <= allowed, f"{told}: calls {seen.called - allowed}"
            assert not seen.changed, f"{told}: changes them"
            assert not seen.kept, f"{told}: they are kept after the result is gone"
    assert calls or claim.module.startswith("torch") or claim.name in NEED_MORE, "none of the arguments suits it"


NEED_MORE = {
    "_abc_init",
    "comb",
    "ldexp",
    "perm",
    "MethodType",
    "FunctionType",
    "fspath",
    "ref",
    "factorial",
    "nextafter",
}


EXAMPLES: dict[str, Callable[[], Any]] = {
    "list": lambda: [2, 1],
    "dict": lambda: {2: 1, 1: 2},
    "set": lambda: {1, 2},
    "bytearray": lambda: bytearray(b"ba"),
    "OrderedDict": lambda: collections.OrderedDict({2: 1, 1: 2}),
    "defaultdict": lambda: collections.defaultdict(int, {2: 1, 1: 2}),
    "deque": lambda: collections.deque([2, 1]),
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1),
    "tuple": lambda: (2, 1),
    "frozenset": lambda: frozenset({1, 2}),
    "str": lambda: "ab",
    "bytes": lambda: b"ab",
    "int": lambda: 2,
    "float": lambda: 2.0,
    "complex": lambda: 2j,
    "slice": lambda: slice(2),
    "range": lambda: range(2),
    "BaseException": lambda: ValueError(2),
    "MappingProxyType": lambda: types.MappingProxyType({2: 1}),
    "partial": lambda: functools.partial(int, 2),
    "Size": lambda: torch.Size([2, 1]),
    "dtype": lambda: torch.float32,
    "device": lambda: torch.device("cpu"),
}
"""An example of each class in the table whose instances could change."""
GIVEN: list[Any] = [
    [5, 6],
    {5: 6},
    {"a": 5},
    {1},
    1,
    0,
    5,
    2,
    "a",
    b"a",
    (7,),
    slice(0, 1),
    (int, (3,), {}, None),
    (9,),
]
INHERITED = (
    "__setattr__",
    "__delattr__",
    "__getattribute__",
    "__class__",
    "__init_subclass__",
    "__subclasshook__",
    "__new__",
)


def shown(value: Any) -> Any:
    """Everything visible of an example, except the order of sets."""
    attributes = dict(getattr(value, "__dict__", {}), notes=getattr(value, "__notes__", None))
    return repr(value), attributes, getattr(value, "__traceback__", None)


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_changes_an_object_is_told(name: str) -> None:
    """Checks that the table lists each method that changes an example of a class, for the class or one of its bases."""
    classes = {row.name.partition(".")[0] for row in rows() if row.name.endswith(".*")}
    mutators = collections.defaultdict(set)
    for row in rows():
        owner, _, method = row.name.rpartition(".")
        if owner and method != "*":
            assert row.effect == "MutatesFirst" and row.writes == "First" and row.keeps == "First"
            mutators[owner].add(method)
    assert name in classes
    bases = [base.__name__ for base in type(EXAMPLES[name]()).__mro__]
    told = set().union(*(mutators[base] for base in bases))
    if name == "defaultdict":  # listed for all dicts; see below
        told.add("__getitem__")
    found = set()
    for method in dir(type(EXAMPLES[name]())):
        if method in INHERITED:
            continue
        for count in range(3):
            for given in itertools.product(GIVEN, repeat=count):
                example = EXAMPLES[name]()
                before = shown(example)
                try:
                    result = getattr(type(example), method)(example, *copy.deepcopy(given))
                    consume(result)
                except BaseException:  # wrong arguments may raise anything; the table must cover earlier effects
                    pass
                if shown(example) != before:
                    found.add(method)
    assert found <= told, f"not told: {found - told}"


class Defaults(collections.defaultdict[str, int]):
    """A subclass, and therefore not one of Python's own containers."""


@pytest.mark.parametrize(
    "text",
    [
        "d['a']",
        "d.__getitem__('a')",
        "dict.__getitem__(d, 'a')",
        "operator.getitem(d, 'a')",
        "operator.itemgetter('a')(d)",
        "operator.itemgetter('a', 'b')(d)",
        "list(map(d.__getitem__, ['a']))",
        "list(map(operator.itemgetter('a'), [d]))",
        "functools.reduce(operator.getitem, [d, 'a'])",
        "'%(a)s' % d",
        "'{0[a]}'.format(d)",
        "'{a}'.format_map(d)",
        "'ab'.translate(d)",
        "'{0[0][a]}'.format([d])",
    ],
)
@pytest.mark.parametrize("kind", [collections.defaultdict, Defaults])
def test_defaults_are_put_where_they_belong(text: str, kind: Any) -> None:
    """A look-up in an existing `defaultdict` writes to it, although none of the functions that look up is a mutator."""
    names = {"d": kind(lambda: 7), "operator": operator, "functools": functools}
    plain = names | {"d": kind(lambda: 7)}
    compiled = dynamlir.compile(eval(f"lambda x: (x + 1, {text})", names))
    with torch.no_grad(), dynamlir.config.patch(on_plain="ignore"):
        for _ in range(3):
            names["d"].clear()
            plain["d"].clear()
            assert compiled(torch.ones(2))[1] == eval(text, plain)
            assert dict(names["d"]) == dict(plain["d"]) != {}
        assert {event.reason for event in dynamlir.fallbacks()} <= {"side-effect", "unguardable", "c-function"}


def test_the_table_names_what_there_is() -> None:
    """A row that names nothing in this Python and torch would hide a misspelling; a few depend on the version."""
    absent = {f"{row.module}.{row.name}" for row in FUNCTIONS if resolve(row) is None}
    assert absent <= ABSENT, absent - ABSENT


SINCE = {"itertools.batched": (3, 12), "builtins.frozendict": (3, 15)}
ABSENT = {"torch._C._functorch.unwrap_if_dead", *(name for name, since in SINCE.items() if sys.version_info < since)}
"""Functions that only other versions have."""


@pytest.mark.whole
def test_what_is_not_in_the_table_ends_the_capture() -> None:
    with torch.no_grad(), dynamlir.config.patch(on_plain="ignore"):
        made = dynamlir.compile(lambda x: x * array.array("i", [2])[0])(torch.ones(2))
    assert made.tolist() == [2.0, 2.0] and [event.reason for event in dynamlir.fallbacks()] == ["c-function"]
