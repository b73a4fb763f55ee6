"""Errors of the command line that are shown as one line, without a traceback."""

from __future__ import annotations

import os
import traceback


class Failure(Exception):
    """A command cannot do what was asked. The message says why, and what to do."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status


def of_program(error: BaseException) -> str:
    """Returns the traceback of an exception that the user's code raised, without the frames that called it."""
    ours = os.path.dirname(os.path.abspath(__file__))
    told = traceback.TracebackException.from_exception(error)
    for index, frame in enumerate(told.stack):
        if os.path.dirname(frame.filename) != ours and not frame.filename.startswith("<frozen "):
            del told.stack[:index]
            break
    return "".join(told.format()).rstrip()
