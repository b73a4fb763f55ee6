"""Tries texts in a child process first: some texts make MLIR's own parser abort the process.

The child loads the extension as a plain library, without torch, and is kept for further texts until this process ends.
If there is no Python to start it with, texts are not tried.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import threading

from . import native

_CHILD = """
import ctypes, os, sys
library = ctypes.CDLL(sys.argv[1])
for line in sys.stdin:
    sys.stdout.write("%d\\n" % library.dynamlir_parses(bytes.fromhex(line)))
    sys.stdout.flush()
"""

_FAULTS = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGILL", "SIGFPE", "SIGTRAP")

_lock = threading.Lock()
_child: subprocess.Popen[str] | None = None
_owner = 0
"""The process that started the child: a fork of it starts its own."""


def check(path: str) -> None:
    """Raises `ValueError` if the parser does not survive the text of a file."""
    if not os.path.isfile(path):
        return
    with _lock:
        fault = _fault(path) if _ask(path) else None
        if fault is not None:
            raise ValueError(f"{path}: MLIR's parser does not survive this text ({fault}), so it was not loaded")


def _ask(path: str) -> bool:
    """Returns true if the text made the child abort."""
    child = _started()
    if child is None or child.stdin is None or child.stdout is None:
        return False
    try:
        child.stdin.write(os.path.abspath(path).encode(errors="surrogateescape").hex() + "\n")
        child.stdin.flush()
        return not child.stdout.readline()
    except BrokenPipeError:
        return True
    except BaseException:
        # Its answer would be taken for the next one's.
        _stop()
        raise


def _fault(path: str) -> str | None:
    """Returns the signal that ended the child, if the text caused it."""
    assert _child is not None
    code = _child.wait()
    _stop()
    number = -code if code < 0 else code - 128
    return next((name for name in _FAULTS if getattr(signal, name) == number), None)


def _started() -> subprocess.Popen[str] | None:
    global _child, _owner
    if _child is not None and _owner == os.getpid() and _child.poll() is None:
        return _child
    if not sys.executable:
        return None
    library = native.module().__file__
    try:
        # In its own session: Ctrl-C is for this process.
        _child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD, str(library)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
    except OSError:
        return None
    _owner = os.getpid()
    return _child


@atexit.register
def _stop() -> None:
    """Ends the child, if it is this process's."""
    global _child
    child, _child = _child, None
    if child is not None and _owner == os.getpid():
        child.kill()
        child.communicate()
