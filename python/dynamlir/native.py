"""The only access to the extension module: loaded late, so that a missing or broken build is a counted reason."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from . import config
from .reasons import Fallback

_hooks: list[Callable[[ModuleType], None]] = []
_derived: list[Callable[[], None]] = []

T = TypeVar("T")


@functools.lru_cache(maxsize=1)
def _load() -> ModuleType:
    module = importlib.import_module("dynamlir._native")
    for hook in _hooks:
        hook(module)
    config.follow(lambda: _configure(module))
    return module


def on_load(hook: Callable[[ModuleType], None]) -> None:
    """Calls ``hook`` with the extension module each time it is loaded, and now if it has been."""
    _hooks.append(hook)
    if _is_loaded():
        hook(_load())


def derived(make: Callable[[], T]) -> Callable[[], T]:
    """Caches what a function derives from the extension module, until the module's kernels are discarded."""
    cached = functools.lru_cache(maxsize=1)(make)
    _derived.append(cached.cache_clear)
    return cached


def _forget_derived() -> None:
    for clear in _derived:
        clear()


def _configure(module: ModuleType) -> None:
    """Passes on the settings that compiled callables read on each call."""
    # Errors in the environment are reported by the next compilation.
    with contextlib.suppress(ValueError):
        limits = (config.recompile_limit, config.accumulated_recompile_limit)
        module.configure(config.on_plain == "error", *limits, float(config.audit))


def module() -> ModuleType:
    """Returns the extension module; raises `Fallback` if it cannot be loaded."""
    try:
        return _load()
    except ImportError as error:
        raise Fallback("native-missing", str(error)) from error


def fallback_of(error: Exception) -> Fallback | None:
    """Returns the reason that a native ``Unsupported`` carries; None for any other exception."""
    kind: Any = getattr(module(), "Unsupported", None)
    if kind is None or not isinstance(error, kind):
        return None
    arguments = [*error.args, "", "", None][:3]
    reason = getattr(error, "reason_id", arguments[0])
    message = getattr(error, "message", arguments[1])
    location = getattr(error, "location", arguments[2])
    return Fallback(str(reason), str(message), list(location) if location else None)


def forget_entries() -> None:
    """Discards the entries of all compiled functions."""
    if _is_loaded():
        _load().forget_entries()


def forget_kernels() -> None:
    """Discards compiled kernels and decompositions."""
    if _is_loaded():
        _load().clear_kernel_cache()
        _forget_derived()


def _is_loaded() -> bool:
    return _load.cache_info().currsize > 0


def forget() -> None:
    """Drops what was derived from the module (for tests that exchange it)."""
    _load.cache_clear()
    _forget_derived()


def run_failure(error: BaseException) -> str:
    """Returns the reason to count for a run that failed before anything was written."""
    if isinstance(error, Fallback):
        return error.reason  # there is no graph for these sizes
    for name, reason in (("Misaligned", "misaligned"), ("Overlapping", "input-overlap"), ("Unfit", "input-unfit")):
        kind = getattr(module(), name, None)
        if kind is not None and isinstance(error, kind):
            return reason
    return "run-error"
