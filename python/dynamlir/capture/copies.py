"""Copies and pickles of compiled functions, which behave like those of the original.

The native type gets these methods when it is loaded; the extension alone does not depend on our Python code.
"""

from __future__ import annotations

import copy
import operator
import sys
import types
from collections.abc import Callable
from typing import Any


def install(kind: type, compile_again: Callable[..., Any]) -> None:
    """Gives the native type its ``__copy__``, ``__deepcopy__`` and ``__reduce_ex__``.

    ``compile_again`` compiles a function, with what an earlier one was compiled with. Pickles name it.
    """

    def shallow(compiled: Any) -> Any:
        """Returns the function itself: functions are their own copies."""
        return compiled

    def deep(compiled: Any, memo: dict[int, Any]) -> Any:
        """Returns the function itself; for a method of a copied object, the method of the copy."""
        model = compiled.__wrapped__
        if type(model) is types.FunctionType:
            return compiled
        copied = copy.deepcopy(model, memo)
        return compiled if copied is model else compile_again(copied, compiled._dynamlir_asked)

    def reduce(compiled: Any, protocol: int) -> Any:
        """Pickles by name where the name leads to the object, as for functions; else the original, to recompile."""
        module, name = getattr(compiled, "__module__", None), getattr(compiled, "__qualname__", None)
        if isinstance(module, str) and isinstance(name, str) and module in sys.modules:
            try:
                if operator.attrgetter(name)(sys.modules[module]) is compiled:
                    return name
            except AttributeError:
                pass
        return compile_again, (compiled.__wrapped__, compiled._dynamlir_asked)

    for name, function in (("__copy__", shallow), ("__deepcopy__", deep), ("__reduce_ex__", reduce)):
        setattr(kind, name, function)
