"""`dynamlir.compile(module)` derives a class from the module's own: no hook of the user's classes runs for it, and no
name of theirs is taken.
"""

from __future__ import annotations

import abc
import copy
import functools
import pickle

import dynamlir
import pytest
import torch
from torch import nn

X = torch.ones(2)


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


class Scaled(nn.Module):
    def __init__(self, by: float = 1.0) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.full((2,), by))

    def forward(self, x):
        return x * self.by


made: list[object] = []
"""The calls that the hooks have seen."""


class Registers(type):
    """Hooks into every way a metaclass is notified about a new class."""

    def __new__(mcs, name, bases, namespace):
        made.append(("new", name))
        return super().__new__(mcs, name, bases, namespace)

    def __init__(cls, name, bases, namespace):
        made.append(("init", name))
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        made.append(("call", cls.__name__, args))
        return super().__call__(*args, **kwargs)

    def __setattr__(cls, name, value):
        made.append(("set", name))
        super().__setattr__(name, value)


class OfMeta(Scaled, metaclass=Registers):
    pass


class Final(Scaled):
    def __init_subclass__(cls, **kwargs):
        raise TypeError(f"{cls.__base__.__name__} is final")


class Counts(Scaled):
    """A module that wants to be notified of the attribute in which it is stored."""

    def __set_name__(self, owner, name):
        made.append(("stored", owner, name))

    def __get__(self, owner, kind=None):
        made.append(("got", owner))
        return self


class Abstract(Scaled, abc.ABC):
    pass


class Concrete(Abstract):
    pass


class OnlyConcrete(Concrete):
    pass


@pytest.mark.parametrize("kind", [OfMeta, Final, Counts])
def test_no_hook_hears_of_the_class(kind):
    module = kind(3.0)
    made.clear()
    compiled = dynamlir.compile(module)
    assert torch.equal(compiled(X), X * 3)
    assert compiled._orig_mod is module and compiled._torchdynamo_orig_callable is module
    assert made == []
    assert isinstance(compiled, kind)
    assert type(compiled).__name__ == kind.__name__ and type(compiled).__base__ is kind
    assert repr(compiled) == repr(module)


def test_abstract_base_classes_answer_as_before():
    compiled = dynamlir.compile(Concrete(2.0))
    assert torch.equal(compiled(X), X * 2)
    assert isinstance(compiled, Abstract)
    assert not isinstance(OnlyConcrete(), type(compiled))
    assert isinstance(OnlyConcrete(), Concrete) and not isinstance(Scaled(), Abstract)


def test_a_class_that_is_found_among_the_subclasses_makes_the_users_own():
    compiled = dynamlir.compile(Scaled(2.0))
    compiled(X)
    found = next(kind for kind in Scaled.__subclasses__() if kind is type(compiled))
    other = found(7.0)
    assert type(other) is Scaled
    assert torch.equal(other(X), X * 7)
    assert torch.equal(compiled(X), X * 2)


registry: dict[str, type] = {}


class Derived(Scaled):
    def __init_subclass__(cls, **kwargs):
        registry[cls.__name__] = cls


def test_who_derives_from_the_class_is_heard_of_and_has_calls_of_their_own():
    compiled = dynamlir.compile(Derived(2.0))
    compiled(X)
    assert registry == {}

    class More(type(compiled)):
        pass

    assert registry == {"More": More}
    other = More(5.0)
    assert type(other) is More and torch.equal(other(X), X * 5)
    with pytest.raises(AttributeError):
        _ = other._orig_mod


def test_an_instance_that_was_made_bare_is_itself():
    compiled = dynamlir.compile(Scaled(2.0))
    compiled(X)
    replica = type(compiled).__new__(type(compiled))
    replica.__dict__ = compiled.__dict__.copy()
    replica._parameters = {"by": torch.full((2,), 9.0)}
    assert torch.equal(replica(X), X * 9)
    again = type(compiled).__new__(type(compiled))
    again.__dict__ = copy.deepcopy(compiled.__dict__)
    assert type(pickle.loads(pickle.dumps(again))) is Scaled


class Keeps(nn.Module):
    """Defines every name that views offer, in one way or another."""

    reset = 4

    def __init__(self) -> None:
        super().__init__()
        self._cache = {"hits": 0}
        self._orig_mod = nn.Linear(2, 2)
        self.seen = 0

    @property
    def _torchdynamo_wrapper_id(self):
        return self.seen

    @_torchdynamo_wrapper_id.setter
    def _torchdynamo_wrapper_id(self, value):
        self.seen = value

    def forward(self, x):
        return self._orig_mod(x)


def test_names_of_the_module_are_its_own():
    module = Keeps()
    compiled = dynamlir.compile(module)
    assert torch.allclose(compiled(X), module(X))
    assert compiled._cache is module._cache and compiled.reset == 4
    assert compiled._orig_mod is module._orig_mod
    compiled._torchdynamo_wrapper_id = 12
    assert module.seen == 12
    compiled._cache = 5
    assert module._cache == 5
    assert torch.allclose(copy.deepcopy(compiled)(X), module(X))
    dynamlir.reset(compiled)
    assert dynamlir.export(compiled, X).state_dict.keys() == module.state_dict().keys()


def test_names_that_are_set_and_deleted_later():
    module = Scaled()
    compiled = dynamlir.compile(module)
    compiled(X)
    assert len(compiled._cache) == 1
    module._cache = "mine"
    assert compiled._cache == "mine"
    del compiled._cache
    assert len(compiled._cache) == 1
    compiled.reset = nn.Linear(2, 2)
    assert compiled.reset is module.reset
    del module.reset
    compiled.reset()
    assert len(compiled._cache) == 0


def test_names_that_a_class_gets_later(monkeypatch):
    compiled = dynamlir.compile(Scaled())
    monkeypatch.setattr(Scaled, "reset", lambda self: "of the class", raising=False)
    assert compiled.reset() == "of the class"


class Lazy(nn.Module):
    """Looks for values that it creates at the first access."""

    def once(self):
        if not hasattr(self, "_cache"):
            self._cache = []
        return self._cache

    @functools.cached_property
    def original(self):
        try:
            return self._orig_mod
        except AttributeError:
            return None

    def reset(self):
        return hasattr(super(), "reset")

    def forward(self, x):
        return x + 1


def test_names_that_a_class_looks_for_are_not_offered():
    compiled = dynamlir.compile(Lazy())
    assert torch.equal(compiled(X), X + 1)
    assert compiled.once() == [] and compiled.original is None and compiled.reset() is False


class Answers(Scaled):
    def __getattr__(self, name):
        return f"some {name}" if name in ("reset", "_cache") else super().__getattr__(name)


def test_names_that_a_module_answers_for():
    compiled = dynamlir.compile(Answers())
    assert torch.equal(compiled(X), X)
    assert (compiled.reset, compiled._cache) == ("some reset", "some _cache")


def counted(x):
    return x + counted._cache["by"]


def test_names_of_a_function_are_its_own():
    counted._cache, counted.reset = {"by": 2}, 0
    compiled = dynamlir.compile(counted)
    assert torch.equal(compiled(X), X + 2)
    assert compiled._cache is counted._cache
    compiled._cache = "another"
    assert compiled._cache == "another"
    del compiled._cache, compiled.reset
    assert len(compiled._cache) == 1
    compiled.reset = None
    dynamlir.reset(compiled)
    assert len(compiled._cache) == 0
