"""Functions of torch that decide by a tensor whether to raise.

In a graph the decision is an assertion: a call that does not hold it is repeated as plain Python before anything of the
user's is written, which raises in torch's own words.
"""

from __future__ import annotations

import torch


def all_true(valid: torch.Tensor, error_message: str) -> bool:
    """What distributions check their arguments with, `torch.distributions.distribution._all_true_or_runtime_assert`."""
    torch._assert_async(valid.all(), error_message)
    return True
