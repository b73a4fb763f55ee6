"""Copies and pickles of compiled functions: as those of what was compiled.

The native type is given them when it is loaded: by itself the extension needs no Python of ours.
"""

from __future__ import annotations

import copy
import operator
import sys
import types
from typing import Any


def shallow(compiled: Any) -> Any:
    """A function is its own copy."""
    return compiled


def deep(compiled: Any, memo: dict[int, Any]) -> Any:
    """A function is its own copy; a method of a copied object is one of the copy."""
    from .api import compiled_again

    model = compiled.__wrapped__
    if type(model) is types.FunctionType:
        return compiled
    copied = copy.deepcopy(model, memo)
    return compiled if copied is model else compiled_again(copied, compiled._dynamlir_asked)


def reduce(compiled: Any, protocol: int) -> Any:
    """By its name if that leads to it, as functions are pickled; else what was compiled, to be compiled again."""
    from .api import compiled_again

    module, name = getattr(compiled, "__module__", None), getattr(compiled, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str) and module in sys.modules:
        try:
            if operator.attrgetter(name)(sys.modules[module]) is compiled:
                return name
        except AttributeError:
            pass
    return compiled_again, (compiled.__wrapped__, compiled._dynamlir_asked)


def install(kind: type) -> None:
    """Gives the native type its ``__copy__``, ``__deepcopy__`` and ``__reduce_ex__``."""
    for name, function in (("__copy__", shallow), ("__deepcopy__", deep), ("__reduce_ex__", reduce)):
        setattr(kind, name, function)
