"""Functions, iterators and other objects of C classes that a frame creates and returns are new objects in each call."""

from __future__ import annotations

import collections
import functools
import itertools
import operator
import types
from typing import Any

import dynamlir
import pytest
import torch
from between import alike as same
from between import goes_on, say
from worlds import X, alike


def twice(make, use):
    """A world that uses the results of two calls in turn."""

    def world(compile_):
        compiled = compile_(make)
        first, second = compiled(X), compiled(X + 1)
        return [use(first), use(second), use(first)]

    return world


def counter(x):
    count = x.sum()

    def step(by, /, scale=x + 1, *, offset: int = 2, **more) -> list[int]:
        "Counts."
        nonlocal count
        count = count + by
        return count * scale + offset, sorted(more)

    return step


def about(function):
    names = ["__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "__kwdefaults__"]
    return [getattr(function, name) for name in names], [function(1), function(2, scale=3), function(0, a=1)]


def test_a_function_is_all_that_it_was() -> None:
    alike(twice(counter, about))


def test_functions_share_what_they_close_over() -> None:
    def make(x):
        total = x

        def add(y):
            nonlocal total
            total = total + y

        def read():
            return total

        add(x * 2)
        return {"add": add, "read": read}

    def use(made):
        made["add"](X)
        return made["read"](), made["read"].__closure__[0] is made["add"].__closure__[-1]

    alike(twice(make, use))


def test_a_function_that_calls_itself() -> None:
    def make(x):
        start = x + 1

        def power(n):
            return start if n == 0 else power(n - 1) * start

        return power, power(2)

    def use(made):
        return made[0](3), made[1], made[0].__closure__[0].cell_contents is made[0]

    alike(twice(make, use))


def test_a_function_in_what_it_closes_over_from_outside() -> None:
    def world(compile_):
        shared, scale = [1.0], 2.0

        def make(x):
            def run(y):
                nonlocal scale
                scale += 1
                return x + y * scale * shared[0]

            return run

        run = compile_(make)(X)
        first = run(X)
        shared[0] += 1
        return first, run(X), scale

    alike(world)


def test_attributes_that_a_decorator_has_set() -> None:
    def traced(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) + 1

        wrapper.label = "traced"
        return wrapper

    def make(x):
        def scaled(y):
            "Scales."
            return x * y

        return traced(scaled)

    alike(twice(make, lambda run: (run(X), run.label, run.__doc__, run.__name__, run.__wrapped__(X))))


ITERATORS: list[Any] = [
    lambda x: zip([x, x + 1], (1, 2)),
    lambda x: map(lambda y: y + x, [x, x * 2]),
    lambda x: map(torch.add, [x, x * 2], (x, x)),
    lambda x: filter(lambda pair: pair[1] > 1, [(x, 1), (x + 1, 2)]),
    lambda x: enumerate([x, x + 1], 3),
    lambda x: reversed([x, x + 1]),
    lambda x: reversed((x, x + 1)),
    lambda x: iter(range(3)),
    lambda x: iter("abc"),
    lambda x: itertools.chain([x], (x + 1,), "ab"),
    lambda x: itertools.compress([x, x + 1, x + 2], [1, 0, 1]),
    lambda x: itertools.islice([x, x + 1, x + 2, x + 3], 1, None, 2),
    lambda x: itertools.accumulate([x, x + 1, x + 2]),
    lambda x: itertools.accumulate([x, x + 1], operator.mul, initial=x),
    lambda x: itertools.repeat(x + 1, 2),
    lambda x: itertools.zip_longest([x], [1, 2], fillvalue=x * 3),
    lambda x: itertools.starmap(torch.mul, [(x, x), (x, x + 1)]),
    lambda x: itertools.takewhile(lambda n: n < 2, [1, 2, 3]),
    lambda x: itertools.islice(itertools.cycle([x, x + 1]), 5),
    lambda x: itertools.islice(itertools.count(2, 3), 3),
]


@pytest.mark.parametrize("advanced", [0, 1])
@pytest.mark.parametrize("make", ITERATORS)
def test_an_iterator_is_where_it_was(make: Any, advanced: int) -> None:
    def advance(x):
        made = make(x)
        for _ in range(advanced):
            next(made)
        return made, x.sin()

    def use(made):
        return type(made[0]).__name__, list(made[0]), made[1]

    # From CPython 3.14 on, iterators of itertools do not report their position.
    says = type(make(X)).__reduce__ is not object.__reduce__
    alike(twice(advance, use), *() if says else ("output", "unguardable"))


def test_an_iterator_calls_what_it_was_given() -> None:
    def make(x):
        return x + 1, map(torch.add, [x], [x]), map(abs, [x])

    def use(made):
        return made[0], [each.__reduce__()[1][0] is known for each, known in zip(made[1:], (torch.add, abs))]

    alike(twice(make, use))


def test_what_an_iterator_calls_has_no_lines_of_ours_in_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")

    def make(x, items):
        return x + 1, list(map(abs, items))

    def lines(call):
        with pytest.raises(TypeError) as raised:
            call(X, [1, None])
        return [entry.name for entry in raised.traceback]

    compiled = dynamlir.compile(make)
    for _ in range(2):
        assert lines(compiled) == lines(make)
    assert all("<string>" not in str(event) for event in dynamlir.fallbacks())


def test_an_iterator_over_an_existing_list_sees_what_comes_later() -> None:
    def world(compile_):
        items = [X, X + 1]

        def make(x):
            made = iter(items)
            return made, next(made) + x

        made, first = compile_(make)(X)
        items.append(X * 5)
        return first, list(made)

    alike(world)


def test_an_iterator_over_a_list_that_the_frame_changes() -> None:
    def world(compile_):
        items = [X, X + 1]

        def make(x):
            made = iter(items)
            items.append(x + 2)
            return made

        made = compile_(make)(X)
        items.append(X * 5)
        return list(made)

    dynamlir.reset()
    same(world(dynamlir.compile), world(lambda function: function))


def test_other_objects_of_c() -> None:
    def make(x):
        made = collections.defaultdict(list)
        made["a"].append(x + 1)
        recent = collections.deque([x, x + 1, x + 2], maxlen=2)
        return made, recent, functools.partial(torch.add, x, alpha=2), operator.itemgetter(1, 0), slice(1, None)

    def use(made):
        table, recent, added, get, part = made
        table["b"].append(X)
        recent.append(X)
        return table["a"], dict(table), table.default_factory, list(recent), recent.maxlen, added(X), get([1, 2]), part

    alike(twice(make, use))


def test_two_temporary_parts_are_not_taken_for_one() -> None:
    def make(x):
        return [functools.partial(torch.add, x), functools.partial(torch.mul, x, 2)]

    alike(twice(make, lambda made: [(each.func.__name__, each.args, each.keywords) for each in made]))


def test_functions_and_iterators_cross_a_break() -> None:
    def function(x):
        calls = [0]

        def scaled(y, n=2):
            calls[0] += 1
            return y * n + x

        pairs = zip([x, x + 1], [1, 2])
        first = scaled(x)
        say("between")
        for left, right in pairs:
            first = first + scaled(left, right)
        return first, calls

    goes_on(function, X)


def test_an_entry_with_a_function_as_source() -> None:
    def make(x):
        y = x + 1

        def read(scale=2):
            return y * scale

        return read

    compiled = dynamlir.compile(make)
    compiled(X)
    entry = compiled._cache[0]
    assert isinstance(entry.code, types.CodeType)
    same(entry.function(X)(3), make(X)(3))
