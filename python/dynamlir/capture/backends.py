"""What is done with a captured graph: our own compiler, printed Python, torch's tools, or anybody's callable.

A backend gets a `Captured` and returns a callable that takes the graph's input tensors and returns its output tensors.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import interruptions, logs, report
from ..options import Options
from ..reasons import Fallback
from . import fx
from .session import Session

Runner = Callable[..., Sequence[Any]]
"""Takes the graph's inputs, returns its outputs as a list or tuple."""


@dataclasses.dataclass
class Captured:
    """A graph as the native capture hands it over."""

    name: str
    session: Session
    frame: Any
    """The native ``CapturedFrame``."""
    inputs: Sequence[torch.Tensor]
    """The real tensors of the first call, as example inputs."""
    text: str
    """The torch-level graph."""

    @staticmethod
    def of(name: str, frame: Any) -> Captured:
        """From a native ``CapturedFrame``."""
        return Captured(name, frame.session, frame, frame.inputs, frame.text)

    @functools.cached_property
    def module(self) -> torch.fx.GraphModule:
        """The graph for torch's tools."""
        fakes = [self.session.faker.known(real) for real in self.inputs]
        return fx.export(self.frame.nodes(), fakes, "Captured")


def _native(captured: Captured, settings: Options) -> Runner:
    from ..backend import compile_recording

    try:
        variant, made = compile_recording(captured.session.recording, captured.session.mode, settings, captured.name)
        runner = variant.native()
    except Fallback:
        raise
    except Exception as error:
        interruptions.pass_on(error)
        logs.logger("fallback").debug("%s", traceback.format_exc())
        raise Fallback("internal-error", f"{type(error).__name__}: {error}") from error
    report.add(made)
    return runner


def _python(captured: Captured, settings: Options) -> Runner:
    source, bound = captured.frame.python_source()
    logs.logger("output_code").debug("%s\n%s", captured.name, source)
    namespace = {"__name__": "dynamlir.graph", "torch": torch, **bound}
    exec(compile(source, f"<dynamlir graph of {captured.name}>", "exec"), namespace)
    return namespace["compiled_fn"]


def _jit(captured: Captured, settings: Options) -> Runner:
    function = _python(captured, settings)
    return torch.jit.trace(function, tuple(captured.inputs), check_trace=False)


def _eager(captured: Captured, settings: Options) -> Runner:
    return captured.module.forward


def _aot_eager(captured: Captured, settings: Options) -> Runner:
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(captured.module, tuple(captured.inputs), fw_compiler=lambda gm, _: gm.forward)


def _inductor(captured: Captured, settings: Options) -> Runner:
    from torch._inductor.compile_fx import compile_fx

    compiled: Any = compile_fx(captured.module, list(captured.inputs))
    return compiled


BACKENDS: dict[str, Callable[[Captured, Options], Runner]] = {
    "dynamlir": _native,
    "python": _python,
    "jit": _jit,
    "eager": _eager,
    "aot_eager": _aot_eager,
    "inductor": _inductor,
}
"""The backends known by name. Others are looked up in torch's registry, which imports torch._dynamo."""


def resolve(backend: str | Callable[..., Any]) -> Callable[[Captured, Options], Runner]:
    """The backend for a name or for a callable ``(GraphModule, example_inputs) -> callable``."""
    if isinstance(backend, str):
        known = BACKENDS.get(backend)
        if known is not None:
            return known
        backend = _registered(backend)
    if not callable(backend):
        raise TypeError(f"dynamlir: backend is {backend!r}, expected a name or a callable (GraphModule, inputs)")
    compiler = backend

    def custom(captured: Captured, settings: Options) -> Runner:
        return compiler(captured.module, list(captured.inputs))

    custom.__name__ = getattr(compiler, "__name__", "?")
    return custom


def _registered(name: str) -> Callable[..., Any]:
    """A backend that torch knows by name."""
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend

    try:
        return lookup_backend(name)
    except InvalidBackend:
        known = sorted({*BACKENDS, *list_backends()})
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"dynamlir: unknown backend {name!r}{hint}; known: {', '.join(known)}") from None


def compile_captured(captured: Captured, backend: Callable[[Captured, Options], Runner], settings: Options) -> Runner:
    """Run a backend; `Fallback` where the call is to be plain Python.

    What another's backend raises comes as torch.compile's exception, or not at all if torch is told to suppress it.
    """
    logs.logger("graph").debug("%s", captured.text)
    if backend is _native:
        return backend(captured, settings)
    try:
        runner = backend(captured, settings)
    except Exception as error:
        raise _failed(backend, error) from None
    if not callable(runner):
        raise Fallback("bad-backend", f"{type(runner).__name__}, not a callable")
    return runner


def _failed(backend: Callable[..., Any], error: Exception) -> Exception:
    """What comes of a backend's exception, as in torch.compile."""
    from torch._dynamo import config, exc

    if config.suppress_errors:
        return Fallback("backend-error", f"{type(error).__name__}: {error}".split("\n")[0])
    if isinstance(error, (Fallback, exc.ShortenTraceback, IndexError)):
        return error
    return exc.BackendCompilerFailed(backend, error, None).with_traceback(error.__traceback__)
