"""`dynamlir.compile` of a ``DistributedDataParallel`` compiles the module inside it.

The code around it – broadcasting buffers, a reducer that is notified about the call and waits for gradients – runs
unchanged. A frame containing all of it would not be captured, because it calls into torch's C++.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from . import compiled_modules


def is_distributed(model: Any) -> bool:
    """Returns true if the model synchronizes gradients while they are computed."""
    return isinstance(model, DistributedDataParallel)


def view_of(model: Any, inner: Any, again: tuple[Any, ...]) -> torch.nn.Module:
    """Returns the same module, calling ``inner`` instead of its own. It shares all attributes of ``model``."""
    made = compiled_modules.Made(model, again)
    view = compiled_modules.view_of(made)
    otherwise = compiled_modules.otherwise(made, "_run_ddp_forward")
    of_inner = compiled_modules.made_of(inner)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if made.view() is not self:
            return otherwise(self, *args, **kwargs)
        if self._use_python_reducer:
            return inner(*args, **kwargs)
        with self._inside_ddp_forward():
            return inner(*args, **kwargs)

    made.run = of_inner and of_inner.run
    compiled_modules.replace(made, "_run_ddp_forward", run)
    return view
