"""What torch's optimizers ask of a tensor that counts their steps.

To a compiler they give the tensor, which is of ``float32``: a bias correction computed with it has that precision,
whatever the parameters have. In eager they read it, and compute with Python's numbers. So does a graph, see
`dynamlir.scalars`.
"""

from __future__ import annotations

from typing import Any

import torch


def get_value(x: Any) -> Any:
    """The number that a tensor holds, in place of `torch.optim.optimizer._get_value`."""
    return x.item() if isinstance(x, torch.Tensor) else x


def as_listed(x: Any) -> Any:
    """Numbers as they are listed, for lists of tensors, in place of `torch.optim.optimizer._stack_if_compiling`."""
    return x
