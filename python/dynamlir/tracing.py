"""Records an fx graph: runs its nodes once on fakes under the recorder, which gets each node's Python line."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._functorch.autograd_function import autograd_function_apply
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from . import (
    autograd_functions,
    cut_recording,
    foreign_modes,
    function_backward,
    interruptions,
    logs,
    modes,
    native,
    output_views,
    recheck_unbacked,
    scalars,
)
from .aten import composites, overridden_kernels
from .device import device_of
from .fakes import Faker, is_stranger
from .reasons import Fallback
from .recorder import OpRecorder
from .recording import OutputRecord, Recording
from .shape_env import Translation
from .source_lines import parse_stack
from .thread_state import ThreadState

_CHECKPOINT = "tag_activation_checkpoint"
"""Dynamo's operator for `torch.utils.checkpoint`."""

_INLINED = {"invoke_subgraph": 2, "wrap": 1}
"""Operations that apply their first argument, a graph, to the arguments from this index on: regions of
`torch.compiler.nested_compile_region`, where equal regions are recognized by their contents."""


class _Runner(torch.fx.Interpreter):
    """Runs the graph's nodes on fakes, passing the recorder the Python line of each."""

    def __init__(self, module: torch.fx.GraphModule, recorder: OpRecorder) -> None:
        super().__init__(module)
        self._recorder = recorder
        self.autocasts: list[Any] = []
        self.calls: recheck_unbacked.Calls | None = None
        """The calls of torch's functions, if there may be unbacked sizes."""

    def run_node(self, n: torch.fx.Node) -> Any:
        self._recorder.location = parse_stack(n.stack_trace)
        if isinstance(n.target, HigherOrderOperator):
            if n.target.name() == _CHECKPOINT:
                return self._checkpointed(n)
            if n.target is autograd_function_apply:
                return self._function(n)
            if n.target.name() in _INLINED:
                return self._nested(n)
            raise Fallback("higher-order-op", str(n.target), self._recorder.location)
        result = scalars.as_number(super().run_node(n))
        if n.target is torch.amp.autocast_mode._enter_autocast:
            self.autocasts.append(result)
        elif n.target is torch.amp.autocast_mode._exit_autocast and self.autocasts:
            self.autocasts.pop()
        return result

    def _checkpointed(self, n: torch.fx.Node) -> Any:
        """Runs a torch.utils.checkpoint region, as a part of the graph that backward recomputes."""
        (inner, *args), _ = self.fetch_args_kwargs_from_env(n)
        # With a user's policy on what to save, recomputation is not forced but left to the cut.
        forced = "_checkpoint_context_fn" not in inner.meta and torch.is_grad_enabled()
        with self._recorder.recording.recomputed() if forced else contextlib.nullcontext():
            return self._inner(inner).run(*args, enable_io_processing=False)

    def _nested(self, n: torch.fx.Node) -> Any:
        """Runs a nested graph as a part of the graph."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        return self._inner(args[0]).run(*args[_INLINED[n.target.name()] :], enable_io_processing=False)  # type: ignore[union-attr]

    def _function(self, n: torch.fx.Node) -> Any:
        """Runs a `torch.autograd.Function`: a graph of its forward, whose second result goes to its backward, after the
        tangents. The backward is another graph."""
        (forward, backward, *args), options = self.fetch_args_kwargs_from_env(n)
        recorder = self._recorder
        if options.get("dirty_idx"):
            raise Fallback("autograd", "mark_dirty of a torch.autograd.Function", recorder.location)
        call = autograd_functions.Call(recorder, args)
        with torch.no_grad():
            output, saved = self._inner(forward).run(*args, enable_io_processing=False)
        if not call.is_differentiated:
            return output
        listed = list(output) if isinstance(output, (tuple, list)) else [output]
        tensors = [leaf for leaf in listed if isinstance(leaf, torch.Tensor)]
        left_out = [listed[at] for at in options["non_differentiable_idx"]]
        tangents = iter(call.results(tensors, left_out))
        given = [next(tangents) if isinstance(leaf, torch.Tensor) else None for leaf in listed]
        gradients = self._inner(backward).run(*given, *saved, enable_io_processing=False)
        once = function_backward.is_once(n, backward.graph)
        call.derivative(gradients, once, unseen=not once and function_backward.is_unseen(n, backward.graph))
        return output

    def _inner(self, module: torch.fx.GraphModule) -> _Runner:
        inner = _Runner(module, self._recorder)
        inner.autocasts, inner.calls = self.autocasts, self.calls
        return inner

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if self.calls is not None:
            return self.calls.run(target, args, kwargs)
        return composites.run(self._recorder, target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        if self.calls is not None:
            return self.calls.run(getattr(args[0], target), args[1:], kwargs)
        if composites.is_run_otherwise(target):
            return composites.run(self._recorder, getattr(torch.Tensor, target), args, kwargs)
        self._recorder.builtin = composites.builtin_name(getattr(torch.Tensor, str(target), None))
        return super().call_method(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.Tensor):
            fetch = functools.partial(operator.attrgetter(target), self.module)
            with modes.set_aside():
                return self._recorder.capture(value, str(target), fetch)
        return value


def record(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    mode: FakeTensorMode | None = None,
    name: str = "main",
    sizes: Translation | None = None,
    may_tell: tuple[bool, bool] = (False, False),
) -> Recording:
    """Records ``module`` on ``example_inputs`` (real or fake tensors, numbers), some of whose ``sizes`` may be dynamic;
    raises `Fallback` if that is impossible. ``may_tell`` has whether it may have unbacked sizes, and whether numbers
    may be read from tensors of ints: if there are such, the recording is `Recording.cut`."""
    function_backward.free(module)
    recording = Recording(name)
    mode = mode or fresh_fake_mode()
    faker = Faker(mode)
    recorder = OpRecorder(recording, faker, functools.partial(_find_tensor, module))
    recorder.memo.varies = sizes is not None
    recorder.takes_numbers = True  # Dynamo passes a changing float as a tensor, and reads that
    runner = _Runner(module, recorder)
    if sizes is not None and any(may_tell):
        runner.calls = recheck_unbacked.Calls(recorder, sizes.sizes, *may_tell)
    with _disable_current_modes(), modes.set_aside(), foreign_modes.deferred_hooks(), preserved_state(runner):
        arguments = [_argument(at, value, faker, sizes) for at, value in enumerate(example_inputs)]
        names = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
        for position, value in enumerate(arguments):
            if isinstance(value, torch.Tensor):
                recorder.add_input(value, names[position] if position < len(names) else f"arg{position}")
        if sizes is not None:
            recording.lengths = tuple(sizes.lengths)
            for at, (real, sized) in zip(sizes.lengths, sizes.stand_ins()):
                recorder.add_input(faker.fake(real, sized), names[at])
        try:
            with mode, recorder:
                result = runner.run(*arguments, enable_io_processing=False)
        except Exception as error:
            interruptions.pass_on(error)
            if recorder.failure is not None:
                raise recorder.failure from None
            raise _explain(error, recorder) from error
        if recorder.failure is not None:
            raise recorder.failure
        leaves, recording.out_spec = pytree.tree_flatten(result)
        leaves = [recorder.known_fake(leaf) if is_stranger(leaf) else leaf for leaf in leaves]
        recording.outputs = [output_record(leaf, recorder) for leaf in leaves]
        facts = zip(recording.outputs, output_views.bases(recorder, leaves), output_views.creations(recorder, leaves))
        for output, base, creation in facts:
            output.base, output.creation = base, creation
        recorder.note_bumps()
        overridden_kernels.check(recording)
        if runner.calls is not None and runner.calls.births:
            cut = cut_recording.plan(recording, runner.calls.births, recorder.fakes(), recorder.grad_enabled)
            recording.cut = cut, runner.calls.layouts
    logs.logger("graph").debug("recorded %d operations: %s", len(recording.ops), dict(recording.histogram()))
    return recording


def fresh_fake_mode() -> FakeTensorMode:
    """Returns a fake mode without symbols: every size is a number."""
    return modes.FakeMode(allow_non_fake_inputs=False)


@contextlib.contextmanager
def preserved_state(runner: _Runner) -> Iterator[None]:
    """Undoes the effects of a partial graph on the thread, and refuses a complete one that leaves effects."""
    state = ThreadState()
    with state.kept():
        try:
            yield
            if changed := state.changed():
                raise Fallback("state-left-set", f"{', '.join(changed)} is left set")
            if not torch.equal(torch.get_rng_state(), state.random):
                raise Fallback("random-state", "by an operation of the graph")
        finally:
            for autocast in reversed(runner.autocasts):
                torch.amp.autocast_mode._exit_autocast(autocast)


def _argument(at: int, value: Any, faker: Faker, sizes: Translation | None) -> Any:
    if isinstance(value, torch.Tensor):
        return faker.fake(value, None if sizes is None else sizes.tensor(at))
    if sizes is not None and (number := sizes.number(at)) is not None:
        return number
    if isinstance(value, torch.SymInt):
        return int(value)
    if isinstance(value, torch.SymFloat):
        return float(value)
    if isinstance(value, torch.SymBool):
        return bool(value)
    return value


def _find_tensor(module: torch.nn.Module, tensor: torch.Tensor) -> tuple[str, Callable[[], torch.Tensor]]:
    """Returns name and fetcher of a real tensor seen while running: its path in the module, else the object."""
    for name, candidate in itertools.chain(module.named_parameters(), module.named_buffers()):
        if candidate is tensor:
            return name, functools.partial(operator.attrgetter(name), module)
    return "constant", lambda: tensor


def output_record(leaf: Any, recorder: OpRecorder) -> OutputRecord:
    """Returns one output of the graph; raises `Fallback` for what a graph cannot return."""
    if leaf is None:
        return OutputRecord("none")
    if isinstance(leaf, torch.Tensor):
        recorder.recording.place(device_of(leaf))
        value = recorder.id_of(leaf)
        is_input = recorder.is_input(value)
        version = 0 if is_input else leaf._version
        if leaf.requires_grad and not is_input and not recorder.grad_enabled:
            raise Fallback("autograd", "an output requires a gradient, and the call is made with grad mode off")
        if value in recorder.reshaped_with_history:
            raise Fallback("metadata-mutation", "an output that requires a gradient has changed its shape in place")
        if leaf.requires_grad and leaf.is_leaf and not is_input and not leaf._is_view():
            raise Fallback("autograd", "the graph makes a tensor that requires a gradient of its own")
        return OutputRecord("value", value, version, requires_grad=leaf.requires_grad and not is_input)
    if isinstance(leaf, torch.SymInt):
        leaf = native.module().Sizes.as_program(leaf)
    if isinstance(leaf, (bool, int, float, str, torch.SymInt)):
        return OutputRecord("const", const=leaf)
    raise Fallback("non-tensor-output", type(leaf).__name__)


def refused_by_fakes(error: BaseException) -> str | None:
    """Returns the reason that fake tensors refuse an operation; None for any other exception."""
    if isinstance(error, DataDependentOutputException):
        return "data-dependent"
    if isinstance(error, DynamicOutputShapeException):
        return "data-dependent-size"
    return "no-fake" if isinstance(error, UnsupportedOperatorException) else None


def _explain(error: Exception, recorder: OpRecorder) -> Fallback:
    """Returns the reason behind an exception that the operations raised on fakes."""
    if isinstance(error, Fallback):
        return error
    chain: BaseException | None = error
    while chain is not None:
        if (reason := refused_by_fakes(chain)) is not None:
            return Fallback(reason, str(chain), recorder.location)
        chain = chain.__cause__
    return Fallback("tracing-error", f"{type(error).__name__}: {error}".split("\n")[0], recorder.location)
