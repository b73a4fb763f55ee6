"""Runs grown functions over tensors through the front door, on torch's own kernels: differences are capture errors."""

from __future__ import annotations

import contextlib
import itertools
import operator
import signal
import time
from collections.abc import Iterator
from typing import Any

import dynamlir
from interpreted.support import HARNESS

from . import run

HARNESS.add(__file__)


def seeds(first: int, seconds: float) -> Iterator[int]:
    """Seeds from the first one on, for this number of seconds."""
    stop = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < stop, itertools.count(first))


class Endless(BaseException):
    """Raised when a grown function has run for too long."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[list[bool]]:
    """Raises `Endless` in the block after that time, repeatedly, since a grown function may catch it. Yields a list
    that stays empty if it was never raised. Counting steps, as elsewhere, would be a side effect, which is not
    captured.
    """
    over: list[bool] = []

    def stop(*_: object) -> None:
        over.append(True)
        raise Endless

    former = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.2)
    try:
        yield over
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def captured(seed: int) -> tuple[Any, Any] | None:
    """Runs `main` plain and compiled: a first call, a cache hit and a call with other arguments. Returns the first two
    outcomes that differ.

    None if none differ, or if plain Python does not end.
    """
    source = run.text(seed, tensors=True)
    plain, ours = run.module(seed, source, tensors=True), run.module(seed, source, tensors=True)
    compiled = dynamlir.compile(ours.main, backend="eager")
    for other in (0, 0, 1):
        with within(10) as over:
            expected = run.came_to(plain, run.arguments(plain, seed + other, tensors=True), operator.call)
        if over:
            return None
        with within(120):
            seen = run.came_to(
                ours, run.arguments(ours, seed + other, tensors=True), lambda _main, *given: compiled(*given)
            )
        if seen != expected:
            return expected, seen
    return None
