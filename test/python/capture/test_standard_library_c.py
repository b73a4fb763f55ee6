"""C code of the standard library and of torch that everyday programs call, captured whole."""

from __future__ import annotations

import collections
import functools
import inspect
import itertools
import operator
import re
import threading
import typing
from typing import Any

import pytest
import torch
from worlds import X, alike


def calls(function: Any, times: int = 2):
    """A world that calls a function several times with a tensor."""

    def world(compile_):
        compiled = compile_(function)
        return [compiled(X + at) for at in range(times)]

    return world


GETTERS: list[Any] = [
    lambda x: operator.attrgetter("shape")(x),
    lambda x: operator.attrgetter("dtype", "T", "data.shape")(x),
    lambda x: operator.itemgetter(0)(x),
    lambda x: operator.itemgetter(slice(1, None), 0)(x),
    lambda x: operator.itemgetter("b", "a")({"a": x, "b": 2}),
    lambda x: operator.methodcaller("size")(x),
    lambda x: operator.methodcaller("add", x, alpha=2.0)(x),
    lambda x: list(map(operator.itemgetter(1), [(1, x), (2, x + 1)])),
]


@pytest.mark.parametrize("function", GETTERS)
def test_getters(function: Any) -> None:
    alike(calls(function))


def test_a_getter_that_existed_before() -> None:
    item = operator.itemgetter(1)

    def function(x):
        return item([x, x + 1]), item({1: x})

    alike(calls(function))


def test_attributes_that_a_getter_finds_later() -> None:
    class Named:
        label = 2.0

    def world(compile_):
        named = Named()

        def function(x):
            return x * operator.attrgetter("label")(named)

        compiled = compile_(function)
        first = compiled(X)
        named.label = 4.0
        return first, compiled(X)

    alike(world)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: operator.concat([x], [1]),
        lambda x: operator.iconcat([x], [1]),
        lambda x: (operator.abs(-3), operator.abs(x - 2)),
        lambda x: operator.concat("a", "b") + str(x.ndim),
    ],
)
def test_operators(function: Any) -> None:
    alike(calls(function))


def test_a_list_that_grows_by_an_operator() -> None:
    def world(compile_):
        items: list[Any] = [1]

        def function(x):
            same = operator.iconcat(items, [x])
            return same is items, len(items)

        compiled = compile_(function)
        return compiled(X), compiled(X), len(items)

    alike(world)


def test_struct_sequences() -> None:
    def function(x):
        made = torch.return_types.max((x + 1, x.argmax(0)))
        return made, made.values, isinstance(made, torch.return_types.max)

    alike(calls(function))


def test_iterators_of_ranges_and_tensors() -> None:
    def function(x):
        steps = range(3).__iter__()
        first = next(steps)
        return x + first + next(steps), list(x.__iter__()), [*steps]

    alike(calls(function))


def test_members_of_enumerations_that_c_code_gives() -> None:
    def function(x):
        parameter = inspect.signature(function).parameters["x"]
        return x + 1, parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD, parameter.kind.name

    alike(calls(function))


class Pair(typing.NamedTuple):
    a: Any
    b: Any


class Noted(Pair):
    pass


class Seen(tuple):
    def __contains__(self, item):
        self.asked = item
        return super().__contains__(item)


def test_attributes_of_tuples_of_a_class() -> None:
    def world(compile_):
        pair, seen = Noted(X, 2), Seen([1, 2, 3])

        def function(x):
            pair.c = x + 1
            return x * 2 if 3 in seen else x

        return compile_(function)(X), pair.c, seen.asked

    alike(world)


@pytest.mark.parametrize("holds", [False, True])
def test_a_dict_by_tensors(holds: bool) -> None:
    def world(compile_):
        weight, other = torch.nn.Parameter(X + 1), torch.nn.Parameter(X + 2)
        state: Any = collections.defaultdict(dict)
        if holds:
            state[weight] = {"old": 1}

        def function(x):
            state["a"] = x + 1
            state[weight] = {"step": x.sum()}
            state[other] = x * 2
            return state[weight]["step"], state["b"]

        compiled = compile_(function)
        first = [compiled(X), list(state.values())]
        return first, compiled(X + 1), list(state.values()), len(state)

    alike(world)


def test_decorators_applied_in_a_frame() -> None:
    def function(x):
        @torch.no_grad()
        def inner(y):
            return y * 2, torch.is_grad_enabled()

        return inner(x)

    alike(calls(function))


class Version(str):
    """A string that does not support weak references, like `torch.__version__`."""

    __slots__ = ()


@pytest.mark.parametrize(("first", "later"), [("1.2", "1.2"), ("1.2", "1.3")])
def test_text_of_a_class_that_c_code_reads(first: str, later: str) -> None:
    def world(compile_):
        names, pattern = {"version": Version(first)}, re.compile(r"(\d+)\.(\d+)")

        def function(x):
            found = pattern.search(names["version"])
            return x * int(found.group(2)), names["version"].split(".")[0]

        compiled = compile_(function)
        before = compiled(X)
        names["version"] = Version(later)
        return before, compiled(X)

    alike(world)


def test_a_dict_of_the_frame_by_tensors() -> None:
    def world(compile_):
        weights = [torch.nn.Parameter(X + at) for at in range(3)]

        def function(x):
            places = {weight: at for at, weight in enumerate(weights)}
            made = x + 1
            places[weights[1]] = 5
            try:
                places[x]
            except KeyError as error:
                missing = error.args[0] is x
            found = [weight in places for weight in (weights[0], made, x, x + 1)]
            return made * places[weights[2]], [places[weight] for weight in weights], found, missing, len(places)

        compiled = compile_(function)
        return compiled(X), compiled(X + 1)

    alike(world)


def test_attributes_of_a_thread() -> None:
    class Settings(threading.local):
        scale = 3

    def world(compile_):
        plain, settings, seen = threading.local(), Settings(), []
        plain.x = 2

        def function(x):
            return x * plain.x * settings.scale + getattr(plain, "y", 0)

        compiled = compile_(function)

        def look():
            seen.extend(compiled(X) for _ in range(3))

        def elsewhere():
            plain.x = 5
            look()
            settings.scale = 2
            look()

        look()
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        look()
        plain.y = 7
        look()
        return seen

    alike(world)


def test_what_accelerators_there_are() -> None:
    def function(x):
        if torch.cuda.is_available() or torch.mtia.is_available() or torch.accelerator.is_available():
            return x + 1
        return x * 2 if torch.fx._symbolic_trace.is_fx_tracing() else x * 3

    alike(calls(function))


def descending(a, b):
    return b - a


def by_size(a, b):
    return a[0] - b[0] if a[0] != b[0] else a[1].numel() - b[1].numel()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + sorted([3, 1, 2], key=functools.cmp_to_key(descending))[0],
        lambda x: [item[1] + 1 for item in sorted([(3, x), (1, x * 2), (1, x[:1])], key=functools.cmp_to_key(by_size))],
        lambda x: x + max([3, 1, 2], key=functools.cmp_to_key(lambda a, b: descending(a, b))),
        lambda x: x + min((x.ndim, 7), key=functools.cmp_to_key(operator.sub)),
        lambda x: [x * len(list(g)) for _, g in itertools.groupby([2, 2, 3], functools.cmp_to_key(descending))],
    ],
)
def test_keys_made_of_comparisons(function: Any) -> None:
    alike(calls(function))


def test_what_a_comparison_reads_is_guarded() -> None:
    def world(compile_):
        order, numbers = {"sign": 1}, [3, 1, 2]

        def compares(a, b):
            return (a - b) * order["sign"]

        def function(x, mine):
            own = list(mine)
            own.sort(key=functools.cmp_to_key(compares))
            return x * own[0] + sorted(numbers, key=functools.cmp_to_key(compares))[-1]

        compiled = compile_(function)
        told = []
        for sign in (1, -1, 1):
            order["sign"] = sign
            told.append(compiled(X, (5, 4, 6)))
            numbers.append(sign * 9)
            told.append(compiled(X, (5, 7, 6)))
        return told

    alike(world)
