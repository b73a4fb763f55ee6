"""Parametrizations and random programs: each run takes a part of them, and a run with --long takes all."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """These parameters: every `step`-th one, including the first, belongs to each run; the others are marked `long`."""
    return [_marked(at % step, value) for at, value in enumerate(values)]


def one_in_product(step: int, *parameters: Iterable[Any]) -> list[Any]:
    """Like `one_in`, for all combinations of several parameters. A step that is coprime to the length of the last
    parameter takes each of its values.
    """
    return [_marked(at % step, pytest.param(*values)) for at, values in enumerate(itertools.product(*parameters))]


def _marked(is_long: int, value: Any) -> Any:
    if not is_long:
        return value
    # A `pytest.param` keeps its name and its other marks.
    values, marks, name = value if isinstance(value, type(pytest.param())) else ((value,), (), None)
    return pytest.param(*values, marks=[*marks, pytest.mark.long], id=name)


def examples(usually: int, long: int) -> int:
    """The number of random programs that a test draws."""
    return long if os.environ.get("DYNAMLIR_LONG_TESTS") else usually
