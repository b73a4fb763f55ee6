"""Objects whose attributes are written, and comparisons of them under `dynamlir.compile` and without it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import torch
from worlds import X, observed

CALLS = 24


class Thing:
    """An object with arbitrary attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def entries(function: Any) -> int:
    return len(function._cache)


def same(ours: Any, theirs: Any) -> None:
    """Compares attributes in their order, tensors by their values, the rest by type and value."""
    assert type(ours) is type(theirs)
    if isinstance(ours, torch.Tensor):
        torch.testing.assert_close(ours, theirs)
    elif isinstance(ours, Thing):
        assert list(vars(ours)) == list(vars(theirs))
        for name in vars(ours):
            same(vars(ours)[name], vars(theirs)[name])
    elif isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for pair in zip(ours, theirs):
            same(*pair)
    else:
        assert ours == theirs


def follow(function: Callable[..., Any], make: Callable[[], Thing], calls: int = CALLS) -> int:
    """The number of entries that several calls need that write to an object. Checks that each leaves it as a plain call
    does.
    """
    ours, theirs = make(), make()
    compiled = dynamlir.compile(function)
    for at in range(calls):
        x = X + at
        same(compiled(x, ours), function(x, theirs))
        same(ours, theirs)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return entries(compiled)


def either(world: Callable[[Any], Any]) -> None:
    """Runs a world both ways, captured or not: both must observe the same."""
    expected = observed(world, lambda function: function)
    assert observed(world, dynamlir.compile) == expected
    refused = {event.reason for event in dynamlir.fallbacks()}
    assert refused <= {"side-effect", "c-function", "unguardable", "output", "print", "raised", "resumed"}, (
        dynamlir.explain_last()
    )
