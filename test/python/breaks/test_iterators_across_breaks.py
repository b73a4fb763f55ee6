"""Iterators that continue after a graph break, over objects that change meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch


def grown_in_the_loop(x, items):
    for at, value in enumerate(items):
        x = x + value
        time.perf_counter()
        if len(items) < 5:
            items.append(value + at)
    return x


def grown_after_the_break(x, items):
    iterator = iter(items)
    first = next(iterator)
    time.perf_counter()
    items.append(7)
    return x * first, list(iterator)


def grown_before_the_break(x, items):
    iterator = iter(items)
    first = next(iterator)
    items.insert(0, 9)
    time.perf_counter()
    return x * first, list(iterator)


def used_up(x, items):
    iterator = iter(items)
    x = x * sum(iterator)
    time.perf_counter()
    items.append(3)
    return x, list(iterator)


def backwards(x, items):
    iterator = reversed(items)
    x = x * next(iterator)
    time.perf_counter()
    items[0] = 8
    return x, list(iterator)


def in_pairs(x, items):
    for left, right in zip(items, items[::-1], strict=False):
        x = x * left
        time.perf_counter()
        items.append(right)
    return x


def through_a_map(x, items):
    doubled = map(lambda value: value * 2, items)
    x = x * next(doubled)
    time.perf_counter()
    items.append(9)
    return x, list(doubled)


def emptied(x, items):
    for value in items:
        x = x + value
        time.perf_counter()
        items.clear()
    return x


def of_the_frame(x, items):
    own = list(items)
    for value in own:
        time.perf_counter()
        if len(own) < 4:
            own.append(value + 1)
        x = x + value
    return x, own


def a_dict_that_grows(x, items):
    table = dict.fromkeys(items, 1)
    for key in table:
        x = x + key
        time.perf_counter()
        table[key + 10] = 2
    return x


def a_dict_whose_values_change(x, items):
    table = dict.fromkeys(items, 1)
    for key, value in table.items():
        time.perf_counter()
        table[key] = value + 1
        x = x + value
    return x, list(table.items())


FUNCTIONS: list[Callable[..., Any]] = [
    grown_in_the_loop,
    grown_after_the_break,
    grown_before_the_break,
    used_up,
    backwards,
    in_pairs,
    through_a_map,
    emptied,
    of_the_frame,
    a_dict_that_grows,
    a_dict_whose_values_change,
]


def told(function: Callable[..., Any], given: list[int]) -> Any:
    items = list(given)
    try:
        result = function(torch.ones(2), items)
    except RuntimeError as error:
        result = str(error)
    parts = result if isinstance(result, tuple) else (result,)
    return [part.tolist() if isinstance(part, torch.Tensor) else part for part in parts], items


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::dynamlir.PlainRunWarning")
def test_what_is_changed_meanwhile(function: Callable[..., Any]) -> None:
    compiled = dynamlir.compile(function)
    for given in ([1, 2], [1, 2], [2, 3], [3, 2, 1]):
        assert told(compiled, given) == told(function, given), given
