"""numpy's handling of floating-point errors, which is an input of a frame but not an argument.

A division by zero, an overflow or an invalid value is ignored, reported as a warning or raised, as set for the thread
at the time (`numpy.errstate`). A computation without such an error does not depend on that setting and may become a
constant of a graph. Otherwise it runs as plain Python, at each call.
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
    """Has ``refuse`` end the capture at a floating-point error in numpy."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "errstate"):
        yield
        return

    def called(kind: str, flag: int) -> None:
        refuse(Fallback("numpy-error", f"a floating-point error of numpy's: {kind}"))

    # numpy keeps its state in a context variable: the program's own context stays unchanged.
    context = contextvars.copy_context()
    if ctypes.pythonapi.PyContext_Enter(ctypes.py_object(context)) != 0:
        raise RuntimeError("a copy of the context cannot be entered")
    try:
        with numpy.errstate(all="call", call=called):
            yield
    finally:
        ctypes.pythonapi.PyContext_Exit(ctypes.py_object(context))
