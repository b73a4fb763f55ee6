"""Grown functions over tensors through the front door, on torch's own kernels: what differs is the capture's fault."""

from __future__ import annotations

import itertools
import operator
import time
from collections.abc import Iterator
from typing import Any

import dynamlir
from interpreted.support import HARNESS

from . import run

HARNESS.add(__file__)


def seeds(first: int, seconds: float) -> Iterator[int]:
    """Seeds from the first one on, for that long."""
    stop = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < stop, itertools.count(first))


def captured(seed: int) -> tuple[Any, Any] | None:
    """What differs between a compiled `main` and a plain one, over a first call, a hit and another call."""
    source = run.text(seed, tensors=True)
    plain, ours = run.module(seed, source, tensors=True), run.module(seed, source, tensors=True)
    compiled = dynamlir.compile(ours.main, backend="eager")
    for other in (0, 0, 1):
        seen = run.came_to(
            ours, run.arguments(ours, seed + other, tensors=True), lambda _main, *given: compiled(*given)
        )
        expected = run.came_to(plain, run.arguments(plain, seed + other, tensors=True), operator.call)
        if seen != expected:
            return expected, seen
    return None
