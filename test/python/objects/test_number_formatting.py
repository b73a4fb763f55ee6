"""The text of a number depends on settings of the process: the number of digits that an int may have, numpy's print
options.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch

numpy = pytest.importorskip("numpy")

LONG = 10**1000
DIGITS = "1" * 1000
NUMBER = numpy.float64(1.23456789)


UPTO, FIRST, NESTED = slice(0, LONG), range(LONG), (1, (LONG, 2))


class Whole(int):
    pass


def shown(function: Callable[..., Any], x: torch.Tensor) -> Any:
    try:
        return function(x).tolist()
    except ValueError as error:
        return str(error)


def agrees(function: Callable[..., Any], change: Callable[[Any], Any], settings: list[Any]) -> None:
    compiled, x = dynamlir.compile(function), torch.ones(2)
    for setting in settings:
        change(setting)
        assert shown(compiled, x) == shown(function, x), setting


@pytest.fixture
def digits() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    yield
    sys.set_int_max_str_digits(before)


@pytest.fixture
def printing() -> Iterator[None]:
    before = numpy.get_printoptions()
    yield
    numpy.set_printoptions(**before)


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * len(str(LONG)),
        lambda x: x * len(f"{LONG}"),
        lambda x: x * len(f"{LONG + 1!r:>2000}"),
        lambda x: x * len(repr([1, (LONG,)])),
        lambda x: x * len("%d" % LONG),  # noqa: UP031
        lambda x: x * len("{}".format(LONG)),  # noqa: UP032
        lambda x: x * len(LONG.__str__()),
        lambda x: x * len(json.dumps({"a": [LONG]})),
        lambda x: x * (int(DIGITS) % 7),
        lambda x: x * (Whole(DIGITS) % 7),
        lambda x: x * (json.loads(DIGITS) % 7),
    ],
)
def test_long_ints(function: Callable[..., Any]) -> None:
    agrees(function, sys.set_int_max_str_digits, [0, 700, 2000, 700])


@pytest.mark.usefixtures("digits")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[UPTO],
        lambda x: x * (3 in FIRST),
        lambda x: x * (FIRST.stop % 7),
        lambda x, given=NESTED: x * len(given),
        lambda x: x * NESTED.index((LONG, 2)),
    ],
)
def test_long_ints_within_constants(function: Callable[..., Any]) -> None:
    agrees(function, sys.set_int_max_str_digits, [700, 0, 700])
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.usefixtures("printing")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * len(repr(NUMBER)),
        lambda x: x * len(f"{NUMBER} {[NUMBER]}"),
        lambda x: x * len("%r" % (NUMBER,)),  # noqa: UP031
        lambda x: x * len(str({"a": NUMBER})),
    ],
)
def test_numbers_of_numpy(function: Callable[..., Any]) -> None:
    agrees(function, lambda legacy: numpy.set_printoptions(legacy=legacy), [False, "1.13", "1.25", False])


@pytest.mark.usefixtures("digits")
def test_short_numbers_ask_for_no_setting() -> None:
    compiled, x = dynamlir.compile(lambda x: x * len(str(10**600)) + int("7" * 600) % 7), torch.ones(2)
    for setting in (0, 700):
        sys.set_int_max_str_digits(setting)
        compiled(x)
    assert len(compiled._cache) == 1
