"""The same world twice, once with plain Python and once with `dynamlir.compile`: both must observe the same."""

from __future__ import annotations

import dynamlir
import torch

X = torch.ones(2)


def shown(value):
    """Everything observable about a value, without identities."""
    if isinstance(value, torch.Tensor):
        return type(value).__name__, value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, [(shown(key), shown(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [shown(item) for item in value]
    if isinstance(value, type) or not hasattr(value, "__dict__"):
        return repr(value)
    return type(value).__name__, shown(vars(value))


def observed(world, compile_):
    """The results of a world's calls, or its exception."""
    try:
        return shown(world(compile_))
    except Exception as error:
        return type(error).__name__, str(error)


def alike(world, *reasons: str):
    """Runs a world both ways. With ``reasons`` it must not be captured, and only these reasons may be counted."""
    dynamlir.reset()
    expected = observed(world, lambda function: function)
    assert observed(world, dynamlir.compile) == expected
    counted = {event.reason for event in dynamlir.fallbacks()}
    assert counted <= set(reasons) and bool(counted) == bool(reasons), [str(event) for event in dynamlir.fallbacks()]
