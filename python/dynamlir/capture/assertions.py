"""Functions of torch that decide by a tensor whether to raise.

In a graph the decision is an assertion: a call that does not hold it is repeated as plain Python before anything of the
user's is written, which raises in torch's own words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def all_true(valid: torch.Tensor, error_message: str) -> bool:
    """What distributions check their arguments with, `torch.distributions.distribution._all_true_or_runtime_assert`."""
    torch._assert_async(valid.all(), error_message)
    return True


def is_size(i: Any, message: Callable[[], str] | None = None, *, max: Any = None) -> None:
    """`torch._check_is_size`, which newer torches warn of."""
    torch._check(i >= 0, message)
    if max is not None:
        torch._check(i <= max, message)
