"""What the tests of torch's switches share: which way a call went, and why."""

from __future__ import annotations

import dynamlir
import torch

A, B = torch.arange(4.0), torch.arange(6.0)


def tells(x):
    """Its result says which way a call went, as far as the code is told."""
    return x + 1, torch.compiler.is_compiling()


def is_compiled(compiled, x=A):
    """Calls `tells`, compiled; whether a graph answered. The numbers are right in any case."""
    value, captured = compiled(x)
    assert torch.equal(value, x + 1)
    return captured


def only_reason():
    """The one reason for plain Python that was counted, with its message."""
    (event,) = dynamlir.fallbacks()
    return event.reason, event.message
