"""Shared by the tests of torch's switches: whether a call was compiled, and the reason if it was not."""

from __future__ import annotations

import dynamlir
import torch

A, B = torch.arange(4.0), torch.arange(6.0)


def tells(x):
    """Returns a value that shows whether the call was captured, as far as `is_compiling` reports it."""
    return x + 1, torch.compiler.is_compiling()


def is_compiled(compiled, x=A):
    """Calls `tells`, compiled; returns true if a graph answered. The numbers are checked either way."""
    value, captured = compiled(x)
    assert torch.equal(value, x + 1)
    return captured


def only_reason():
    """The one counted reason for plain Python, with its message."""
    (event,) = dynamlir.fallbacks()
    return event.reason, event.message
