"""Running torch's `GraphModule`s: what their operations raise is the caller's, and nothing is printed besides.

A `GraphModule` that is called writes a traceback of its generated code to stderr before it raises. So does, the first
time, the ``forward`` of one whose code has not been generated yet, as Dynamo hands them over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx


def forward_of(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """The generated code of a graph, as a bound method."""
    _ = module.code  # generates it, where that has been put off
    return module.forward


def quiet(compiled: Any) -> Any:
    """What calls a graph as ``compiled(*inputs)`` does, with its hooks, and prints nothing; anything else is returned
    as it is, and so is a graph of a class with a ``__call__`` of its own."""
    if not isinstance(compiled, torch.fx.GraphModule) or _is_called_otherwise(type(compiled)):
        return compiled
    _ = compiled.code
    # Looked up at each call, as others may patch it for a while.
    return lambda *inputs: torch.nn.Module.__call__(compiled, *inputs)


def _is_called_otherwise(kind: type) -> bool:
    # Each graph has a class of its own, whose `__call__` is the one that prints.
    return any("__call__" in vars(base) for base in kind.__mro__[1 : kind.__mro__.index(torch.nn.Module)])
