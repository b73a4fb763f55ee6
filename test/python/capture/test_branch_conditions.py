"""Objects that a program only branches on are guarded: the class of a caught exception, the identity of an object, the
subject of a pattern.
"""

from __future__ import annotations

import abc
import collections
import gc
import operator
import types

import dynamlir
import pytest
import torch
from follows import Follows, Settings, X


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


# -- classes


class Problem(Exception):
    """Caught under several names."""


class Mild(Problem):
    """The exception that is raised."""


def fail():
    raise Mild("mild")


CAUGHT: type = Problem
SEVERAL: tuple = (Problem, OSError)
CATALOGUE = types.ModuleType("catalogue")


def catches_name(x):
    try:
        fail()
    except CAUGHT:
        return x * 2
    except Exception:
        return x * 3


def catches_tuple(x):
    try:
        fail()
    except (CAUGHT, OSError):
        return x * 2
    except Exception:
        return x * 3


def catches_existing_tuple(x):
    try:
        fail()
    except SEVERAL:
        return x * 2
    except Exception:
        return x * 3


def catches_attribute(x):
    try:
        fail()
    except CATALOGUE.caught:
        return x * 2
    except Exception:
        return x * 3


def catches_group(x):
    try:
        fail()
    except* CAUGHT:
        x = x * 2
    except* Exception:
        x = x * 3
    return x


def does_not_catch(x):
    try:
        fail()
    except CATALOGUE.other:
        return x * 2
    except Problem:
        return x * 3


def matches_class(x):
    match Mild():
        case CATALOGUE.caught():
            return x * 2
        case _:
            return x * 3


def raises_class(x):
    try:
        raise CATALOGUE.raised
    except Problem:
        return x * 2
    except ValueError:
        return x * 3


@pytest.mark.parametrize(
    "function",
    [
        catches_name,
        catches_tuple,
        catches_existing_tuple,
        catches_attribute,
        catches_group,
        does_not_catch,
        matches_class,
        raises_class,
        lambda x: x * 2 if isinstance(Mild(), (CAUGHT, int)) else x * 3,
        lambda x: x * 2 if isinstance(Mild(), SEVERAL) else x * 3,
        lambda x: x * 2 if issubclass(Mild, (int, (SEVERAL,))) else x * 3,
    ],
)
def test_a_class_that_decides_may_be_another_one(function, monkeypatch):
    CATALOGUE.caught, CATALOGUE.other, CATALOGUE.raised = Problem, ValueError, Mild
    follows = Follows(function)
    assert follows.entries() == 1
    monkeypatch.setitem(globals(), "CAUGHT", ValueError)
    monkeypatch.setitem(globals(), "SEVERAL", (ValueError, OSError))
    CATALOGUE.caught, CATALOGUE.other, CATALOGUE.raised = ValueError, Mild, ValueError
    assert follows.entries() == 2


def test_an_exception_that_existed_before_keeps_its_traceback():
    known = Mild("known")

    def function(x):
        try:
            raise known
        except Problem:
            return x * 2

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X * 2)
    assert [event.reason for event in dynamlir.fallbacks()] == ["side-effect"]
    lines = known.__traceback__
    assert lines.tb_frame.f_code is function.__code__ and lines.tb_next is None


# -- objects that are compared by identity

FIRST, SECOND = Settings(), Settings()
BOTH, TABLE = [FIRST, SECOND], {FIRST: 2, SECOND: 3}


@pytest.mark.parametrize(
    "use",
    [
        lambda x, value: x * (2 if value == FIRST else 3),
        lambda x, value: x * (2 if value != FIRST else 3),
        lambda x, value: x * (2 if (value, 1) == (FIRST, 1) else 3),
        lambda x, value: x * (2 if value in BOTH else 3),
        lambda x, value: x * (2 if value in (FIRST, SECOND) else 3),
        lambda x, value: x * (2 if value in {FIRST, SECOND} else 3),
        lambda x, value: x * (2 if value in TABLE else 3),
        lambda x, value: x * {FIRST: 2, SECOND: 3}.get(value, 4),
        lambda x, value: x * TABLE.get(value, 4),
        lambda x, value: x * len({value, FIRST}),
        lambda x, value: x * len({key: 1 for key in (value, FIRST)}),
        lambda x, value: x * (1 + BOTH.count(value)),
        lambda x, value: x * (1 + [FIRST, SECOND].count(value)),
        lambda x, value: x * (2 if hash(value) == hash(FIRST) else 3),
        lambda x, value: x * (2 if [[[[[value]]]]] == [[[[[FIRST]]]]] else 3),
        lambda x, value: x * (2 if {1: value} == {1: FIRST} else 3),
        lambda x, value: x * (2 if value in {1: FIRST}.values() else 3),
        lambda x, value: x * (2 if value in {FIRST: 1}.keys() | {3} else 3),
        lambda x, value: x * (2 if operator.contains({FIRST: 1}.keys(), value) else 3),
        lambda x, value: x * (2 if (1, value) in {1: FIRST}.items() else 3),
        lambda x, value: x * (2 if value in iter(BOTH) else 3),
        lambda x, value: x * (2 if value in (known for known in BOTH) else 3),
        lambda x, value: x * (2 if Pair(value, 1) == Pair(FIRST, 1) else 3),
        lambda x, value: x * (2 if value.shown == FIRST.shown else 3),
        lambda x, value: x * (2 if collections.deque([value]) == collections.deque([FIRST]) else 3),
        lambda x, value: x * (2 if types.SimpleNamespace(v=value) == types.SimpleNamespace(v=FIRST) else 3),
        lambda x, value: x * len(collections.Counter([value, FIRST])),
    ],
)
def test_which_object_it_is_decides(use):
    settings, third = Settings(), Settings()
    settings.value = third
    follows = Follows(lambda x: use(x, settings.value))
    assert follows.entries() == 1
    settings.value = FIRST
    assert follows.entries() == 2
    settings.value = third
    assert follows.entries() == 2


class Equal:
    """Compares equal to everything."""

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "use",
    [
        lambda x, first, second: x * (2 if first == second else 3),
        lambda x, first, second: x * (2 if (first,) == (second,) else 3),
        lambda x, first, second: x * (2 if first in [second] else 3),
        lambda x, first, second: x * (2 if [second].count(first) else 3),
    ],
)
def test_the_classes_of_what_is_compared_decide(use, monkeypatch):
    settings = Settings()
    follows = Follows(lambda x: use(x, *settings.values))
    pairs = [(Settings(), Settings()), (Equal(), Equal()), (1, 1.0), (1, 2), ("a", Equal())]
    for pair in pairs:
        settings.values = pair
        follows.entries()
    monkeypatch.setattr(Settings, "__eq__", lambda self, other: True)
    monkeypatch.setattr(Equal, "__eq__", lambda self, other: False)
    for pair in pairs:
        settings.values = pair
        follows.entries()


def test_looking_into_a_generator_uses_it_up():
    compiled = dynamlir.compile(lambda x, values: x * (2 if 2 in values else 3))
    values = (value for value in (1, 2, 3, 4))
    torch.testing.assert_close(compiled(X, values), X * 2)
    assert next(values) == 3
    torch.testing.assert_close(compiled(X, values), X * 3)
    assert [event.reason for event in dynamlir.fallbacks()] == ["unguardable"]


# -- methods that C code calls


class Special:
    """Every one of these is called by C code."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return 2

    def __getitem__(self, at):
        return 2

    def __iter__(self):
        return iter([2])

    def __len__(self):
        return 2

    def __add__(self, other):
        return 2

    def __int__(self):
        return 2

    def __hash__(self):
        return 2

    def __str__(self):
        return "22"

    def __contains__(self, item):
        return True

    def __enter__(self):
        return 2

    def __exit__(self, *error):
        pass


def enters(x, special):
    with special as value:
        return x * value


@pytest.mark.parametrize(
    ("name", "other", "use"),
    [
        ("__getattr__", lambda self, name: 3, lambda x, special: x * special.anything),
        ("__getitem__", lambda self, at: 3, lambda x, special: x * special[0]),
        ("__iter__", lambda self: iter([3]), lambda x, special: x * sum(special)),
        ("__len__", lambda self: 3, lambda x, special: x * len(special)),
        ("__len__", lambda self: 0, lambda x, special: x * (2 if special else 3)),
        ("__bool__", lambda self: False, lambda x, special: x * (2 if special else 3)),
        ("__add__", lambda self, other: 3, lambda x, special: x * (special + 1)),
        ("__int__", lambda self: 3, lambda x, special: x * int(special)),
        ("__hash__", lambda self: 3, lambda x, special: x * hash(special)),
        ("__str__", lambda self: "333", lambda x, special: x * len(f"{special}")),
        ("__contains__", lambda self, item: False, lambda x, special: x * (2 if 1 in special else 3)),
        ("__enter__", lambda self: 3, enters),
    ],
)
def test_a_special_method_is_replaced(name, other, use, monkeypatch):
    special = Special()
    follows = Follows(lambda x: use(x, special))
    assert follows.entries() == 1
    monkeypatch.setattr(Special, name, other, raising=False)
    assert follows.entries() == 2


# -- subjects of patterns

Pair = collections.namedtuple("Pair", "tensor scale")


class Point:
    """Matched by position and by name."""

    __match_args__ = ("scale", "other")

    def __init__(self, scale, tensor=None):
        self.scale = scale
        if tensor is not None:
            self.tensor = tensor


def point_pattern(x, value):
    match value:
        case Point(1):
            return x
        case Point(scale, tensor=torch.Tensor() as tensor):
            return x * scale + tensor
        case Point(scale=scale):
            return x * scale
        case Pair(scale=scale):
            return x * scale
        case _:
            return x - 1


def test_a_pattern_looks_into_an_object(monkeypatch):
    settings = Settings()
    follows = Follows(lambda x: point_pattern(x, settings.value))
    for entries, value in enumerate([Point(1), Point(2), Point(5), Point(2, X), Pair(X, 2), Pair(X, 5), Settings()], 1):
        settings.value = value
        assert follows.entries() == entries
    settings.value = point = Point(1)
    follows = Follows(lambda x: point_pattern(x, settings.value))
    assert follows.entries() == 1
    point.scale = 3
    assert follows.entries() == 2
    point.tensor = X + 1
    assert follows.entries() == 3
    point.tensor = X + 2
    assert follows.entries() == 3, "an input of the graph"
    monkeypatch.setattr(Point, "__match_args__", ("missing",))
    assert follows.entries() == 4


# -- classes that are registered later


def registered(ask):
    """An abstract base class, two classes not registered with it yet, and a compiled check of one of them."""
    base, one, other = abc.ABCMeta("Base", (), {}), type("One", (), {}), type("Other", (), {})
    return base, one, other, dynamlir.compile(lambda x, y: x + 1 if ask(y, base) else x - 1)


@pytest.mark.parametrize("ask", [isinstance, lambda y, base: issubclass(type(y), (int, base))])
def test_what_is_registered_with_an_abstract_class_is_asked_again(ask):
    base, one, other, compiled = registered(ask)
    torch.testing.assert_close(compiled(X, one()), X - 1)
    base.register(other)
    torch.testing.assert_close(compiled(X, one()), X - 1)
    assert len(compiled._cache) == 1
    base.register(one)
    (failing,) = compiled._cache[0].guards.failing_guards(X, one())
    assert failing.guard == "issubclass(One, Base) is False"
    torch.testing.assert_close(compiled(X, one()), X + 1)


def test_an_abstract_class_of_the_frames_own_is_made_anew():
    def asks(x):
        return x + 1 if isinstance(x, abc.ABCMeta("Base", (), {})) else x - 1

    compiled = dynamlir.compile(asks)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), asks(X))
        gc.collect()
    assert len(compiled._cache) == 1


def test_a_tensor_may_be_registered_with_an_abstract_class():
    base = abc.ABCMeta("Base", (), {})
    compiled = dynamlir.compile(lambda x: x + 1 if isinstance(x, base) else x - 1)
    torch.testing.assert_close(compiled(X), X - 1)
    base.register(torch.Tensor)
    torch.testing.assert_close(compiled(X), X + 1)


@pytest.mark.parametrize("name", ["raised", "sin"])
def test_methods_of_tensors_are_those_of_their_class_now(name, monkeypatch):
    if name == "raised":
        monkeypatch.setattr(torch.Tensor, name, lambda self: self + 1, raising=False)
    direct = dynamlir.compile(lambda x: getattr(x, name)())
    later = dynamlir.compile(lambda x: getattr(x * 2, name)())
    for _ in range(2):
        torch.testing.assert_close(direct(X), getattr(X, name)())
        torch.testing.assert_close(later(X), getattr(X * 2, name)())
    assert len(direct._cache) == len(later._cache) == 1
    monkeypatch.setattr(torch.Tensor, name, lambda self: self + 5, raising=False)
    torch.testing.assert_close(direct(X), X + 5)
    torch.testing.assert_close(later(X), X * 2 + 5)


def test_what_cannot_be_searched_says_so_as_always():
    def searches(x, number):
        try:
            return x, 1 in number
        except TypeError as error:
            return x + 1, str(error)

    seen, said = dynamlir.compile(searches)(X, 5)
    expected, words = searches(X, 5)
    torch.testing.assert_close(seen, expected)
    assert said == words
