"""`dynamlir.compile` of a ``DistributedDataParallel``: the module in it is what is compiled.

What is around it – buffers that are sent, a reducer that is told of the call and waits for gradients – runs as it
always does. A frame that has all of it would not be captured, since it calls into torch's C++.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


def is_distributed(model: Any) -> bool:
    """Whether it is one that sends its gradients while they are computed."""
    return isinstance(model, DistributedDataParallel)


def view_of(model: Any, inner: Any, reduce: Callable[..., Any]) -> torch.nn.Module:
    """The same module, which calls ``inner`` in place of the one that it has; it shares all of its attributes."""
    kind: Any = type(model)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self._use_python_reducer:
            return inner(*args, **kwargs)
        with self._inside_ddp_forward():
            return inner(*args, **kwargs)

    members: dict[str, Any] = {
        "_run_ddp_forward": run,
        "__reduce_ex__": reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_orig_mod": property(lambda self: model),
        "_cache": property(lambda self: inner._cache),
        "_dynamlir_inner": inner,
        "_torchdynamo_orig_callable": model,
    }
    if not hasattr(kind, "reset"):
        members["reset"] = lambda self: inner.reset()
    view = object.__new__(type(kind)(kind.__name__, (kind,), members))
    type.__setattr__(type(view), "_torchdynamo_wrapper_id", id(view))
    object.__setattr__(view, "__dict__", model.__dict__)
    return view
