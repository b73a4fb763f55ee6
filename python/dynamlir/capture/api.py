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
        self.callable: Any = None
        self._under: dict[str | int, Compiler] = {}

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

    def refused(self, misses: list[str]) -> RuntimeError:
        """What a call raises that no entry fits under ``torch.compiler.set_stance("fail_on_recompile")``."""
        code = self.function.__code__
        message = (
            "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
            f"filename: '{code.co_filename}', function name: '{code.co_name}', line number: {code.co_firstlineno}"
        )
        lines = ["triggered by the following guard failure(s):", *(f"- {miss}" for miss in misses)] if misses else []
        return RuntimeError("\n    ".join([message, *lines]))

    def under(self, backend: str | Callable[..., Any]) -> Compiler:
        """The compiler for ``torch.compiler.set_stance(force_backend=backend)``.

        Its ``callable`` is what the native part makes of it.
        """
        key = backend if isinstance(backend, str) else id(backend)
        known = self._under.get(key)
        if known is None:
            known = self._under[key] = Compiler(self.function, self.name, backend, self.fullgraph, self.settings)
        return known

    def reset(self) -> None:
        """Forget what was compiled by backends that a stance forced."""
        self._under.clear()

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
        misaligned = isinstance(error, native.module().Misaligned)
        reasons.note("misaligned" if misaligned else "run-error", f"{type(error).__name__}: {error}")
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
    Where nothing can be captured at all, on a CPython that is not known, the model itself is returned.

    Sizes are specialised: each new shape is compiled, up to a limit, whatever ``dynamic`` says. ``dynamic=False`` asks
    for just that; ``None`` and ``True`` leave room for later. A tensor that `torch._dynamo.mark_dynamic` was called on
    is never specialised: the call runs as plain Python. Torch's own switches – `torch.compiler.set_stance`,
    ``disable``, ``allow_in_graph``, ``assume_constant_result``, ``substitute_in_graph`` – mean here what they mean to
    torch.compile.
    """
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamlir.compile takes True, False or None for dynamic, not {dynamic!r}")
    if model is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options
        )
    settings = config.resolve(mode, options)
    if callable(model) and (refusal := _refusal()) is not None:
        event = reasons.note(refusal.reason, refusal.message)
        if fullgraph:
            raise Unsupported(str(event))
        return model
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
    # How torch.compiler.disable, and torch.compile, find what a wrapper was made of.
    compiled._torchdynamo_orig_callable = model
    compiled._torchdynamo_wrapper_id = id(compiled)
    return compiled


def _refusal() -> Fallback | None:
    """Why nothing at all can be captured in this process: what is compiled stays what it is."""
    try:
        why = native.module().refusal()
    except Fallback as failure:
        return failure
    return None if why is None else Fallback("unknown-python", why)


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
        # As for functions. On the class, since what the view stores is stored in the module.
        "_torchdynamo_orig_callable": module,
    }
    view = object.__new__(type(kind)(kind.__name__, (kind,), members))
    type.__setattr__(type(view), "_torchdynamo_wrapper_id", id(view))
    object.__setattr__(view, "__dict__", module.__dict__)
    return view


def _recompile(module: torch.nn.Module, compiler: Compiler) -> torch.nn.Module:
    return _compile_module(module, compiler)
