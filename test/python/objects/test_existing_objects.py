"""Objects that existed before a call are recognized, wherever C code gets them from: guarded, and never written to."""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import operator

import pytest
import torch
from worlds import X, alike
from written import either


@pytest.fixture(autouse=True)
def fresh():
    with torch.no_grad():
        yield


# -- descriptors written in Python, which C code calls


class Counter:
    n = 0

    def __get__(self, owner, kind=None):
        self.n += 1
        return self.n


def test_a_descriptor_that_writes_to_itself():
    def world(compile_):
        holder = type("Holder", (), {"k": Counter()})()
        function = compile_(lambda x: x * holder.k)
        return [function(X) for _ in range(5)]

    alike(world)


def test_a_descriptor_of_a_class_whose_instance_the_frame_makes():
    def world(compile_):
        holder = type("Holder", (), {"k": Counter()})
        function = compile_(lambda x: x * holder().k)
        return [function(X) for _ in range(5)]

    alike(world)


def test_a_capture_that_ends_has_not_run_the_descriptor():
    def world(compile_):
        holder = type("Holder", (), {"k": Counter()})()

        def function(x):
            y = x * holder.k
            print(end="")
            return y

        return compile_(function)(X)

    alike(world, "side-effect", "c-function", "print")


def test_the_state_of_a_descriptor_is_guarded():
    class Reads:
        value = 1

        def __get__(self, owner, kind=None):
            return self.value

    def world(compile_):
        holder = type("Holder", (), {"k": Reads()})
        function, made = compile_(lambda x, o: x * o.k), compile_(lambda x: x * holder().k)
        first = function(X, holder()), made(X)
        vars(holder)["k"].value = 4
        return first, function(X, holder()), made(X)

    alike(world)


def test_a_descriptor_that_counts_what_is_set():
    class Sets:
        n = 0

        def __set__(self, owner, value):
            self.n += 1
            owner.__dict__["k"] = value

        def __get__(self, owner, kind=None):
            return owner.__dict__["k"]

    def world(compile_):
        holder = type("Holder", (), {"k": Sets()})

        def function(x):
            made = holder()
            made.k = 3
            return x * made.k

        compiled = compile_(function)
        return compiled(X), compiled(X), vars(holder)["k"].n

    alike(world)


# -- attributes of the class of an object that the frame created


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.registry.append(1),
        lambda made: made.table.setdefault("key", 1),
        lambda made: made.table.__setitem__("key", 1),
        lambda made: operator.setitem(made.table, "key", 1),
        lambda made: type(made).registry.append(1),
        lambda made: type(made).inner.registry.append(1),
    ],
)
def test_what_a_class_holds_is_written_as_ever(change):
    def world(compile_):
        inner = type("Inner", (), {"registry": []})
        kind = type("Kind", (), {"registry": [], "table": {}, "inner": inner})

        def function(x):
            made = kind()
            change(made)
            return x + len(made.registry) + len(made.table) + len(inner.registry)

        compiled = compile_(function)
        return [compiled(X) for _ in range(3)], kind.registry, kind.table, inner.registry

    either(world)


def test_what_a_base_of_the_frames_own_class_holds_is_written_as_ever():
    def world(compile_):
        base = type("Base", (), {"registry": []})

        def function(x):
            class Made(base):
                pass

            Made().registry.append(1)
            Made.registry.append(2)
            return x + len(base.registry)

        compiled = compile_(function)
        return compiled(X), compiled(X), base.registry

    either(world)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("k", 2, 5),
        ("k", property(lambda self: 2), property(lambda self: 5)),
        ("k", property(lambda self: 2), 5),
        ("__getattr__", lambda self, name: 2, lambda self, name: 5),
        ("__getattribute__", lambda self, name: 2, lambda self, name: 5),
        ("__init__", lambda self: setattr(self, "k", 2), lambda self: setattr(self, "k", 5)),
        ("__new__", lambda cls: with_k(cls, 2), lambda cls: with_k(cls, 5)),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_a_class_holds_is_guarded(name, first, second):
    """The former value stays alive, so that only the change can be noticed."""

    def world(compile_):
        kind = type("Kind", (), {name: first})
        function = compile_(lambda x: x * kind().k)
        results = [function(X)]
        setattr(kind, name, second)
        return [*results, function(X)]

    alike(world)


def with_k(cls, value):
    made = object.__new__(cls)
    made.k = value
    return made


def test_a_property_that_comes_later_hides_the_attribute():
    def world(compile_):
        kind = type("Kind", (), {"__init__": lambda self: self.__dict__.update(k=2)})
        function = compile_(lambda x: x * kind().k)
        first = function(X)
        kind.k = property(lambda self: 7)
        return first, function(X)

    alike(world)


def test_a_method_of_the_frames_own_object_is_guarded():
    def world(compile_):
        former = lambda self: 3  # noqa: E731
        kind = type("Kind", (), {"method": former})
        function = compile_(lambda x: x * kind().method())
        first = function(X)
        kind.method = lambda self: 9
        return first, function(X), former(None)

    alike(world)


# -- copies, and containers that receive existing objects


def test_what_a_shallow_copy_shares_is_written_as_ever():
    def world(compile_):
        class Config:
            def __init__(self):
                self.history = [1]

        config = Config()

        def function(x):
            copy.copy(config).history.append(2)
            return x * len(config.history)

        compiled = compile_(function)
        return [compiled(X) for _ in range(3)], config.history

    either(world)


@pytest.mark.parametrize(
    "take",
    [
        lambda values: [*values],
        lambda values: list(values),
        lambda values: sorted(values, key=len),
        lambda values: extended(values),
        lambda values: values[0:2],
        lambda values: tuple(values),
        lambda values: [value for value in reversed(values)],
        lambda values: list(itertools.chain(values, [])),
        lambda values: [pair[0] for pair in zip(values, values)],
        lambda values: [value for _, value in enumerate(values)],
        lambda values: list(dict(enumerate(values)).values()),
        lambda values: list(map(lambda value: value, values)),
        lambda values: [max(values, key=len), min(values, key=len)],
        lambda values: [functools.reduce(lambda one, other: other, values)],
    ],
)
@pytest.mark.parametrize("tensors", [False, True])
def test_elements_are_the_very_objects_and_written_as_ever(take, tensors):
    def world(compile_):
        values = [[X], [X, X]] if tensors else [[1], [1, 2]]

        def function(x):
            taken = take(values)
            taken[0].append(5)
            return x + len(values[0]), taken[0] is values[0], taken[0] is values[1]

        compiled = compile_(function)
        return compiled(X), compiled(X), [len(value) for value in values]

    def reads(compile_):
        values = [[X], [X, X]] if tensors else [[1], [1, 2]]
        function = compile_(
            lambda x: (x + len(take(values)), take(values)[0] is values[0], take(values)[0] is values[1])
        )
        first = function(X)
        values.append([1, 2, 3])
        return first, function(X)

    def returned(compile_):
        values = [[X], [X, X]] if tensors else [[1], [1, 2]]
        result = compile_(lambda x: (x + 1, take(values)))(X)
        return [any(item is value for value in values) for item in result[1]]

    either(world)
    alike(reads)
    alike(returned)


def extended(values):
    made = []
    made.extend(values)
    return made


@pytest.mark.parametrize(
    "fill",
    [
        lambda made, given: made.update(given),
        lambda made, given: made.__ior__(given),
        lambda made, given: made.update([*given.items()]),
        lambda made, given: [made.setdefault(key, value) for key, value in given.items()],
    ],
)
def test_what_a_dict_takes_in_is_guarded(fill):
    def world(compile_):
        def function(x, given):
            made = {}
            fill(made, given)
            return x + made["a"]

        compiled = compile_(function)
        return [compiled(X, {"a": value}) for value in (1, 2, X, X * 3, 2.5)]

    alike(world)


# -- calls made by C code


@pytest.mark.whole
def test_c_functions_that_c_code_calls_are_looked_at():
    def world(compile_):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            function = compile_(lambda x: (list(map(print, [1])), x + 1)[1])
            function(X), function(X)
        return out.getvalue()

    alike(world, "c-function", "print")


@pytest.mark.parametrize(
    "call",
    [
        lambda log: sorted([2, 1], key=log.append),
        lambda log: max([2], key=log.append),
        lambda log: [1].sort(key=log.append),
        lambda log: list(map(operator.methodcaller("append", 3), [log])),
        lambda log: list(map(functools.partial(log.append), [3])),
        lambda log: functools.partial(log.append, 1)(),
        lambda log: list(filter(log.append, [3])),
        lambda log: list(itertools.takewhile(log.append, [3])),
        lambda log: list(map(log.append, [1])),
        lambda log: list(itertools.starmap(log.insert, [(0, 1)])),
        lambda log: list(itertools.groupby([3], log.append)),
        lambda log: list(iter(functools.partial(log.pop), 1)),
    ],
)
def test_what_c_code_calls_writes_as_ever(call):
    def world(compile_):
        log = [1, 2, 3]

        def function(x):
            call(log)
            return x + len(log)

        compiled = compile_(function)
        return compiled(X), compiled(X), log

    either(world)
