"""The package's entry point for torch's registry of backends.

The registry is not thread-safe. Threads that look up ``"dynamlir"`` simultaneously, for the first time, all load the
entry point, and each registers its result, which is an error for all but the first. Loading ends in this module. So a
thread waits here until the previous one has registered, and then removes that registration for its own turn.
"""

from __future__ import annotations

import threading
import time
from typing import Any

_PATIENCE = 5.0
"""The seconds after which a thread is assumed to have been interrupted before it reached the registry."""
_turns = threading.Lock()
_since: float | None = None
"""The time when a thread left for the registry; None before the first."""


def __getattr__(name: str) -> Any:
    if name != "dynamlir_backend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Torch imports this module to ask for the backend; dynamlir is imported only then.
    from torch._dynamo.backends import registry

    from .backend import dynamlir_backend  # as above

    global _since
    with _turns:
        while _since is not None and "dynamlir" not in registry._COMPILER_FNS and time.monotonic() - _since < _PATIENCE:
            time.sleep(0.001)
        registry._COMPILER_FNS.pop("dynamlir", None)
        _since = time.monotonic()
    return dynamlir_backend
