"""Functions whose graphs break, compared under `dynamlir.compile` and without it."""

from __future__ import annotations

import copy
import sys
import traceback
from collections.abc import Callable
from typing import Any

import dynamlir
import torch

X = torch.linspace(-1.0, 2.0, 6)


said: list[Any] = []


def say(*words: Any) -> None:
    """Asks who calls it, so it cannot be captured."""
    frame = sys._getframe(1)
    said.append((frame.f_code.co_name, frame.f_lineno, *words))


def outcome(function: Callable[..., Any], *args: Any) -> tuple[Any, ...]:
    """The outcome of a call: its value, or its exception with lines of this file; and the calls of `say` meanwhile."""
    said.clear()
    try:
        value: Any = function(*args)
    except Exception as error:
        entries = [(entry.name, entry.lineno) for entry in traceback.extract_tb(error.__traceback__)]
        value = (type(error), str(error), [entry for entry in entries if entry[0] != "outcome"])
    return value, list(said)


def alike(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, torch.Tensor):
        torch.testing.assert_close(ours, theirs)
        assert ours.requires_grad == theirs.requires_grad
    elif isinstance(theirs, (list, tuple)):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), (ours, theirs)
        for pair in zip(ours, theirs):
            alike(*pair)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        alike(list(ours.values()), list(theirs.values()))
    else:
        assert ours == theirs


def goes_on(function: Callable[..., Any], *args: Any, graphs: int | None = None, calls: int = 4) -> Callable[..., Any]:
    """Calls a function compiled and plain, several times. Checks that each call has the same outcome both ways, and the
    number of graphs in all.
    """
    compiled = dynamlir.compile(function)
    for _ in range(calls):
        theirs = outcome(function, *copy.deepcopy(args))
        alike(outcome(compiled, *copy.deepcopy(args)), theirs)
    counters = dynamlir.counters()
    assert counters["graph_breaks"] > 0, counters
    if graphs is not None:
        assert counters["graphs"] == graphs, (counters, dynamlir.fallbacks())
    return compiled
