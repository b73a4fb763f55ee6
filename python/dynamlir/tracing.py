"""Records an fx graph: runs its nodes once on fakes under the recorder, which is told each node's Python line."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedOperatorException,
)
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from . import interruptions, logs, machinery, modes
from .aten import composites
from .device import device_of
from .fakes import Faker
from .reasons import Fallback
from .recorder import OpRecorder, is_stranger, parse_stack
from .recording import OutputRecord, Recording
from .thread_state import ThreadState


class _Runner(torch.fx.Interpreter):
    """Runs the graph's nodes on fakes, telling the recorder the Python line of each."""

    def __init__(self, module: torch.fx.GraphModule, recorder: OpRecorder) -> None:
        super().__init__(module)
        self._recorder = recorder
        self.autocasts: list[Any] = []

    def run_node(self, n: torch.fx.Node) -> Any:
        self._recorder.location = parse_stack(n.stack_trace)
        if isinstance(n.target, HigherOrderOperator):
            raise Fallback("higher-order-op", str(n.target), self._recorder.location)
        result = super().run_node(n)
        if n.target is torch.amp.autocast_mode._enter_autocast:
            self.autocasts.append(result)
        elif n.target is torch.amp.autocast_mode._exit_autocast and self.autocasts:
            self.autocasts.pop()
        return result

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        return composites.run(self._recorder, target, args, kwargs)

    def call_method(self, target: Any, args: Any, kwargs: Any) -> Any:
        self._recorder.builtin = composites.builtin_name(getattr(torch.Tensor, str(target), None))
        return super().call_method(target, args, kwargs)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.Tensor):
            fetch = functools.partial(operator.attrgetter(target), self.module)
            return self._recorder.capture(value, str(target), fetch)
        return value


def record(
    module: torch.fx.GraphModule, example_inputs: Sequence[Any], mode: FakeTensorMode | None = None, name: str = "main"
) -> Recording:
    """Record ``module`` on ``example_inputs`` (real or fake tensors, numbers); `Fallback` when it cannot be."""
    recording = Recording(name)
    mode = mode or fresh_fake_mode()
    faker = Faker(mode)
    recorder = OpRecorder(recording, faker, functools.partial(_find_tensor, module))
    runner = _Runner(module, recorder)
    with _disable_current_modes(), modes.set_aside(), machinery.deferred_hooks(), preserved_state(runner):
        arguments = [_argument(value, faker) for value in example_inputs]
        names = [str(node.target) for node in module.graph.find_nodes(op="placeholder")]
        for position, value in enumerate(arguments):
            if isinstance(value, torch.Tensor):
                recorder.add_input(value, names[position] if position < len(names) else f"arg{position}")
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
        for output, base in zip(recording.outputs, recorder.bases(leaves)):
            output.base = base
        recorder.note_bumps()
    logs.logger("graph").debug("recorded %d operations: %s", len(recording.ops), dict(recording.histogram()))
    return recording


def fresh_fake_mode() -> FakeTensorMode:
    """A fake mode that knows no symbols: every size is a number."""
    return modes.FakeMode(allow_non_fake_inputs=False)


@contextlib.contextmanager
def preserved_state(runner: _Runner) -> Iterator[None]:
    """Undo what half a graph may have done to the thread, and refuse what a whole one leaves done."""
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


def _argument(value: Any, faker: Faker) -> Any:
    if isinstance(value, torch.Tensor):
        return faker.fake(value)
    if isinstance(value, torch.SymInt):
        return int(value)
    if isinstance(value, torch.SymFloat):
        return float(value)
    if isinstance(value, torch.SymBool):
        return bool(value)
    return value


def _find_tensor(module: torch.nn.Module, tensor: torch.Tensor) -> tuple[str, Callable[[], torch.Tensor]]:
    """Name and fetcher of a real tensor met while running: by its path in the module, else the object itself."""
    for name, candidate in itertools.chain(module.named_parameters(), module.named_buffers()):
        if candidate is tensor:
            return name, functools.partial(operator.attrgetter(name), module)
    return "constant", lambda: tensor


def output_record(leaf: Any, recorder: OpRecorder) -> OutputRecord:
    """One output of the graph; `Fallback` for what a graph cannot return."""
    if leaf is None:
        return OutputRecord("none")
    if isinstance(leaf, torch.Tensor):
        recorder.recording.place(device_of(leaf))
        value = recorder.id_of(leaf)
        is_input = recorder.is_input(value)
        if leaf.requires_grad and not is_input:
            raise Fallback("autograd", "an output requires a gradient")
        return OutputRecord("value", value, 0 if is_input else leaf._version)
    if isinstance(leaf, torch.SymInt):
        leaf = int(leaf)
    if isinstance(leaf, (bool, int, float, str)):
        return OutputRecord("const", const=leaf)
    raise Fallback("non-tensor-output", type(leaf).__name__)


def refused_by_fakes(error: BaseException) -> str | None:
    """The reason for which fake tensors refuse an operation; None for any other exception."""
    if isinstance(error, DataDependentOutputException):
        return "data-dependent"
    if isinstance(error, DynamicOutputShapeException):
        return "data-dependent-size"
    return "no-fake" if isinstance(error, UnsupportedOperatorException) else None


def _explain(error: Exception, recorder: OpRecorder) -> Fallback:
    """The reason behind an exception that the operations raised on fakes."""
    if isinstance(error, Fallback):
        return error
    chain: BaseException | None = error
    while chain is not None:
        if (reason := refused_by_fakes(chain)) is not None:
            return Fallback(reason, str(chain), recorder.location)
        chain = chain.__cause__
    return Fallback("tracing-error", f"{type(error).__name__}: {error}".split("\n")[0], recorder.location)
