"""What numpy does with floating-point errors, which is an input that is no argument.

A division by zero, an overflow or an invalid value is ignored, warned of or raised as the thread says at the time
(`numpy.errstate`). What is computed without such an error does not depend on that, and may be a constant of a graph;
the rest is left to Python, at each call.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import sys
from collections.abc import Callable, Iterator
from typing import Any

from ..reasons import Fallback


@contextlib.contextmanager
def refused(refuse: Callable[[Fallback], None]) -> Iterator[None]:
    """Have ``refuse`` end the capture at a floating-point error of numpy's."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "errstate"):
        yield
        return

    def called(kind: str, flag: int) -> None:
        refuse(Fallback("numpy-error", f"a floating-point error of numpy's: {kind}"))

    # numpy keeps its state in a variable of the context: the program's own context is left as it is.
    context = contextvars.copy_context()
    if ctypes.pythonapi.PyContext_Enter(ctypes.py_object(context)) != 0:
        raise RuntimeError("a copy of the context cannot be entered")
    try:
        with numpy.errstate(all="call", call=called):
            yield
    finally:
        ctypes.pythonapi.PyContext_Exit(ctypes.py_object(context))
