"""Equal values are not taken for the same if a program can tell them apart: ranges, numbers of other types, zeros,
`nan`, and object identity.
"""

from __future__ import annotations

import functools
import time
import types

import dynamlir
import pytest
import torch

X = torch.ones(2)
RANGES = [range(0, 3, 2), range(0, 4, 2), range(0), range(2, 1), range(5, 6, 1), range(5, 6, 7)]
NAN, OTHER = float("nan"), float("nan")


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [*map(shown, value)] if type(value) in (list, tuple) else repr(value)


def agree(function, *calls):
    """Checks that each of the calls in turn gives plain Python's result."""
    compiled = dynamlir.compile(function)
    for arguments in calls:
        assert shown(compiled(X, *arguments)) == shown(function(X, *arguments)), arguments


@pytest.mark.parametrize(
    "within",
    [
        lambda r: r,
        lambda r: (r, 1),
        lambda r: ((r,), frozenset([(r,)])),
        lambda r: frozenset([r]),
        lambda r: {r: 1},
        lambda r: {r},
        lambda r: slice(r, None),
        lambda r: {"a": [r]},
    ],
)
def test_equal_ranges(within):
    agree(lambda x, held: (x + 1, repr(held)), *[(within(r),) for r in RANGES])


def test_a_range_as_an_attribute():
    agree(lambda x, o: (x * o.of.stop, o.of.step), *[(types.SimpleNamespace(of=r),) for r in RANGES])


NUMBERS = (1, True, 1.0, 0.0, -0.0, 0, complex(0.0, -0.0))


@pytest.mark.parametrize(
    "within", [lambda v: (v, 2), lambda v: frozenset([v]), lambda v: {v: 1}, slice, lambda v: [(v,)]]
)
def test_equal_numbers_of_other_kinds(within):
    agree(lambda x, held: (x + 1, repr(held)), *[(within(v),) for v in NUMBERS])


@pytest.mark.parametrize(
    "function",
    [
        lambda x, a, b: (x + 1, (a,) == (b,)),
        lambda x, a, b: (x + 1, {"k": a} != {"k": b}),
        lambda x, a, b: (x + 1, [a, 1].count(b)),
        lambda x, a, b: (x + 1, b in [a, 1]),
        lambda x, a, b: (x + 1, len({a, b})),
        lambda x, a, b: (x + 1, {a: 1}.get(b)),
        lambda x, a, b: (x + 1, a is b, a == b),
    ],
)
def test_nan_in_containers_of_the_frame(function):
    with dynamlir.config.patch(graph_breaks=False):
        agree(function, (NAN, NAN), (NAN, OTHER), (OTHER, OTHER))


@pytest.mark.parametrize("within", [lambda v: (v, 2), lambda v: [v], lambda v: {1: v}, lambda v: {v}])
def test_nan_in_existing_containers(within):
    pairs = (NAN, NAN), (NAN, OTHER), (OTHER, OTHER)
    agree(lambda x, a, b: (x + 1, a == b), *[(within(a), within(b)) for a, b in pairs])


LONG = "".join(["a ", "text"])
PAIRS = [
    (10**20, int("1" + "0" * 20)),
    (LONG, "".join(["a", " text"])),
    (1.5, float("1.5")),
    (range(3), range(3)),
    (torch.Size([2, 3]), torch.Size([2, 3])),
    (slice(1), slice(1)),
]


@pytest.mark.parametrize(("one", "equal"), PAIRS)
def test_which_of_equal_objects_it_is(one, equal):
    agree(lambda x, a, b: (x + 1, a is b), (one, one), (one, equal), (equal, equal))
    held = [([one], types.SimpleNamespace(of=other)) for other in (equal, one)]
    agree(lambda x, a, b: (x + 1, a[0] is not b.of), *held)


def test_which_of_equal_objects_a_global_is():
    agree(lambda x, a: (x + 1, a is LONG), (LONG,), ("".join(["a t", "ext"]),), (LONG,))


def test_objects_of_which_there_is_one_have_no_further_guard():
    def choose(x, mode, flag, kind):
        return x * 2 if mode is None or flag is True or kind is torch.float32 else x

    compiled = dynamlir.compile(choose, fullgraph=True)
    for given in ((None, False, torch.float64), (3, True, torch.float32), (3, False, torch.float64)):
        assert torch.equal(compiled(X, *given), choose(X, *given))


class Holder:
    def __init__(self, value):
        self.value = value


def in_a_list(x, value):
    held = [value, value]
    time.perf_counter()
    return x, held[0] is value, held == [value, value], held[0] is held[1]


def in_a_dict(x, value):
    held = {"a": value}
    time.perf_counter()
    return x, held["a"] is value, held == {"a": value}


def in_a_tuple(x, value):
    held = ((value, 1), value)
    time.perf_counter()
    return x, held[0][0] is held[1], held[0] == (value, 1)


def in_an_object(x, value):
    held = Holder([value])
    time.perf_counter()
    return x, held.value == [value]


def of_two(x, value):
    held, first = [value, NAN], NAN
    time.perf_counter()
    return x, held[0] is held[1], held[1] is first, held == [first, value]


@pytest.mark.parametrize("function", [in_a_list, in_a_dict, in_a_tuple, in_an_object, of_two])
def test_nan_that_is_kept_over_a_break(function):
    agree(function, (NAN,), (OTHER,), (float("nan"),), (NAN,))


def test_nan_of_an_attribute_is_the_one_that_is_returned():
    compiled = dynamlir.compile(lambda x, held: (x * 2, [held.value, held.value]))
    for value in (NAN, OTHER):
        made = compiled(X, Holder(value))[1]
        assert made[0] is value and made == [value, value]


@pytest.mark.parametrize("key", [int, Holder])
def test_a_key_is_looked_for_among_keys_alone(key):
    # The two NaNs and the tensors held by C objects are values, and only keys are compared.
    known = {key: (NAN, NAN), str: functools.partial(torch.add, X), "a": [OTHER, OTHER]}

    def function(x, key):
        return x * 2 if key in known else x * 3

    dynamlir.reset()
    agree(function, (key,), (bool,), (key,))
    assert not dynamlir.fallbacks()
    del known[key]
    agree(function, (key,), (str,))
    compiled = dynamlir.compile(function)
    assert shown(compiled(X, key)) == shown(X * 3)
    known[key] = None
    assert shown(compiled(X, key)) == shown(X * 2)
