"""The one door to the extension module: loaded late, so that a missing or broken build is a counted reason."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .reasons import Fallback

if TYPE_CHECKING:
    from .decompositions import Decomposer


@functools.lru_cache(maxsize=1)
def _load() -> ModuleType:
    return importlib.import_module("dynamlir._native")


def module() -> ModuleType:
    """The extension module, or `Fallback`."""
    try:
        return _load()
    except ImportError as error:
        raise Fallback("native-missing", str(error)) from error


@functools.lru_cache(maxsize=1)
def decomposer() -> Decomposer:
    """The process's decompositions, for the operations this native module knows."""
    from .decompositions import Decomposer

    native = module()
    return Decomposer(native.rust_ops(), native.keep_ops())


def fallback_of(error: Exception) -> Fallback | None:
    """The reason that a native ``Unsupported`` carries; None for any other exception."""
    kind: Any = getattr(module(), "Unsupported", None)
    if kind is None or not isinstance(error, kind):
        return None
    arguments = [*error.args, "", "", None][:3]
    reason = getattr(error, "reason_id", arguments[0])
    message = getattr(error, "message", arguments[1])
    location = getattr(error, "location", arguments[2])
    return Fallback(str(reason), str(message), list(location) if location else None)


def forget() -> None:
    """Drop what was derived from the module (for tests that exchange it)."""
    _load.cache_clear()
    decomposer.cache_clear()
