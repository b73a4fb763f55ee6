"""The modules that torch imports at the first capture, imported where no interruption can hit.

An import of so many modules cannot be restarted if it is interrupted: some of them have registered themselves, and
raise when they do so again. Signal handlers run in the main thread. So another thread imports, the main thread waits,
and an interruption ends only the waiting.
"""

from __future__ import annotations

import _thread
import importlib
import sys
import threading

_NEEDED = "torch._dynamo.config"
"""The package from which fake modes read settings, with everything that it imports."""
_OF_IT = ("torch", "numpy", "sympy", "mpmath", "triton")
_ready = False
_importing: threading.Event | None = None


def ready() -> None:
    """Returns once everything is imported: at once, except for the first time."""
    global _ready, _importing
    if _ready:
        return
    if threading.current_thread() is not threading.main_thread() or _is_within_import():
        importlib.import_module(_NEEDED)
    else:
        if _importing is None or _importing.is_set():
            done = threading.Event()
            _thread.start_new_thread(_import, (done,))
            _importing = done
        _importing.wait()
        # It is present, or raises its exception again here.
        importlib.import_module(_NEEDED)
    _ready = True


def _import(done: threading.Event) -> None:
    try:
        importlib.import_module(_NEEDED)
    except BaseException:  # the waiting thread sees it again
        pass
    finally:
        done.set()


def _is_within_import() -> bool:
    """Returns true while one of these modules is being imported: maybe by this thread, which would deadlock."""
    modules = [sys.modules.get(name) for name in _OF_IT]
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in modules)
