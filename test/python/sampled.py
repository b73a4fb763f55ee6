"""Parametrizations of which every run takes a part, and a run with --long all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """These parameters, with every `step`-th for each run, the first among them, and the others marked `long`."""
    return [value if at % step == 0 else pytest.param(value, marks=pytest.mark.long) for at, value in enumerate(values)]
