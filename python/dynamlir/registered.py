"""What torch's registry of backends finds at the package's entry point.

The registry is not made for threads: those that look ``"dynamlir"`` up at once, for the first time, all load the entry
point, and each registers what it has found, which is an error for all but the first. Loading ends in here. So a thread
waits until the one before has registered, and then takes that away for its own turn.
"""

from __future__ import annotations

import threading
import time
from typing import Any

_PATIENCE = 5.0
"""Seconds after which a thread has been interrupted on its way to the registry."""
_turns = threading.Lock()
_since: float | None = None
"""When a thread went on its way to the registry; None before the first."""


def __getattr__(name: str) -> Any:
    if name != "dynamlir_backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from torch._dynamo.backends import registry

    from .backend import dynamlir_backend

    global _since
    with _turns:
        while _since is not None and "dynamlir" not in registry._COMPILER_FNS and time.monotonic() - _since < _PATIENCE:
            time.sleep(0.001)
        registry._COMPILER_FNS.pop("dynamlir", None)
        _since = time.monotonic()
    return dynamlir_backend
