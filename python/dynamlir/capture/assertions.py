"""Functions of torch that inspect a tensor to decide whether to raise.

In a graph the decision is an assertion. A call that violates it is repeated as plain Python before the graph writes any
user state, so that torch raises its own message.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def all_true(valid: torch.Tensor, error_message: str) -> bool:
    """Checks the arguments of distributions, as `torch.distributions.distribution._all_true_or_runtime_assert` does."""
    torch._assert_async(valid.all(), error_message)
    return True


def is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """Replaces `torch._check_is_size`, for which newer torch versions give a warning."""
    torch._check(i >= 0, message)
    if max is not None:
        torch._check(i <= max, message)
