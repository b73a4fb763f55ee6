"""`dynamlir.compile`: functions, methods and modules whose calls go to captured, compiled graphs."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import torch

from .. import config, native, reasons, report
from ..reasons import Fallback
from . import backends


class Unsupported(RuntimeError):
    """``fullgraph=True``, and the function cannot be captured whole: reason, Python line, hint."""


class Compiler:
    """What the native callable asks when no entry of its cache fits. One for each compiled object."""

    def __init__(self, name: str, backend: str | Callable[..., Any], fullgraph: bool, settings: config.Options) -> None:
        self.name = name
        self.fullgraph = fullgraph
        self.settings = settings
        self.backend = backends.resolve(backend)
        self.graphs: list[backends.Captured] = []

    def compile(self, captured: backends.Captured) -> backends.Runner:
        """A callable for a captured graph; `Fallback` when there is none."""
        runner = backends.compile_captured(captured, self.backend, self.settings)
        self.graphs.append(captured)
        return runner

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
        return _compile_module(model, Compiler(type(model).__qualname__, backend, fullgraph, settings))
    if not callable(model):
        raise TypeError(f"dynamlir.compile takes a function or a module, not {type(model).__name__}")
    function, bound = _function(model)
    name = getattr(function, "__qualname__", type(model).__qualname__)
    return native.module().CompiledFunction(function, bound, model, Compiler(name, backend, fullgraph, settings))


def _function(callable_: Any) -> tuple[types.FunctionType, tuple[Any, ...]]:
    """The Python function behind a callable, and the arguments it is bound to."""
    if isinstance(callable_, types.FunctionType):
        return callable_, ()
    if isinstance(callable_, types.MethodType):
        function, bound = _function(callable_.__func__)
        return function, (*bound, callable_.__self__)
    return _caller(), (callable_,)


def _caller() -> types.FunctionType:
    """``lambda self, *args, **kwargs: self(*args, **kwargs)`` with a code object, and so a cache, of its own."""

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self(*args, **kwargs)

    return types.FunctionType(call.__code__.replace(), call.__globals__, "call")


def _compile_module(module: torch.nn.Module, compiler: Compiler) -> torch.nn.Module:
    """The same module with another ``__call__``: it shares the attributes, parameters and hooks of ``module``."""
    kind = type(module)
    run = native.module().CompiledFunction(_caller(), (module,), module, compiler)

    def call(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        return run(*args, **kwargs)

    def reduce(self: torch.nn.Module, protocol: Any = None) -> Any:
        return _recompile, (module, compiler)

    members = {
        "__call__": call,
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


def is_reason(error: BaseException) -> Fallback | None:
    """The `Fallback` that an exception is or was caused by."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, Fallback):
            return seen
        seen = seen.__cause__
    return None
