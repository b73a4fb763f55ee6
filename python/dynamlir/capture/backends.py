"""What is done with a captured graph: our own compiler, printed Python, torch's tools, or anybody's callable.

A backend gets a `Captured` and returns a callable that takes the graph's input tensors and returns its output tensors.
"""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import config, logs, report
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


def _native(captured: Captured, settings: config.Options) -> Runner:
    from ..backend import compile_recording

    try:
        variant, made = compile_recording(captured.session.recording, captured.session.mode, settings, captured.name)
        runner = variant.native()
    except Fallback:
        raise
    except Exception as error:
        logs.logger("fallback").debug("%s", traceback.format_exc())
        raise Fallback("internal-error", f"{type(error).__name__}: {error}") from error
    report.add(made)
    return runner


def _python(captured: Captured, settings: config.Options) -> Runner:
    source, bound = captured.frame.python_source()
    logs.logger("output_code").debug("%s\n%s", captured.name, source)
    namespace = {"__name__": "dynamlir.graph", "torch": torch, **bound}
    exec(compile(source, f"<dynamlir graph of {captured.name}>", "exec"), namespace)
    return namespace["compiled_fn"]


def _jit(captured: Captured, settings: config.Options) -> Runner:
    function = _python(captured, settings)
    return torch.jit.trace(function, tuple(captured.inputs), check_trace=False)


def _eager(captured: Captured, settings: config.Options) -> Runner:
    return captured.module.forward


def _aot_eager(captured: Captured, settings: config.Options) -> Runner:
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(captured.module, tuple(captured.inputs), fw_compiler=lambda gm, _: gm.forward)


def _inductor(captured: Captured, settings: config.Options) -> Runner:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(captured.module, list(captured.inputs))


BACKENDS: dict[str, Callable[[Captured, config.Options], Runner]] = {
    "dynamlir": _native,
    "python": _python,
    "jit": _jit,
    "eager": _eager,
    "aot_eager": _aot_eager,
    "inductor": _inductor,
}
"""The backends known by name. Others are looked up in torch's registry, which imports torch._dynamo."""


def resolve(backend: str | Callable[..., Any]) -> Callable[[Captured, config.Options], Runner]:
    """The backend for a name or for a callable ``(GraphModule, example_inputs) -> callable``."""
    if isinstance(backend, str):
        known = BACKENDS.get(backend)
        if known is not None:
            return known
        from torch._dynamo import lookup_backend

        backend = lookup_backend(backend)
    compiler = backend

    def custom(captured: Captured, settings: config.Options) -> Runner:
        return compiler(captured.module, list(captured.inputs))

    return custom


def compile_captured(
    captured: Captured, backend: Callable[[Captured, config.Options], Runner], settings: config.Options
) -> Runner:
    """Run a backend; its own exceptions pass, reasons of ours become `Fallback`."""
    logs.logger("graph").debug("%s", captured.text)
    runner = backend(captured, settings)
    if not callable(runner):
        raise Fallback("internal-error", f"the backend returned {type(runner).__name__}, not a callable")
    return runner
