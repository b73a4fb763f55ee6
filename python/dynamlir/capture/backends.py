"""What is done with a captured graph: our own compiler, printed Python, torch's tools, or anybody's callable.

A backend gets a `Captured` and returns a callable that takes the graph's input tensors and returns its output tensors.
"""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import functools
import operator
import random
import traceback
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import functions, graphs_of_torch, interruptions, logs, report, segmented, segments
from ..options import Options
from ..reasons import Fallback
from ..thread_state import ThreadState
from . import fx, instances, naming, uncut
from .session import Session
from .surroundings import as_in_torch_compile

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
    forward: Any = None
    """The module's, where one was called."""
    whole: bool = False
    """Whether the call must not run as plain Python."""

    @staticmethod
    def of(name: str, frame: Any, forward: types.FunctionType | None = None) -> Captured:
        """From a native ``CapturedFrame``."""
        return Captured(name, frame.session, frame, frame.inputs, frame.text, forward)

    @functools.cached_property
    def module(self) -> torch.fx.GraphModule:
        """The graph for torch's tools, with Dynamo's names and order of inputs."""
        fakes = [self.session.faker.known(real) for real in self.inputs]
        lengths = self.session.lengths
        kinds = [int if id(real) in lengths else type(real) for real in self.inputs]
        session = self.session
        told = session.calls.sizes if session.calls is not None and session.uncut else None
        stores = self.frame.stores()
        return fx.export(self.nodes, fakes, "GraphModule", self.names, kinds, self.order, stores, session.bound, told)

    @functools.cached_property
    def nodes(self) -> list[fx.GraphNode]:
        """The nodes of the graph."""
        nodes: list[fx.GraphNode] = self.frame.nodes()
        return nodes

    @functools.cached_property
    def names(self) -> list[str]:
        """What `module` calls the inputs."""
        return naming.names(self.frame.sources, self.forward)

    @functools.cached_property
    def order(self) -> list[int]:
        """Which of the inputs comes where in `module`."""
        return naming.order(self.nodes, self.names)

    @property
    def examples(self) -> list[torch.Tensor]:
        """The inputs as `module` takes them."""
        return [self.inputs[at] for at in self.order]

    def runner(self, compiled: Any) -> Any:
        """What was made of `module`, taking the inputs as the capture has them."""
        if not callable(compiled):
            return compiled
        compiled = graphs_of_torch.quiet(compiled)
        if uncut.has_checks(self.session):
            compiled = uncut.careful(self.session, compiled)
        if self.order == sorted(self.order):
            return compiled
        arrange = operator.itemgetter(*self.order)
        return lambda *inputs: compiled(*arrange(inputs))


def _native(captured: Captured, settings: Options) -> Runner:
    from ..backend import compile_recording

    session = captured.session
    try:
        if session.segments is not None:
            return _segmented(captured, session.segments, settings)
        if session.sizes is not None:
            return instances.sized(captured, settings)
        variant, made = compile_recording(session.recording, session.mode, settings, captured.name)
        runner = variant.native()
    except Fallback:
        raise
    except Exception as error:
        interruptions.pass_on(error)
        logs.logger("fallback").debug("%s", traceback.format_exc())
        raise Fallback("internal-error", f"{type(error).__name__}: {error}") from error
    report.add(made)
    return runner


def _segmented(captured: Captured, plan: segments.Plan, settings: Options) -> Runner:
    """The graph in parts, between which sizes come to be known."""
    session = captured.session
    assert session.calls is not None
    sizes, layouts = session.calls.sizes, session.calls.layouts
    whole = segmented.Whole(captured.name, session.recording, plan, sizes, session.bound, layouts, captured.whole)
    constants = [fetch() for fetch in session.recording.captures]
    return segmented.Segmented(whole, session.mode, settings, constants)


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
    return captured.runner(captured.module.forward)


def _aot_eager(captured: Captured, settings: Options) -> Runner:
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def run(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return make_boxed_func(graphs_of_torch.forward_of(gm))

    with as_in_torch_compile():
        compiled = aot_module_simplified(captured.module, tuple(captured.examples), fw_compiler=run)
    return captured.runner(compiled)


def _inductor(captured: Captured, settings: Options) -> Runner:
    from torch._inductor.compile_fx import compile_fx

    with as_in_torch_compile():
        compiled = compile_fx(captured.module, captured.examples)
    return captured.runner(compiled)


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
    is_name = isinstance(backend, str)
    if isinstance(backend, str):
        known = BACKENDS.get(backend)
        if known is not None:
            return known
        backend = _registered(backend)
    if not callable(backend):
        raise TypeError(f"dynamlir: backend is {backend!r}, expected a name or a callable (GraphModule, inputs)")
    compiler = backend

    def custom(captured: Captured, settings: Options) -> Runner:
        # It may run the graph; the program's random numbers are as if it had not.
        torchs, pythons = torch.get_rng_state(), random.getstate()
        try:
            with as_in_torch_compile():
                compiled = compiler(captured.module, captured.examples)
            return captured.runner(compiled)
        finally:
            torch.set_rng_state(torchs)
            random.setstate(pythons)

    custom.__name__ = getattr(compiler, "__name__", "?")
    if not is_name:
        custom.__dict__["takes_untold"] = True
    return custom


def is_own(backend: Callable[[Captured, Options], Runner]) -> bool:
    """Returns true if torch has no backend of this name or kind, so that none of its habits is expected of it."""
    return backend in (_native, _python, _jit)


def takes_untold(backend: Callable[[Captured, Options], Runner]) -> bool:
    """Whether a backend of others is given graphs with sizes that only running tells.

    Those known by name trace the graph once more on fakes, or print it. A callable that does so raises then.
    """
    return backend is _eager or getattr(backend, "takes_untold", False)


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
    if any(functions.is_function(op) for op in captured.session.recording.ops):
        raise Fallback("autograd", "a torch.autograd.Function, for another's backend")
    if not is_own(backend) and backend is not _eager and any(map(_is_differentiable_gradient, captured.nodes)):
        # Torch's own capture ends before it, so backends need not trace it, and AOTAutograd's backward fails.
        raise Fallback("autograd", "torch.autograd.grad with create_graph=True, for another's backend")
    try:
        with uncut.put_back(Exception) if captured.session.births else contextlib.nullcontext():
            runner = _undisturbed(backend, captured, settings)
    except Exception as error:
        uncut.raise_if_traced(captured.session, error)
        if any(node.object is torch.autograd.grad for node in captured.nodes):
            raise Fallback(
                "autograd", f"gradients within the graph: {type(error).__name__} of another's backend"
            ) from None
        raise _failed(backend, error) from None
    if not callable(runner):
        raise Fallback("bad-backend", f"{type(runner).__name__}, not a callable")
    return runner


def _is_differentiable_gradient(node: fx.GraphNode) -> bool:
    """Returns true for a call of the program's of `torch.autograd.grad` with ``create_graph=True``."""
    from . import transforms  # which most programs do not need

    if node.object is not torch.autograd.grad or any(file == transforms.__file__ for file, _, _ in node.location):
        return False
    positional = node.args[4] if len(node.args) > 4 else False
    return node.kwargs.get("create_graph", positional) is not False


def _undisturbed(backend: Callable[[Captured, Options], Runner], captured: Captured, settings: Options) -> Runner:
    """Run a backend, which may run the graph: the state of the thread is the call's, not what the graph leaves set."""
    state = ThreadState()
    try:
        return backend(captured, settings)
    finally:
        state.put_back()


def _failed(backend: Callable[..., Any], error: Exception) -> Exception:
    """What comes of a backend's exception, as in torch.compile."""
    from torch._dynamo import config, exc

    if config.suppress_errors:
        return Fallback("backend-error", f"{type(error).__name__}: {error}".split("\n")[0])
    if isinstance(error, (Fallback, exc.ShortenTraceback, IndexError)):
        return error
    return exc.BackendCompilerFailed(backend, error, None).with_traceback(error.__traceback__)
