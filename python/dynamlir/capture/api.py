"""`dynamlir.compile`: functions, methods and modules whose calls go to captured, compiled graphs."""

from __future__ import annotations

import functools
import logging
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import config, logs, native, reasons, report
from ..reasons import Fallback
from . import backends


class Unsupported(RuntimeError):
    """``fullgraph=True``, and the function cannot be captured whole: reason, Python line, hint."""


class Compiler:
    """What the native callable asks when no entry of its cache fits. One for each compiled object."""

    def __init__(
        self,
        function: types.FunctionType,
        name: str,
        backend: str | Callable[..., Any],
        fullgraph: bool,
        settings: config.Options,
    ) -> None:
        self.function = function
        self.name = name
        self.fullgraph = fullgraph
        self.settings = settings
        self.backend = backends.resolve(backend)
        self.steps: Callable[..., None] | None = None

    def may_compile(self, entries: int, limit: int, misses: list[str]) -> bool:
        """Whether one more entry may be made; ``misses`` says which guard of each entry failed."""
        if entries:
            logs.logger("recompiles").info("%s: %s", self.name, "; ".join(misses))
        if entries < limit:
            return True
        if not self._limit_noted:
            self._limit_noted = True
            message = f"{self.name} has {entries} entries; the last one fails at {misses[-1] if misses else '?'}"
            reasons.note("cache-limit", message)
            warnings.warn(f"dynamlir: {message}; calls that no entry fits run as plain Python", stacklevel=2)
        return False

    _limit_noted = False

    def compile(self, frame: Any) -> backends.Runner | None:
        """A callable for a captured frame; None when it is for plain Python."""
        captured = backends.Captured.of(self.name, frame)
        self.log(frame)
        try:
            return backends.compile_captured(captured, self.backend, self.settings)
        except Fallback as failure:
            self.stopped(failure.reason, failure.message, failure.location)
            return None

    def log(self, frame: Any) -> None:
        """What was captured, for those who asked for it."""
        if (log := logs.logger("bytecode")).isEnabledFor(logging.DEBUG):
            log.debug("%s\n%s", self.name, native.module().disassemble(self.function))
            log.debug("%s as source:\n%s", self.name, native.module().decompile(self.function))
        if (log := logs.logger("guards")).isEnabledFor(logging.DEBUG):
            log.debug("%s:\n%s", self.name, "\n".join(frame.code_parts))

    def failed(self, error: BaseException) -> bool:
        """Whether a call whose graph raised is to be repeated as plain Python."""
        if not isinstance(error, native.module().RunError):
            return False
        reasons.note("run-error", f"{type(error).__name__}: {error}")
        report.bump("calls_repeated_eagerly")
        return True

    def stopped(self, reason: str, message: str, location: reasons.Location) -> None:
        """A frame could not be captured whole: it runs as plain Python, or raises under ``fullgraph``."""
        event = reasons.note(reason, message, location)
        report.add(report.CompileReport(graph=self.name, eager=event))
        if self.fullgraph:
            raise Unsupported(str(event))


def compile(
    model: Any = None,
    *,
    backend: str | Callable[..., Any] = "dynamlir",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function, method or module; also a decorator, with or without arguments.

    The first call captures the whole frame and compiles it; later calls check its guards and run the compiled graph. A
    frame that cannot be captured whole runs as plain Python, with a reason in `fallbacks()`; ``fullgraph=True`` raises.
    ``dynamic`` is accepted for compatibility: sizes are specialised so far.
    """
    if model is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options
        )
    settings = config.resolve(mode, options)
    if isinstance(model, torch.nn.Module):
        return _compile_module(model, Compiler(_forward(model), type(model).__qualname__, backend, fullgraph, settings))
    if not callable(model):
        raise TypeError(f"dynamlir.compile takes a function or a module, not {type(model).__name__}")
    function, bound = entry_point(model)
    name = getattr(function, "__qualname__", type(model).__qualname__)
    compiler = Compiler(function, name, backend, fullgraph, settings)
    compiled = native.module().compiled_function(function, list(bound), model, compiler)
    for attribute in functools.WRAPPER_ASSIGNMENTS:
        if hasattr(model, attribute):
            setattr(compiled, attribute, getattr(model, attribute))
    return compiled


def entry_point(callable_: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The Python function whose frame is captured for a callable, and the arguments it is bound to."""
    if isinstance(callable_, native.module().CompiledFunction):
        callable_ = callable_.__wrapped__
    elif isinstance(callable_, torch.nn.Module):
        callable_ = getattr(callable_, "_orig_mod", callable_)
    if isinstance(callable_, types.FunctionType):
        return callable_, ()
    if isinstance(callable_, types.MethodType) and isinstance(callable_.__func__, types.FunctionType):
        return callable_.__func__, (callable_.__self__,)
    return _caller(), (callable_,)


def _caller() -> types.FunctionType:
    """``lambda self, *args, **kwargs: self(*args, **kwargs)`` with a code object, and so a cache, of its own."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call")


def _forward(module: torch.nn.Module) -> types.FunctionType:
    """The function that says what a module does."""
    forward = module.forward
    return getattr(forward, "__func__", forward)


def _compile_module(module: torch.nn.Module, compiler: Compiler) -> torch.nn.Module:
    """The same module with another ``__call__``: it shares the attributes, parameters and hooks of ``module``."""
    kind = type(module)
    # Python calls it with the view first, which stands for the module that it is bound to.
    run = native.module().compiled_function(_caller(), [module], module, compiler, skip_first=True)

    def reduce(self: torch.nn.Module, protocol: Any = None) -> Any:
        return _recompile, (module, compiler)

    members = {
        "__call__": run,
        "__reduce_ex__": reduce,
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "_orig_mod": property(lambda self: module),
        "_cache": property(lambda self: run._cache),
    }
    view = object.__new__(type(kind)(kind.__name__, (kind,), members))
    object.__setattr__(view, "__dict__", module.__dict__)
    return view


def _recompile(module: torch.nn.Module, compiler: Compiler) -> torch.nn.Module:
    return _compile_module(module, compiler)
