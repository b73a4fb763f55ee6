"""`dynamlir.compile`: functions, methods and modules whose calls run captured, compiled graphs."""

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

from .. import (
    config,
    foreign_modes,
    logs,
    native,
    nested_doors,
    plain_warnings,
    progress,
    reasons,
    reports,
    source_lines,
)
from ..options import resolve as resolve_options
from ..plain_warnings import Unsupported
from ..reasons import Fallback
from ..reports.decisions import Decision, Site
from . import attempts, audit, backends, compiled_modules, compiled_objects, copies, distributed, lightning, sharing
from .callable_types import Compiled, Decorator, Module, P, R

Asked = tuple[str | None, Mapping[str, Any] | None]
"""The user's ``mode`` and ``options``, validated."""


class Compiler:
    """Called by the native callable when no cache entry matches. There is one for each compiled object."""

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
        self.subject = plain_warnings.Subject(name, getattr(function, "__code__", None))
        self.backend = backends.resolve(backend)
        self.of_module = False
        """True if the function is the ``forward`` of a module, whose ``__call__`` is captured."""
        self.module: Callable[[], torch.nn.Module | None] = lambda: None
        self._lazy: int | None = None
        """The number of inner modules that still awaited lazy parameters from their first call, when last counted."""
        self.steps: Callable[..., None] | None = None
        self.callable: Any = None
        self._under: dict[str | int, Compiler] = {}
        self._fails_alone = False
        self._continuations = 0
        self._decided = reports.decisions.PendingByThread()
        _compilers.add(self)

    def may_compile(self, room: bool, own: int, everywhere: int, misses: list[str]) -> None:
        """Handles a call that matches no entry. ``own`` counts its own entries, ``everywhere`` the code object's.

        ``misses`` names the guard that failed for each entry. If there is no room for another entry, the call runs as
        plain Python, unless this raises.
        """
        if own and (log := logs.logger("recompiles")).isEnabledFor(logging.INFO):
            lines = "\n".join(f"- {miss}" for miss in dict.fromkeys(misses))
            log.info("%s matches no entry of its %d%s:\n%s", self._named(), own, _called(), lines)
        for miss in misses if room else ():
            self._decided.pending.append(Decision("guards", self._site(), "compile again", ("reuse an entry",), miss))
        if not room:
            place = f"{self.name} has {own} entries"
            if own < config.recompile_limit:
                place = f"the code of {self.name} has {everywhere} entries"
            last = f"; the last one fails at {misses[-1]}" if misses else ""
            self._note("cache-limit", place + last, self.defined())

    def disturbed(self) -> bool:
        """Returns true if one of torch's switches, or something active on this thread, makes the call run as plain
        Python.

        Raises where the call must not run as plain Python, but never because of a switch set by the user or under a
        foreign tracer.
        """
        nested_doors.keep_tracer_out()
        if foreign_modes.killed():
            return True
        failure = foreign_modes.active()
        if failure is not None:
            event = reasons.note(failure.reason, failure.message, failure.location)
            if failure.reason == "tracing":
                return True  # a traced call is compiled elsewhere, whole or not
            if self.fullgraph:
                raise Unsupported(str(event))
            self.tell(event)
        return failure is not None or self.is_initialized_by_call()

    def is_initialized_by_call(self) -> bool:
        """Returns true if this call initializes lazy modules. It runs as plain Python; the next call is compiled.

        Returns false if the previous call initialized none of them: those modules are not called.
        """
        module = None if self._lazy == 0 else self.module()
        if module is None:
            return False
        before = self._lazy
        self._lazy = sum("_initialize_hook" in vars(inner) for inner in _within(module))
        return self._lazy not in (0, before)

    def refused(self, misses: list[str]) -> RuntimeError:
        """Returns the error for a miss under ``torch.compiler.set_stance("fail_on_recompile")``."""
        code = self.function.__code__
        message = (
            "Detected recompile when torch.compile stance is 'fail_on_recompile'. "
            f"filename: '{code.co_filename}', function name: '{code.co_name}', line number: {code.co_firstlineno}"
        )
        lines = ["triggered by the following guard failure(s):", *(f"- {miss}" for miss in misses)] if misses else []
        return RuntimeError("\n    ".join([message, *lines]))

    def under(self, backend: str | Callable[..., Any]) -> Compiler:
        """Returns the compiler for ``torch.compiler.set_stance(force_backend=backend)``.

        The native part sets its ``callable``.
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
        """Returns whether graphs may take numbers read from tensors, whether they may take changing floats as inputs,
        and which sizes are dynamic: all (True), none (False), or those that have been seen to change (None)."""
        own = self.backend is backends.BACKENDS["dynamlir"]
        return own, own and self.dynamic is not False, self.dynamic if own else False

    def takes_unbacked(self) -> tuple[bool, bool, bool]:
        """Returns whether graphs may have unbacked sizes, whether they may have ints read from tensors, and whether the
        graph stays uncut where these become known."""
        own = self.backend is backends.BACKENDS["dynamlir"]
        if self.dynamic is False or not (own or backends.takes_unbacked(self.backend)):
            return False, False, False
        if self.dynamic:
            return True, True, not own
        torchs: Any = sys.modules.get("torch._dynamo.config")
        if torchs is None:
            return False, False, False
        return bool(torchs.capture_dynamic_output_shape_ops), bool(torchs.capture_scalar_outputs), not own

    def takes_recurrent(self) -> bool:
        """Returns true if graphs may have torch's recurrent layers; for foreign backends by torch's ``allow_rnn``."""
        if backends.is_own(self.backend):
            return True
        torchs: Any = sys.modules.get("torch._dynamo.config")
        return bool(torchs is not None and torchs.allow_rnn)

    def reset(self) -> None:
        """Discards what was compiled with backends that a stance forced."""
        logs.logger("cache").info("%s: emptied", self.name)
        self._under.clear()
        self._fails_alone = False

    def compile(self, frame: Any) -> backends.Runner | tuple[reasons.Event, bool]:
        """Returns a callable for a captured frame, or the result of `stopped` if the frame runs as plain Python."""
        captured = backends.Captured.of(self.name, frame, self.function if self.of_module else None)
        captured.whole = self.fullgraph
        self.log(frame)
        self._decided.pending.extend(attempts.take())
        if frame.session.sizes is not None:
            why = ", ".join(frame.session.varying)
            sizes = Decision("capture", self._site(), "sizes as symbols", ("sizes as numbers",), why)
            self._decided.pending.append(sizes)
        try:
            label = progress.label(self.name, self.function.__code__)
            decided = reports.decisions.collecting(self._decided.pending)
            with progress.Shown(label, since=captured.session.began), decided:
                return backends.compile_captured(captured, self.backend, resolve_options(*self.asked))
        except Fallback as failure:
            return self.stopped(failure.reason, failure.message, failure.location)

    def log(self, frame: Any) -> None:
        """Logs the captured graph, if that log is enabled."""
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
                log.info("%s: assumes %s%s", self.name, assumed, source_lines.described(tuple(lines)))
        if (log := logs.logger("side_effects")).isEnabledFor(logging.INFO):
            for statement, traceback in frame.effects:
                log.info("%s: %s%s", self.name, statement, source_lines.described(tuple(traceback)))
        if (log := logs.logger("cache")).isEnabledFor(logging.INFO):
            log.info("%s: a new entry, with %d guards", self.name, len(frame.code_parts))
            log.debug("%s", "\n".join(frame.code_parts))
        if (log := logs.logger("guards")).isEnabledFor(logging.DEBUG):
            assumed = dict(frame.session.sizes.guards) if frame.session.sizes is not None else {}
            guards = (
                part + (f"  #{source_lines.described(tuple(assumed[part]))}" if part in assumed else "")
                for part in frame.code_parts
            )
            log.debug("%s%s:\n%s", self._named(), _called(), "\n".join(guards))

    def shows_bytecode(self) -> bool:
        """Returns true if the bytecode of new entries is to be logged."""
        return logs.logger("bytecode").isEnabledFor(logging.DEBUG)

    def show(self, code: types.CodeType | Exception) -> None:
        """Logs the bytecode of a new entry, or the reason that it has none."""
        text = str(code) if isinstance(code, Exception) else native.module().decompile(code)
        logs.logger("bytecode").debug("%s: the entry as source:\n%s", self.name, text)

    def defined(self) -> reasons.Location:
        """Returns the definition's location, for reports that concern no particular line of the function."""
        code = self.function.__code__
        return [(code.co_filename, code.co_firstlineno, code.co_name, 0)]

    def failed(self, error: BaseException) -> None:
        """Reports that a graph raised before it wrote any user-visible state: the call is repeated as plain Python."""
        reason = native.run_failure(error)
        message = error.message if isinstance(error, Fallback) else f"{type(error).__name__}: {error}"
        event = reasons.note(reason, message, self.defined())
        reports.bump("calls_repeated_eagerly")
        if reason != "run-error" or self._fails_alone:
            self.tell(event)

    def repeated(self) -> None:
        """Called when plain Python succeeded where a graph had failed: from the next failure on, the user is warned."""
        self._fails_alone = True

    def stopped(
        self, reason: str, message: str, location: reasons.Location, forbidden: bool = False
    ) -> tuple[reasons.Event, bool]:
        """Called when a frame cannot be captured whole. The frame runs as plain Python, unless this raises.

        With ``forbidden`` it raises as under ``fullgraph=True``. Returns the event, and whether the user has been
        warned. There is no warning where plain Python is expected to run like this only once.
        """
        self._log_break(reason, message, location)
        self._decided.pending.extend(attempts.take())
        event = self._note(reason, message, location, forbidden)
        return event, not event.entry.waits

    def pieces(self) -> tuple[bool, bool, int | None]:
        """Returns whether frames that cannot be captured whole are captured in pieces, whether that holds only for the
        regions of `torch.cond`, `torch.while_loop` and `functools.lru_cache`, and the maximum number of instructions
        per piece."""
        return config.graph_breaks, self.fullgraph, None if self.fullgraph else config.break_every

    def broke(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        """Called at a graph break: CPython runs what follows, and the next graph begins after it."""
        event = self._log_break(reason, message, location)
        self._decided.pending.extend(attempts.take())
        self._decided.pending.append(Decision.of("capture", self.name, "several graphs", "one graph", event))
        if event.entry.whole:
            reports.bump("regions")
            return event
        event = reasons.note(reason, message, location or self.defined())
        reports.bump("graph_breaks")
        self.tell_break(event)
        return event

    def tell_break(self, event: reasons.Event) -> None:
        """Warns about a graph break, or raises. Otherwise CPython runs the next part of the frame."""
        # A graph break leads to further ones, about which there is nothing new to report.
        if not (event.entry.waits or event.entry.whole) and event.reason != "resumed":
            plain_warnings.tell(self.subject, event, breaks=True)

    def forbidden(self, event: reasons.Event) -> None:
        """Raises if a graph break or a plain run is an error here.

        It is not an error that CPython continues a frame after a break, since that follows from a break reported
        elsewhere. An exception raised by the program is an error only if everything has to be one graph.
        """
        is_break = event.reason != "resumed" and not event.entry.raises
        if not event.entry.passes and (self.fullgraph or is_break):
            raise Unsupported(str(event))

    def called(self, function: types.FunctionType) -> tuple[types.FunctionType, Compiler] | None:
        """Returns a function called between graphs, with its compiler; None if it is not compiled.

        The returned function has neither closure nor globals, because many functions may share this code.
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
        """Called when a call runs as plain Python for a reason that no cache entry records. May raise instead."""
        if reason == "compiling":
            # This is temporary, and a matter of timing.
            reasons.note(reason, self.name)
        else:
            self._note(reason, message, [])

    def begin_audit(self) -> audit.Undisturbed | str:
        """Begins an audit of a call. Returns the state to restore at its ``end``, or the reason to skip the audit."""
        return audit.begin()

    def audited(self, skipped: str | None) -> None:
        """Records an audit that found no difference, or was skipped for this reason."""
        audit.note(skipped)

    def stale(self, what: str, kept: str, found: str, read: list[str], guards: list[str], at: reasons.Location) -> None:
        """Reports that an audit found, and removed, a stale entry, which would have given an old answer."""
        audit.tell(self.subject, self._difference(what, kept, found, read, guards, at))

    def unsteady(
        self, what: str, kept: str, found: str, read: list[str], guards: list[str], at: reasons.Location
    ) -> None:
        """Reports that an audit captured a call twice and the two captures differ."""
        audit.note_unsteady(self._difference(what, kept, found, read, guards, at))

    def _difference(self, what: str, *rest: Any) -> audit.Difference:
        kept, found, read, guards, at = rest
        return audit.Difference(self.name, what, kept, found, tuple(read), tuple(guards), tuple(at or self.defined()))

    def tell(self, event: reasons.Event) -> None:
        """Warns that the call runs as plain Python, or raises."""
        if self.fullgraph and event.entry.passes:
            raise Unsupported(str(event))
        if not self._is_meant(event):
            plain_warnings.tell(self.subject, event)

    def _note(self, reason: str, message: str, location: reasons.Location, forbidden: bool = False) -> reasons.Event:
        event = reasons.note(reason, message, location or self.defined())
        if reason not in {"cache-limit", "observed"}:
            with reports.decisions.collecting(self._decided.pending):
                reports.add(reports.CompileReport(graph=self.name, eager=event))
        if self.fullgraph or forbidden:
            self.forbidden(event)
        if not event.entry.waits:
            self.tell(event)
        return event

    def _log_break(self, reason: str, message: str, location: reasons.Location) -> reasons.Event:
        event = reasons.Event(reason, message, tuple(location or self.defined()))
        logs.logger("graph_breaks").info("%s: %s", self.name, event, extra={"user_line": event.line})
        logs.logger("graph_breaks").debug("%s", "\n".join(f"  {source_lines.show(line)}" for line in location))
        return event

    def _named(self) -> str:
        """Returns the name with the place of the definition, if that is the user's."""
        place = self.subject.place
        return self.name if place is None else f"{self.name} at {place[0]}:{place[1]}"

    def _site(self) -> Site:
        code = self.function.__code__
        return Site(self.name, f"{code.co_filename}:{code.co_firstlineno}")

    def _is_meant(self, event: reasons.Event) -> bool:
        """Returns true if the user asked for this very function to run as plain Python."""
        marks = ("_torchdynamo_disable", "_dynamo_forbidden")
        return event.reason == "disabled" and any(getattr(self.function, mark, False) for mark in marks)


def _called() -> str:
    """Returns the user's line that this thread is at, as a part of a message."""
    line = source_lines.caller()
    return "" if line is None else f", called at {source_lines.show(line)}"


LATER = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
"""The flags of functions whose call only creates an object."""

_MODULES = os.path.join(source_lines.TORCH, "nn", "modules", "")
_DISPATCH = os.path.join(_MODULES, "module.py")
_RECURRENT = os.path.join(_MODULES, "rnn.py")


def _within(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yields a module and all modules within it, each once. Unlike `modules()`, accepts modules without a hash."""
    seen: set[int] = set()
    waiting = [module]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting.extend(inner for inner in one._modules.values() if inner is not None)


def is_dunder(name: str) -> bool:
    """Returns true for names of methods that Python itself calls, mostly for small operations."""
    return name.startswith("__") and name.endswith("__")


def is_compiled_when_called(code: types.CodeType) -> bool:
    """Returns true if code is compiled when it is called between graphs: the user's, and that of torch's modules."""
    file = code.co_filename
    return source_lines.is_users(file) or (file.startswith(_MODULES) and file != _DISPATCH)


_compilers: weakref.WeakSet[Compiler] = weakref.WeakSet()


def reset_all() -> None:
    """Discards the entries of everything that was compiled."""
    native.forget_entries()
    for compiler in list(_compilers):
        compiler.reset()


def reset(compiled: Any) -> None:
    """Discards the entries of what `compile` returned for a function or module."""
    if (made := compiled_modules.made_of(compiled)) is not None:
        compiled = made.run
    if not isinstance(compiled, native.module().CompiledFunction):
        raise TypeError(f"dynamlir.reset takes what dynamlir.compile returned, not {compiled!r}")
    # The function may have an attribute named ``reset``.
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
    """Compiles a function, method or module; also a decorator, with or without arguments.

    The first call captures the whole frame and compiles it; later calls check its guards and run the compiled
    graph. Where Python has to run something – a ``print``, ``.item()``, a data-dependent branch – the graph ends,
    CPython runs that part, and another graph begins after it. The same applies to functions called from there.
    `fallbacks()` gives the reasons. A frame for which graph breaks do not help runs as plain Python.
    ``fullgraph=True`` raises in both cases, at the first call that gets there. A decision by `torch.cond` or
    `torch.while_loop` is neither: it gives several graphs, with no code of the program between them.

    If nothing can be captured at all, on an unsupported CPython, the model itself is returned. Compiling the same
    object again with the same arguments shares the existing entries, and resetting either discards them. That is
    not so if ``backend`` is a callable or if ``options`` ask for a compilation, as ``dump`` and ``no_cache`` do.

    A size is specialised until it has changed. From then on one capture serves all sizes that take the same path
    through the program, and a graph is compiled for each size when it is first seen. After sixteen sizes, a graph
    is compiled only when a size is seen again; until then its calls run as plain Python. ``dynamic=True`` treats
    all sizes except 0 and 1 this way from the start; ``dynamic=False`` never does. It also keeps floats constant,
    which otherwise become graph inputs once they have changed, unless Python needs their values.
    `torch._dynamo.mark_dynamic` and its relatives decide for one size. Other backends get numbers for input sizes.

    With ``dynamic=True``, or with torch's ``capture_dynamic_output_shape_ops`` and ``capture_scalar_outputs``,
    unbacked sizes (``nonzero``, a mask) and ints read from tensors are captured too. This includes ``eager`` and
    callables, whose graphs then have nodes for these values and for the conditions on them; `torch._check` states
    assumptions about them.

    torch's modes are two behaviours under four names: ``default`` and ``reduce-overhead`` compile alike;
    ``max-autotune`` and ``max-autotune-no-cudagraphs`` measure the fastest way to compute products. None of them
    uses CUDA graphs. torch's own switches – `torch.compiler.set_stance`, ``disable``, ``allow_in_graph``,
    ``assume_constant_result``, ``substitute_in_graph`` – mean what they mean to torch.compile.

    For a ``DistributedDataParallel`` the module inside it is compiled. The first call of a module with lazy
    parameters initializes them and runs as plain Python. For a ``LightningModule`` its steps are compiled as well,
    because Lightning's trainer calls those.
    """
    if dynamic is not None and not isinstance(dynamic, bool):
        raise TypeError(f"dynamlir.compile takes True, False or None for dynamic, not {dynamic!r}")
    if not isinstance(fullgraph, bool):
        raise TypeError(f"dynamlir.compile takes True or False for fullgraph, not {fullgraph!r}")
    backends.resolve(backend)  # raises for an invalid one
    if model is None:
        return functools.partial(
            compile, backend=backend, fullgraph=fullgraph, dynamic=dynamic, mode=mode, options=options
        )
    resolve_options(mode, options)  # raises for invalid ones
    nested_doors.keep_tracer_out()
    model = nested_doors.innermost(model)
    asked = (mode, None if options is None else dict(options))
    if foreign_modes.killed_by_environment():
        return model
    made_with = {"backend": backend, "fullgraph": fullgraph, "dynamic": dynamic, "mode": mode, "options": asked[1]}
    if callable(model) and (refusal := _refusal()) is not None:
        event = reasons.note(refusal.reason, refusal.message)
        if fullgraph:
            raise Unsupported(str(event))
        if os.environ.get("DYNAMLIR_CAPTURE") != "0":  # which the user asks for
            plain_warnings.tell(plain_warnings.Subject(name_of(model), getattr(model, "__code__", None)), event)
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
    compiled_objects.note(compiled, compiler.name, function)
    if isinstance(model, (types.FunctionType, types.MethodType)):
        vars(compiled).update(model.__dict__)
    for attribute in functools.WRAPPER_ASSIGNMENTS:
        if (value := attribute_of(model, attribute)) is not _MISSING:
            setattr(compiled, attribute, value)
    compiled._dynamlir_asked = made_with
    # torch.compiler.disable and torch.compile find the original of a wrapper by this.
    compiled._torchdynamo_orig_callable = model
    compiled._torchdynamo_wrapper_id = id(compiled)
    # Dynamo inlines this when it encounters a wrapper in a function that it captures.
    compiled._torchdynamo_inline = model
    return compiled


def _refusal() -> Fallback | None:
    """Returns the reason that nothing can be captured in this process; compiled objects then stay as they were."""
    try:
        why = native.module().refusal()
    except Fallback as failure:
        return failure
    return None if why is None else Fallback("unknown-python", why)


_MISSING = object()


def attribute_of(model: Any, name: str) -> Any:
    """Returns an object's attribute, or `_MISSING`, even if its class raises on access."""
    try:
        return getattr(model, name, _MISSING)
    except Exception:
        return _MISSING


def name_of(model: Any) -> str:
    """Returns the name of a callable for reports."""
    name = attribute_of(model, "__qualname__")
    return name if isinstance(name, str) else type(model).__qualname__


def entry_point(callable_: Any) -> tuple[types.FunctionType | None, tuple[Any, ...]]:
    """Returns the Python function whose frame is captured for a callable, and the arguments bound to it.

    None instead of a function means a `sharing.caller`.
    """
    callable_ = nested_doors.innermost(callable_)
    if isinstance(callable_, torch.nn.Module):
        callable_ = compiled_modules.original(callable_)
    if isinstance(callable_, types.FunctionType):
        return callable_, ()
    if isinstance(callable_, types.MethodType) and isinstance(callable_.__func__, types.FunctionType):
        return callable_.__func__, (callable_.__self__,)
    return None, (callable_,)


def forward_of(module: torch.nn.Module) -> types.FunctionType:
    """Returns the function that implements a module's call."""
    forward: Any = module.forward
    return getattr(forward, "__func__", forward)


def _compile_module(module: torch.nn.Module, compiler: Compiler, made_with: dict[str, Any]) -> torch.nn.Module:
    """Returns the same module with another ``__call__``, sharing the attributes, parameters and hooks of ``module``."""
    wish = (made_with[name] for name in ("backend", "options", "fullgraph", "dynamic", "mode"))
    caller, share = sharing.shared(module, None, *wish)
    made = compiled_modules.Made(module, (compiled_again, (module, made_with)))
    view = compiled_modules.view_of(made)
    # Python passes the view first; it represents the module that the call is bound to.
    first = (weakref.ref(view), compiled_modules.otherwise(made, "__call__"))
    made.run = native.module().compiled_function(caller, [module], module, compiler, share, first)
    compiled_objects.note(made.run, compiler.name, compiler.function)
    compiled_modules.replace(made, "__call__", made.run)
    compiler.module = weakref.ref(module)
    for name in lightning.steps(type(module)):
        step = lightning.Step(compile(getattr(module, name), **made_with), made.view, type(module), name)
        compiled_modules.replace(made, name, step)
    return view


def compiled_again(model: Any, made_with: dict[str, Any]) -> Any:
    """Recompiles a copied or unpickled object."""
    return compile(model, **made_with)


native.on_load(lambda extension: copies.install(extension.CompiledFunction, compiled_again))
