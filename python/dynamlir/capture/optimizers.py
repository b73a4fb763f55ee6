"""Replacements for the functions with which torch's optimizers read their step-count tensor.

When compiled, the optimizers use the tensor itself, which is ``float32``: a bias correction computed with it has that
precision, regardless of the parameters' precision. In eager they read it and compute with Python numbers. So does a
graph, see `dynamlir.scalars`.
"""

from __future__ import annotations

from typing import Any

import torch


def get_value(x: Any) -> Any:
    """Returns the number that a tensor holds; replaces `torch.optim.optimizer._get_value`."""
    return x.item() if isinstance(x, torch.Tensor) else x


def as_listed(x: Any) -> Any:
    """Returns numbers as they are listed, for lists of tensors; replaces
    `torch.optim.optimizer._stack_if_compiling`."""
    return x
