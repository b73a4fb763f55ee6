"""Backends for captured graphs: our own compiler, printed Python, torch's tools, or any callable.

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

from .. import autograd_functions, checking, cut_recording, graph_modules, interruptions, logs, reports, run_segments
from ..compilation import compile_recording
from ..options import Options
from ..reasons import Fallback
from ..thread_state import ThreadState
from . import fx, graphs_by_size, naming, whole_graphs
from .compile_context import as_in_torch_compile
from .session import Session

Runner = Callable[..., Sequence[Any]]
"""Takes the graph's inputs, returns its outputs as a list or tuple."""


@dataclasses.dataclass
class Captured:
    """A graph as the native capture passes it to a backend."""

    name: str
    session: Session
    frame: Any
    """The native ``CapturedFrame``."""
    inputs: Sequence[torch.Tensor]
    """The real tensors of the first call, as example inputs."""
    text: str
    """The torch-level graph."""
    forward: Any = None
    """The module's ``forward``, if a module was called."""
    whole: bool = False
    """True if the call must not run as plain Python."""

    @staticmethod
    def of(name: str, frame: Any, forward: types.FunctionType | None = None) -> Captured:
        """Creates one from a native ``CapturedFrame``."""
        return Captured(name, frame.session, frame, frame.inputs, frame.text, forward)

    @functools.cached_property
    def module(self) -> torch.fx.GraphModule:
        """Returns the graph for torch's tools, with Dynamo's names and order of inputs."""
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
        """The names of the inputs in `module`."""
        return naming.names(self.frame.sources, self.forward)

    @functools.cached_property
    def order(self) -> list[int]:
        """The indices of the inputs, in the order of `module`."""
        return naming.order(self.nodes, self.names)

    @property
    def examples(self) -> list[torch.Tensor]:
        """The example inputs, in the order of `module`."""
        return [self.inputs[at] for at in self.order]

    def runner(self, compiled: Any) -> Any:
        """Wraps a compiled `module` so that it takes the inputs in the order of the capture."""
        if not callable(compiled):
            return compiled
        compiled = graph_modules.quiet(compiled)
        if whole_graphs.has_checks(self.session):
            compiled = whole_graphs.careful(self.session, compiled)
        if self.order == sorted(self.order):
            return compiled
        arrange = operator.itemgetter(*self.order)
        return lambda *inputs: compiled(*arrange(inputs))


def _native(captured: Captured, settings: Options) -> Runner:
    session = captured.session
    try:
        if session.segments is not None:
            return _segmented(captured, session.segments, settings)
        if session.sizes is not None:
            return graphs_by_size.sized(captured, settings)
        variant, made = compile_recording(session.recording, session.mode, settings, captured.name)
        runner = variant.native()
    except Fallback:
        raise
    except Exception as error:
        interruptions.pass_on(error)
        logs.logger("fallback").debug("%s", traceback.format_exc())
        raise Fallback("internal-error", f"{type(error).__name__}: {error}") from error
    reports.add(made)
    return runner


def _checked(captured: Captured, compiled: Runner, settings: Options) -> Runner:
    """Returns our graph, whose first calls are compared with torch's form of it, if it has one."""
    try:
        module = captured.module
    except Exception as error:
        interruptions.pass_on(error)
        checking.not_checked(captured.name, f"torch has no form of it: {type(error).__name__}: {error}")
        return compiled
    places = [captured.order.index(at) for at in range(len(captured.order))]
    in_order = lambda *inputs: compiled(*(inputs[place] for place in places))  # noqa: E731
    return captured.runner(checking.checked(captured.name, module, in_order, settings))


def _segmented(captured: Captured, plan: cut_recording.Plan, settings: Options) -> Runner:
    """Compiles the graph in segments, between which unbacked sizes become known."""
    session = captured.session
    assert session.calls is not None
    sizes, layouts = session.calls.sizes, session.calls.layouts
    whole = run_segments.Whole(captured.name, session.recording, plan, sizes, session.bound, layouts, captured.whole)
    constants = [fetch() for fetch in session.recording.captures]
    return run_segments.Segmented(whole, session.mode, settings, constants)


def _python(captured: Captured, settings: Options) -> Runner:
    source, bound = captured.frame.python_source()
    logs.logger("output_code").info("%s\n%s", captured.name, source)
    namespace = {"__name__": "dynamlir.graph", "torch": torch, **bound}
    exec(compile(source, f"<dynamlir graph of {captured.name}>", "exec"), namespace)
    return namespace["compiled_fn"]


def _jit(captured: Captured, settings: Options) -> Runner:
    function = _python(captured, settings)
    return torch.jit.trace(function, tuple(captured.inputs), check_trace=False)


def _eager(captured: Captured, settings: Options) -> Runner:
    return captured.runner(captured.module.forward)


def _aot_eager(captured: Captured, settings: Options) -> Runner:
    # Other compilers are imported when a program asks for them.
    from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func

    def run(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return make_boxed_func(graph_modules.forward_of(gm))

    with as_in_torch_compile():
        compiled = aot_module_simplified(captured.module, tuple(captured.examples), fw_compiler=run)
    return captured.runner(compiled)


def _inductor(captured: Captured, settings: Options) -> Runner:
    from torch._inductor.compile_fx import compile_fx  # takes seconds

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
    """Returns the backend for a name or for a callable ``(GraphModule, example_inputs) -> callable``."""
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
        # The backend may run the graph; the program's random state must not show that.
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
        custom.__dict__["takes_unbacked"] = True
    return custom


def is_own(backend: Callable[[Captured, Options], Runner]) -> bool:
    """Returns true if torch does not have a backend of this name or kind, so that torch's conventions do not apply."""
    return backend in (_native, _python, _jit)


def takes_unbacked(backend: Callable[[Captured, Options], Runner]) -> bool:
    """Returns true if a foreign backend is given graphs with unbacked sizes.

    Backends known by name trace the graph again on fakes, or print it. A callable that traces it gets an exception.
    """
    return backend is _eager or getattr(backend, "takes_unbacked", False)


def _registered(name: str) -> Callable[..., Any]:
    """Returns a backend from torch's registry."""
    # Dynamo takes a second to import; only names of others' backends need it.
    from torch._dynamo import list_backends, lookup_backend
    from torch._dynamo.exc import InvalidBackend  # with the above

    try:
        return lookup_backend(name)
    except InvalidBackend:
        known = sorted({*BACKENDS, *list_backends()})
        close = difflib.get_close_matches(name, known, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"dynamlir: unknown backend {name!r}{hint}; known: {', '.join(known)}") from None


def compile_captured(captured: Captured, backend: Callable[[Captured, Options], Runner], settings: Options) -> Runner:
    """Runs a backend. Raises `Fallback` if the call is to run as plain Python.

    An exception of a foreign backend is raised as torch.compile's exception, or suppressed if torch is set to do so.
    """
    logs.logger("graph").debug("%s", captured.text)
    if backend is _native:
        compiled = backend(captured, settings)
        return _checked(captured, compiled, settings) if settings.check else compiled
    if any(autograd_functions.is_function(op) for op in captured.session.recording.ops):
        raise Fallback("autograd", "a torch.autograd.Function, for another's backend")
    if not is_own(backend) and backend is not _eager and any(map(_is_differentiable_gradient, captured.nodes)):
        # Torch's own capture breaks before it, so backends need not trace it, and AOTAutograd's backward fails.
        raise Fallback("autograd", "torch.autograd.grad with create_graph=True, for another's backend")
    try:
        with whole_graphs.put_back(Exception) if captured.session.births else contextlib.nullcontext():
            runner = _undisturbed(backend, captured, settings)
    except Exception as error:
        whole_graphs.raise_if_traced(captured.session, error)
        if any(node.object is torch.autograd.grad for node in captured.nodes):
            raise Fallback(
                "autograd", f"gradients within the graph: {type(error).__name__} of another's backend"
            ) from None
        raise _failed(backend, error) from None
    if not callable(runner):
        raise Fallback("bad-backend", f"{type(runner).__name__}, not a callable")
    return runner


def _is_differentiable_gradient(node: fx.GraphNode) -> bool:
    """Returns true for a call of `torch.autograd.grad` with ``create_graph=True`` in the program."""
    from . import transforms  # which most programs do not need

    if node.object is not torch.autograd.grad or any(file == transforms.__file__ for file, *_ in node.location):
        return False
    positional = node.args[4] if len(node.args) > 4 else False
    return node.kwargs.get("create_graph", positional) is not False


def _undisturbed(backend: Callable[[Captured, Options], Runner], captured: Captured, settings: Options) -> Runner:
    """Runs a backend, which may run the graph, under the thread state of the call, not the one the graph leaves."""
    state = ThreadState()
    try:
        return backend(captured, settings)
    finally:
        state.put_back()


def _failed(backend: Callable[..., Any], error: Exception) -> Exception:
    """Converts a backend's exception as torch.compile does."""
    from torch._dynamo import config, exc  # takes a second

    if config.suppress_errors:
        return Fallback("backend-error", f"{type(error).__name__}: {error}".split("\n")[0])
    if isinstance(error, (Fallback, exc.ShortenTraceback, IndexError)):
        return error
    return exc.BackendCompilerFailed(backend, error, None).with_traceback(error.__traceback__)
