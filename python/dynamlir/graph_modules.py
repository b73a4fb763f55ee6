"""Runs torch's `GraphModule`s: exceptions of their operations go to the caller, and nothing is printed.

Calling a `GraphModule` prints a traceback of its generated code to stderr before it raises. The same goes for the
``forward`` of one whose code has not been generated yet, as Dynamo passes them, the first time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx


def forward_of(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """Returns the generated code of a graph, as a bound method."""
    _ = module.code  # generates it if that was deferred
    return module.forward


def quiet(compiled: Any) -> Any:
    """Returns a callable that calls a graph as ``compiled(*inputs)`` does, with its hooks, but prints nothing. Anything
    else is returned as it is, and so is a graph of a class with its own ``__call__``."""
    if not isinstance(compiled, torch.fx.GraphModule) or _is_called_otherwise(type(compiled)):
        return compiled
    _ = compiled.code
    # Looked up at each call, because other code may patch it temporarily.
    return lambda *inputs: torch.nn.Module.__call__(compiled, *inputs)


def _is_called_otherwise(kind: type) -> bool:
    # Each graph has its own class, whose `__call__` is the one that prints.
    return any("__call__" in vars(base) for base in kind.__mro__[1 : kind.__mro__.index(torch.nn.Module)])
