"""`dynamlir.compile` of a ``DistributedDataParallel``: the module in it is what is compiled.

What is around it – buffers that are sent, a reducer that is told of the call and waits for gradients – runs as it
always does. A frame that has all of it would not be captured, since it calls into torch's C++.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from . import views


def is_distributed(model: Any) -> bool:
    """Whether it is one that sends its gradients while they are computed."""
    return isinstance(model, DistributedDataParallel)


def view_of(model: Any, inner: Any, again: tuple[Any, ...]) -> torch.nn.Module:
    """The same module, which calls ``inner`` in place of the one that it has; it shares all of its attributes."""
    made = views.Made(model, again)
    view = views.view_of(made)
    otherwise = views.otherwise(made, "_run_ddp_forward")
    of_inner = views.made_of(inner)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if made.view() is not self:
            return otherwise(self, *args, **kwargs)
        if self._use_python_reducer:
            return inner(*args, **kwargs)
        with self._inside_ddp_forward():
            return inner(*args, **kwargs)

    made.run = of_inner and of_inner.run
    views.replace(made, "_run_ddp_forward", run)
    return view
