"""What torch imports when something is captured for the first time, where no interruption can hit it.

An import of so many modules that is given up half-way cannot be begun again: parts of them have registered themselves,
and raise where they do so once more. Handlers of signals run in the main thread. So another thread imports, the main
thread waits, and an interruption ends the waiting and nothing else.
"""

from __future__ import annotations

import _thread
import importlib
import sys
import threading

_NEEDED = "torch._dynamo.config"
"""The package, which fake modes ask for its settings, with all that it imports."""
_OF_IT = ("torch", "numpy", "sympy", "mpmath", "triton")
_ready = False
_importing: threading.Event | None = None


def ready() -> None:
    """Return once all that is imported: at once, but for the first time."""
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
        # It is there, or raises here what it has raised there.
        importlib.import_module(_NEEDED)
    _ready = True


def _import(done: threading.Event) -> None:
    try:
        importlib.import_module(_NEEDED)
    except BaseException:  # the one who waits meets it again
        pass
    finally:
        done.set()


def _is_within_import() -> bool:
    """Whether one of these modules is being imported: perhaps by this thread, for which another would wait forever."""
    modules = [sys.modules.get(name) for name in _OF_IT]
    return any(getattr(getattr(module, "__spec__", None), "_initializing", False) for module in modules)
