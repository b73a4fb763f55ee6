"""The one door to the extension module: loaded late, so that a missing or broken build is a counted reason."""

from __future__ import annotations

import contextlib
import functools
import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import config
from .reasons import Fallback

if TYPE_CHECKING:
    from .aten.decompositions import Decomposer
    from .aten.derivatives import Differentiator


@functools.lru_cache(maxsize=1)
def _load() -> ModuleType:
    from .capture import copies

    module = importlib.import_module("dynamlir._native")
    copies.install(module.CompiledFunction)
    config.follow(lambda: _configure(module))
    return module


def _configure(module: ModuleType) -> None:
    """Hand over the settings that compiled callables look at on each call."""
    # What is wrong in the environment is said by the next compilation.
    with contextlib.suppress(ValueError):
        limits = (config.recompile_limit, config.accumulated_recompile_limit)
        module.configure(config.on_plain == "error", *limits, float(config.audit))


def module() -> ModuleType:
    """The extension module, or `Fallback`."""
    try:
        return _load()
    except ImportError as error:
        raise Fallback("native-missing", str(error)) from error


@functools.lru_cache(maxsize=1)
def decomposer() -> Decomposer:
    """The process's decompositions, for the operations this native module knows."""
    from .aten.decompositions import Decomposer

    native = module()
    return Decomposer(native.rust_ops(), native.keep_ops())


@functools.lru_cache(maxsize=1)
def differentiator() -> Differentiator:
    """The process's derivatives, for the operations that this native module has no rules for."""
    from .aten.derivatives import Differentiator

    return Differentiator(module().rust_rules(), module().rust_rules(better_recorded=True))


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


def forget_entries() -> None:
    """Forget the entries of all compiled functions."""
    if _is_loaded():
        _load().forget_entries()


def forget_kernels() -> None:
    """Forget compiled kernels and decompositions."""
    if _is_loaded():
        _load().clear_kernel_cache()
        decomposer.cache_clear()
        differentiator.cache_clear()


def _is_loaded() -> bool:
    return _load.cache_info().currsize > 0


def forget() -> None:
    """Drop what was derived from the module (for tests that exchange it)."""
    _load.cache_clear()
    decomposer.cache_clear()
    differentiator.cache_clear()


def run_failure(error: BaseException) -> str:
    """The reason that is counted for a run that failed before anything was written."""
    if isinstance(error, Fallback):
        return error.reason  # there is no graph for these sizes
    for name, reason in (("Misaligned", "misaligned"), ("Overlapping", "input-overlap"), ("Unfit", "input-unfit")):
        kind = getattr(module(), name, None)
        if kind is not None and isinstance(error, kind):
            return reason
    return "run-error"
