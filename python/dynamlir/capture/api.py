"""`dynamlir.compile`: functions, methods and modules whose calls go to captured, compiled graphs."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

import torch

from .. import config, doors, logs, machinery, native, places, plain, progress, reasons, report
from ..options import resolve as resolve_options
from ..plain import Unsupported
from ..reasons import Fallback
from . import audit, backends, distributed, lightning, sharing, views
from .typed import Compiled, Decorator, Module, P, R

Asked = tuple[str | None, Mapping[str, Any] | None]
"""The user's ``mode`` and ``options``, checked."""


class Compiler:
    """What the native callable asks when no entry of its cache fits. One for each compiled object."""

    def __init__(
        self,
        function: types.FunctionType,
        name: str,
        backend: str | Callable[..., Any],
        fullgraph: bool,
        asked: Asked,
        dynamic: bool | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.fullgraph = fullgraph
        self.asked = asked
        self.dynamic = dynamic
        self.subject = plain.Subject(name, getattr(function, "__code__", None))
        self.backend = backends.resolve(backend)
        self.of_module = False
        """Whether the function is the ``forward`` of a module, whose ``__call__`` is what is captured."""
        self.module: Callable[[], torch.nn.Module | None] = lambda: None
        self._lazy: int | None = None
        """How many modules in it were to get their parameters from what they are called with, when it was looked at."""
        self.steps: Callable[..., None] | None = None
        self.callable: Any = None
        self._under: dict[str | int, Compiler] = {}
        self._fails_alone = False
        self._continuations = 0
        _compilers.add(self)

    def may_compile(self, room: bool, own: int, everywhere: int, misses: list[str]) -> None:
        """A call fits no entry: ``own`` are its own, ``everywhere`` those of the code object.

        ``misses`` says which guard of each entry failed. Where there is no room for one more entry the call runs as
        plain Python, if this does not raise.
        """
        if own:
            logs.logger("recompiles").info("%s: %s", self.name, "; ".join(misses))
        if not room:
            place = f"{self.name} has {own} entries"
            if own < config.recompile_limit:
                place = f"the code of {self.name} has {everywhere} entries"
            last = f"; the last one fails at {misses[-1]}" if misses else ""
            self._note("cache-limit", place + last, self.defined())

    def disturbed(self) -> bool:
        """Whether a switch of torch's, or what else is active on this thread, makes the call plain Python.

        Raises where it must not run, but not for a switch of the user's, nor under somebody else's tracer.
        """
        doors.keep_tracer_out()
        if machinery.killed():
            return True
        failure = machinery.active()
        if failure is not None:
            event = reasons.note(failure.reason, failure.message, failure.location)
            if failure.reason == "tracing":
                return True  # what is traced is compiled elsewhere, whole or not
            if self.fullgraph:
                raise Unsupported(str(event))
            self.tell(event)
        return failure is not None or self.is_initialized_by_call()

    def is_initialized_by_call(self) -> bool:
        """Returns true if modules get their parameters from this call, which plain Python makes: the next is compiled.

        Where the call before has given none of them any, such a module is not called.
        """
        module = None if self._lazy == 0 else self.module()
        if module is None:
            return False
        before = self._lazy
        self._lazy = sum("_initialize_hook" in vars(inner) for inner in _within(module))
        return self._lazy not in (0, before)

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
            known = self._under[key] = Compiler(
                self.function, self.name, backend, self.fullgraph, self.asked, self.dynamic
            )
            known.subject, known.of_module, known.module = self.subject, self.of_module, self.module
        return known

    def takes_numbers(self) -> tuple[bool, bool, bool | None]:
        """Whether graphs may have numbers that are read from tensors, and those that are floats which change; whether
        sizes vary: all of them, none, or those that are seen to (None)."""
        own = self.backend is backends.BACKENDS["dynamlir"]
        return own, own and self.dynamic is not False, self.dynamic if own else False

    def takes_unbacked(self) -> tuple[bool, bool, bool]:
        """Whether graphs may have sizes that only running tells, and ints that are read from tensors; and whether they
        are not cut there."""
        own = self.backend is backends.BACKENDS["dynamlir"]
        if self.dynamic is False or not (own or backends.takes_untold(self.backend)):
            return False, False, False
        if self.dynamic:
            return True, True, not own
        torchs: Any = sys.modules.get("torch._dynamo.config")
        if torchs is None:
            return False, False, False
        return bool(torchs.capture_dynamic_output_shape_ops), bool(torchs.capture_scalar_outputs), not own

    def takes_recurrent(self) -> bool:
        """Returns true if graphs may have torch's recurrent layers: others' have them by torch's switch only."""
        if backends.is_own(self.backend):
            return True
        torchs: Any = sys.modules.get("torch._dynamo.config")
        return bool(torchs is not None and torchs.allow_rnn)

    def reset(self) -> None:
        """Forget what was compiled by backends that a stance forced."""
        logs.logger("cache").info("%s: emptied", self.name)
        self._under.clear()
        self._fails_alone = False

    def compile(self, frame: Any) -> backends.Runner | tuple[reasons.Event, bool]:
        """A callable for a captured frame; what `stopped` says when it is for plain Python."""
        captured = backends.Captured.of(self.name, frame, self.function if self.of_module else None)
        captured.whole = self.fullgraph
        self.log(frame)
        try:
            label = progress.label(self.name, self.function.__code__)
            with progress.Shown(label, since=captured.session.began):
                return backends.compile_captured(captured, self.backend, resolve_options(*self.asked))
        except Fallback as failure:
            return self.stopped(failure.reason, failure.message, failure.location)

    def log(self, frame: Any) -> None:
        """What was captured, for those who asked for it."""
        if (log := logs.logger("bytecode")).isEnabledFor(logging.DEBUG):
            if rest := frame.continuation(self._continuations + 1):
                self._continuations += 1
                log.debug("%s after a graph break, as source:\n%s", self.name, "\n".join(rest))
            else:
                log.debug("%s\n%s", self.name, native.module().disassemble(self.function))
                log.debug("%s as source:\n%s", self.name, native.module().decompile(self.function))
        if frame.session.sizes is not None and (log := logs.logger("recompiles")).isEnabledFor(logging.INFO):
            log.info("%s: sizes that vary: %s", self.name, ", ".join(frame.session.varying))
            for assumed, lines in frame.session.sizes.guards:
                log.info("%s: assumes %s%s", self.name, assumed, places.described(tuple(lines)))
        if (log := logs.logger("side_effects")).isEnabledFor(logging.INFO):
            for statement, traceback in frame.effects:
                log.info("%s: %s%s", self.name, statement, places.described(tuple(traceback)))
        if (log := logs.logger("cache")).isEnabledFor(logging.INFO):
            log.info("%s: a new entry, with %d guards", self.name, len(frame.code_parts))
            log.debug("%s", "\n".join(frame.code_parts))
        if (log := logs.logger("guards")).isEnabledFor(logging.DEBUG):
            log.debug("%s:\n%s", self.name, "\n".join(frame.code_parts))

    def shows_bytecode(self) -> bool:
        """Whether somebody wants to see the code of new entries."""
        return logs.logger("bytecode").isEnabledFor(logging.DEBUG)

    def show(self, code: types.CodeType | Exception) -> None:
        """The code of a new entry, or why it has none."""
        text = str(code) if isinstance(code, Exception) else native.module().decompile(code)
        logs.logger("bytecode").debug("%s: the entry as source:\n%s", self.name, text)

    def defined(self) -> reasons.Location:
        """Where the function is defined, for what is about no line of it."""
        code = self.function.__code__
        return [(code.co_filename, code.co_firstlineno, code.co_name)]

    def failed(self, error: BaseException) -> None:
        """A graph raised before anything of the user's was written: the call is repeated as plain Python."""
        reason = native.run_failure(error)
        message = error.message if isinstance(error, Fallback) else f"{type(error).__name__}: {error}"
        event = reasons.note(reason, message, self.defined())
        report.bump("calls_repeated_eagerly")
        if reason != "run-error" or self._fails_alone:
            self.tell(event)

    def repeated(self) -> None:
        """After a graph had failed plain Python did not: there is something to tell, from the next failure on."""
        self._fails_alone = True

    def stopped(
        self, reason: str, message: str, location: reasons.Location, forbidden: bool = False
    ) -> tuple[reasons.Event, bool]:
        """A frame could not be captured whole: it is for plain Python, if it does not raise here.

        With ``forbidden`` it raises as under ``fullgraph=True``. Returns what happened, and whether the user has been
        told: not where plain Python is expected to run like this only once.
        """
        if (log := logs.logger("graph_breaks")).isEnabledFor(logging.INFO):
            log.info("%s: %s", self.name, reasons.Event(reason, message, tuple(location or self.defined())))
            log.debug("%s", "\n".join(f"  {places.show(line)}" for line in location))
        event = self._note(reason, message, location, forbidden)
        return event, not event.entry.waits

    def pieces(self) -> tuple[bool, bool, int | None]:
        """Whether frames are captured in pieces that cannot be whole, and how many instructions each has at most.

        Between, whether that is so only for the regions of `torch.cond`, `torch.while_loop` and `functools.lru_cache`.
        """
        return config.graph_breaks, self.fullgraph, None if self.fullgraph else config.break_every

    def broke(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        """A graph ends before its frame does: Python runs what comes there, and the next graph begins after it."""
        if (log := logs.logger("graph_breaks")).isEnabledFor(logging.INFO):
            log.info("%s: %s", self.name, reasons.Event(reason, message, tuple(location or self.defined())))
            log.debug("%s", "\n".join(f"  {places.show(line)}" for line in location))
        if reasons.REASONS[reason].whole:
            report.bump("regions")
            return reasons.Event(reason, message, tuple(location or self.defined()))
        event = reasons.note(reason, message, location or self.defined())
        report.bump("graph_breaks")
        self.tell_break(event)
        return event

    def tell_break(self, event: reasons.Event) -> None:
        """Python runs a part of the frame next, if this does not raise."""
        # One graph break leads to others, of which there is nothing new to say.
        if not (event.entry.waits or event.entry.whole) and event.reason != "resumed":
            plain.tell(self.subject, event, breaks=True)

    def forbidden(self, event: reasons.Event) -> None:
        """What ends a graph, or runs as plain Python, does so where that is an error.

        That Python goes on with what it has begun is none, as it follows from a break elsewhere; nor is an exception of
        the program's, unless all has to be one graph.
        """
        is_break = event.reason != "resumed" and not event.entry.raises
        if not event.entry.passes and (self.fullgraph or is_break):
            raise Unsupported(str(event))

    def called(self, function: types.FunctionType) -> tuple[types.FunctionType, Compiler] | None:
        """A function that is called between graphs, and its compiler; None where it is not compiled.

        The function that is kept has neither closure nor globals, which may be of one of many functions with this code.
        """
        code = function.__code__
        if code.co_flags & LATER or not is_compiled_when_called(code):
            return None
        if code.co_filename == _RECURRENT and not self.takes_recurrent():
            return None
        if is_dunder(code.co_name) and code.co_name != "__call__":
            return None
        closure = tuple(types.CellType() for _ in code.co_freevars)
        kept = types.FunctionType(code, {}, function.__name__, None, closure)
        kept.__qualname__ = function.__qualname__
        compiler = Compiler(kept, function.__qualname__, "eager", False, self.asked, self.dynamic)
        compiler.backend = self.backend
        return kept, compiler

    def unforeseen(self, reason: str, message: str) -> None:
        """A call runs as plain Python for a reason that no entry of the cache has, if this does not raise."""
        if reason == "compiling":
            # It passes by itself, and whether it happens is up to chance.
            reasons.note(reason, self.name)
        else:
            self._note(reason, message, [])

    def begin_audit(self) -> audit.Undisturbed | str:
        """What an audit of a call leaves as it was, until its ``end``; why it is skipped where it is."""
        return audit.begin()

    def audited(self, skipped: str | None) -> None:
        """An audit has found no difference, or was skipped for this reason."""
        audit.note(skipped)

    def stale(self, what: str, kept: str, found: str, read: list[str], guards: list[str], at: reasons.Location) -> None:
        """An audit has found an entry that would have given an old answer, and that is gone now."""
        audit.tell(self.subject, self._difference(what, kept, found, read, guards, at))

    def unsteady(
        self, what: str, kept: str, found: str, read: list[str], guards: list[str], at: reasons.Location
    ) -> None:
        """An audit has captured a call twice, and the two differ."""
        audit.note_unsteady(self._difference(what, kept, found, read, guards, at))

    def _difference(self, what: str, *rest: Any) -> audit.Difference:
        kept, found, read, guards, at = rest
        return audit.Difference(self.name, what, kept, found, tuple(read), tuple(guards), tuple(at or self.defined()))

    def tell(self, event: reasons.Event) -> None:
        """The call runs as plain Python next, if this does not raise."""
        if self.fullgraph and event.entry.passes:
            raise Unsupported(str(event))
        if not self._is_meant(event):
            plain.tell(self.subject, event)

    def _note(self, reason: str, message: str, location: reasons.Location, forbidden: bool = False) -> reasons.Event:
        event = reasons.note(reason, message, location or self.defined())
        if reason not in {"cache-limit", "observed"}:
            report.add(report.CompileReport(graph=self.name, eager=event))
        if self.fullgraph or forbidden:
            self.forbidden(event)
        if not event.entry.waits:
            self.tell(event)
        return event

    def _is_meant(self, event: reasons.Event) -> bool:
        """Whether it was the user who said that this very function is to run as plain Python."""
        marks = ("_torchdynamo_disable", "_dynamo_forbidden")
        return event.reason == "disabled" and any(getattr(self.function, mark, False) for mark in marks)


LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""What a function has whose call only makes an object."""

_MODULES = os.path.join(places.TORCH, "nn", "modules", "")
_DISPATCH = os.path.join(_MODULES, "module.py")
_RECURRENT = os.path.join(_MODULES, "rnn.py")


def _within(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """A module and all within it, each once. Unlike `modules()` it takes those that have no hash."""
    seen: set[int] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(inner for inner in one._modules.values() if inner is not None)


def is_dunder(name: str) -> bool:
    """Whether Python itself calls what has such a name, mostly for small things."""
    return name.startswith("__") and name.endswith("__")


def is_compiled_when_called(code: types.CodeType) -> bool:
    """Whether code is compiled that is called between graphs: the user's is, and that of torch's modules."""
    file = code.co_filename
    return places.is_users(file) or (file.startswith(_MODULES) and file != _DISPATCH)


_compilers: weakref.WeakSet[Compiler] = weakref.WeakSet()


def reset_all() -> None:
    """Forget the entries of all that was compiled."""
    native.forget_entries()
    for compiler in list(_compilers):
        compiler.reset()


def reset(compiled: Any) -> None:
    """Forget the entries of what `compile` returned for a function or module."""
    if (made := views.made_of(compiled)) is not None:
        compiled = made.run
    if not isinstance(compiled, native.module().CompiledFunction):
        raise TypeError(f"dynamlir.reset takes what dynamlir.compile returned, not {compiled!r}")
    # The function may have an attribute of that name.
    native.module().CompiledFunction.__dict__["reset"].__get__(compiled, type(compiled))()


Backend = str | Callable[..., Any]


@overload
def compile(  # type: ignore[overload-overlap]  # a module is callable, too
    model: Module,
    *,
    backend: Backend = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
) -> Module: ...
@overload
def compile(
    model: Callable[P, R],
    *,
    backend: Backend = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
) -> Compiled[P, R]: ...
@overload
def compile(
    model: None = None,
    *,
    backend: Backend = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    mode: str | None = ...,
    options: Mapping[str, Any] | None = ...,
) -> Decorator: ...
def compile(
    model: Any = None,
    *,
    backend: Backend = "dynamlir",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Any:
    """Compile a function, method or module; also a decorator, with or without arguments.

    The first call captures the whole frame and compiles it; later calls check its guards and run the compiled graph.
    Where Python has to run something – a ``print``, ``.item()``, a branch that data decides – the graph ends, Python
    runs that, and another graph begins after it, also in the functions that are called there; the reason is in
    `fallbacks()`. A frame for which that does not help runs as plain Python. ``fullgraph=True`` raises in both cases,
    at the call that first comes there. What `torch.cond` and `torch.while_loop` decide is neither: there are several
    graphs, with nothing of the program's between them.
    Where nothing can be captured at all, on a CPython that is not known, the model itself is returned. What is compiled
    once more with the same arguments has the entries that are there already, and loses them when either is reset,
    unless ``backend`` is a callable or ``options`` ask for a compilation, as ``dump`` and ``no_cache`` do.

    A size is specialised until it has changed; from then on one capture is right for all sizes that take the same path
    through the program, and beneath it a graph is made for each when it is met. After sixteen it is made when the size
    is met again; until then plain Python runs. ``dynamic=True`` does so for all sizes at once, but 0 and 1;
    ``dynamic=False`` never, nor with floats, which otherwise are inputs of the graph once they have changed, but for
    those whose values Python needs. `torch._dynamo.mark_dynamic` and its relatives say it of one size; other backends
    get numbers for sizes of inputs. With ``dynamic=True``, or where torch's ``capture_dynamic_output_shape_ops`` and
    ``capture_scalar_outputs`` say so, sizes that only running tells (``nonzero``, a mask) and ints that are read from
    tensors are captured too, also for ``eager`` and callables, which then have nodes for these and for what has to
    hold of them; `torch._check` promises what is to be counted on of them. torch's modes are two behaviours under four
    names: ``default`` and ``reduce-overhead`` compile alike, ``max-autotune`` and ``max-autotune-no-cudagraphs``
    measure how products are computed fastest; there are no CUDA graphs in any. Torch's own switches –
    `torch.compiler.set_stance`, ``disable``, ``allow_in_graph``, ``assume_constant_result``, ``substitute_in_graph`` –
    mean here what they mean to torch.compile. Of a ``DistributedDataParallel`` the module in it is compiled.
    The first call of a module with lazy parameters, which initializes them, is plain Python's. Of a
    ``LightningModule`` the steps are compiled as well, which are what Lightning's trainer calls.
    """
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamlir.compile takes True, False or None for dynamic, not {dynamic!r}")
    if not isinstance(fullgraph, bool):
        raise TypeError(f"dynamlir.compile takes True or False for fullgraph, not {fullgraph!r}")
    backends.resolve(backend)  # raises what is wrong with it
    if model is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options
        )
    resolve_options(mode, options)  # raises what is wrong with them
    doors.keep_tracer_out()
    model = doors.innermost(model)
    asked = (mode, None if options is None else dict(options))
    if machinery.killed_by_environment():
        return model
    made_with = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": asked[1]}
    if callable(model) and (refusal := _refusal()) is not None:
        event = reasons.note(refusal.reason, refusal.message)
        if fullgraph:
            raise Unsupported(str(event))
        if os.environ.get("DYNAMLIR_CAPTURE") != "0":  # which is somebody's wish
            plain.tell(plain.Subject(name_of(model), getattr(model, "__code__", None)), event)
        return model
    if distributed.is_distributed(model):
        inner = compiled_again(model.module, made_with)
        return distributed.view_of(model, inner, (compiled_again, (model, made_with)))
    if isinstance(model, torch.nn.Module):
        compiler = Compiler(forward_of(model), type(model).__qualname__, backend, fullgraph, asked, dynamic)
        compiler.of_module = True
        return _compile_module(model, compiler, made_with)
    if not callable(model):
        raise TypeError(f"dynamlir.compile takes a function or a module, not {type(model).__name__}")
    function, bound = entry_point(model)
    function, share = sharing.shared(model, function, backend, options, fullgraph, dynamic, mode)
    compiler = Compiler(function, name_of(model), backend, fullgraph, asked, dynamic)
    compiled = native.module().compiled_function(function, list(bound), model, compiler, share)
    if isinstance(model, (types.FunctionType, types.MethodType)):
        vars(compiled).update(model.__dict__)
    for attribute in functools.WRAPPER_ASSIGNMENTS:
        if (value := attribute_of(model, attribute)) is not _MISSING:
            setattr(compiled, attribute, value)
    compiled._dynamlir_asked = made_with
    # How torch.compiler.disable, and torch.compile, find what a wrapper was made of.
    compiled._torchdynamo_orig_callable = model
    compiled._torchdynamo_wrapper_id = id(compiled)
    # What Dynamo goes on with where it meets one in a function that it captures.
    compiled._torchdynamo_inline = model
    return compiled


def _refusal() -> Fallback | None:
    """Why nothing at all can be captured in this process: what is compiled stays what it is."""
    try:
        why = native.module().refusal()
    except Fallback as failure:
        return failure
    return None if why is None else Fallback("unknown-python", why)


_MISSING = object()


def attribute_of(model: Any, name: str) -> Any:
    """What an object has under a name, or `_MISSING`, even if its class raises when it is asked."""
    try:
        return getattr(model, name, _MISSING)
    except Exception:
        return _MISSING


def name_of(model: Any) -> str:
    """What a callable is called in reports."""
    name = attribute_of(model, "__qualname__")
    return name if isinstance(name, str) else type(model).__qualname__


def entry_point(callable_: Any) -> tuple[types.FunctionType | None, tuple[Any, ...]]:
    """The Python function whose frame is captured for a callable, and the arguments it is bound to.

    None stands for a `sharing.caller`.
    """
    callable_ = doors.innermost(callable_)
    if isinstance(callable_, torch.nn.Module):
        callable_ = views.original(callable_)
    if isinstance(callable_, types.FunctionType):
        return callable_, ()
    if isinstance(callable_, types.MethodType) and isinstance(callable_.__func__, types.FunctionType):
        return callable_.__func__, (callable_.__self__,)
    return None, (callable_,)


def forward_of(module: torch.nn.Module) -> types.FunctionType:
    """The function that says what a module does."""
    forward: Any = module.forward
    return getattr(forward, "__func__", forward)


def _compile_module(module: torch.nn.Module, compiler: Compiler, made_with: dict[str, Any]) -> torch.nn.Module:
    """The same module with another ``__call__``: it shares the attributes, parameters and hooks of ``module``."""
    wish = (made_with[name] for name in ("backend", "options", "fullgraph", "dynamic", "mode"))
    caller, share = sharing.shared(module, None, *wish)
    made = views.Made(module, (compiled_again, (module, made_with)))
    view = views.view_of(made)
    # Python calls it with the view first, which stands for the module that it is bound to.
    first = (weakref.ref(view), views.otherwise(made, "__call__"))
    made.run = native.module().compiled_function(caller, [module], module, compiler, share, first)
    views.replace(made, "__call__", made.run)
    compiler.module = weakref.ref(module)
    for name in lightning.steps(type(module)):
        step = lightning.Step(compile(getattr(module, name), **made_with), made.view, type(module), name)
        views.replace(made, name, step)
    return view


def compiled_again(model: Any, made_with: dict[str, Any]) -> Any:
    """What a copy of something compiled is, or what is read back from a pickle."""
    return compile(model, **made_with)
