"""Exceptions from outside of the captured or compiled code: Ctrl-C, and exceptions raised by a signal handler.

They belong to the caller, at whichever line they occur: they are not counted as a reason, do not make anything run as
plain eager, and are not seen by handlers in the captured function.
"""

from __future__ import annotations

import signal
import sys
import types
from typing import Any


def of(error: BaseException) -> BaseException | None:
    """Returns the interruption behind an exception: itself, or its cause; None for one of the program's own.

    The exception that the program was handling when it called is the context of everything raised meanwhile, but not
    its cause.
    """
    codes: set[types.CodeType] | None = None
    handled = sys.exc_info()[1]
    seen: set[int] = set() if handled is None or handled is error else {id(handled)}
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if isinstance(current, KeyboardInterrupt):
            return current
        if current.__traceback__ is not None:
            codes = _handlers() if codes is None else codes
            if codes and _passes(current.__traceback__, codes):
                return current
        current = current.__cause__ or current.__context__
    return None


def pass_on(error: BaseException) -> None:
    """Raises the interruption behind an exception that would be taken for a failure of ours."""
    found = of(error)
    if found is not None:
        raise found


def _passes(traceback: types.TracebackType | None, codes: set[types.CodeType]) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code in codes:
            return True
        traceback = traceback.tb_next
    return False


def _handlers() -> set[types.CodeType]:
    """Returns the code objects of the signal handlers written in Python."""
    codes = set()
    for number in signal.valid_signals():
        code = _code(signal.getsignal(number))
        if code is not None:
            codes.add(code)
    return codes


def _code(handler: Any) -> types.CodeType | None:
    for _ in range(10):
        if isinstance(handler, types.FunctionType):
            return handler.__code__
        if isinstance(handler, types.MethodType):
            handler = handler.__func__
        elif hasattr(handler, "func"):
            handler = handler.func
        elif isinstance(handler, signal.Handlers) or not callable(handler):
            return None
        else:
            handler = vars(type(handler)).get("__call__")
    return None
