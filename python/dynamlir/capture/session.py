"""The torch side of a capture: fakes for its tensors, the recorder of their operations, state to restore.

The native interpreter calls torch's functions through this module. The operations they dispatch on fakes become the
recording, so that nothing runs twice. An operation from elsewhere would be missing in the graph, and is refused.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

from .. import (
    config,
    constants,
    cut_recording,
    foreign_modes,
    memo,
    modes,
    output_views,
    preload,
    progress,
    recheck_unbacked,
    scalars,
)
from ..aten import composites, overridden_kernels, unbacked
from ..fakes import Faker, quiet_fakes
from ..reasons import Fallback, Location
from ..recorder import OpRecorder
from ..recording import Base, Recording
from ..repeated_layers import Span, repeat
from ..savepoints import Grown, Savepoint
from ..thread_state import ThreadState
from ..tracing import fresh_fake_mode, output_record, refused_by_fakes
from . import gradients, numpy_errors, regions, tensor_writes, whole_graphs
from .function_calls import Application

INSTRUCTIONS_OF_OPERATION = 1000
"""The cost of an operation for a graph and its compilation, measured in simple instructions of a capture."""


class Session:
    """One capture, from the first instruction to the finished recording. Enter it once."""

    def __init__(self, name: str) -> None:
        preload.ready()
        self.recording = Recording(name)
        self.mode = fresh_fake_mode()
        self.faker = Faker(self.mode)
        self.recorder = Watched(self.recording, self.faker, _stranger)
        self.recorder.takes_numbers = True  # by operators given a tensor for a number; Python gets none
        self.inputs: list[torch.Tensor] = []
        self.turns: dict[tuple[tuple[str | int, ...], ...], int] = {}
        """The number of operations for each line and chain of calling lines."""
        self.inference = torch.is_inference_mode_enabled()
        """True if the call runs in inference mode, which the capture itself leaves."""
        self.foreign = False
        """True if an input comes from inference mode and the call does not: torch forbids writing to it."""
        self.repeats = memo.Use.enabled and not memo.Use.checks
        """True if the native part may repeat calls of equal modules without interpreting them."""
        self.reads_numbers = False
        """True if the frame may read numbers from tensors, which become known when the graph runs."""
        self.frees = False
        """True if the frame frees histories by computing gradients."""
        self.repeated: list[str] = []
        """The classes of modules whose calls were repeated."""
        self.sizes: Any = None
        """The facts about dynamic sizes, if there are any."""
        self.varying: list[str] = []
        """The sources of the dynamic sizes."""
        self.bound: list[tuple[int, int] | None] = []
        """The input of the graph and its dimension for each symbol; None if unbacked."""
        self.calls: recheck_unbacked.Calls | None = None
        """The calls of torch's functions, if there may be unbacked sizes."""
        self.births: list[unbacked.Birth] = []
        """The operations that create unbacked sizes."""
        self.layouts: dict[int, recheck_unbacked.Layouts] = {}
        """The layouts of `calls`."""
        self.uncut = False
        """True if the graph is not cut where unbacked sizes become known."""
        self.spelled: list[int] = []
        """The symbols that have nodes in such an uncut graph."""
        self.opaque: list[int] = []
        """The number of recorded operations before each call of a function that is not traced into."""
        self.segments: cut_recording.Plan | None = None
        """The segments into which the recording is cut if there are unbacked sizes."""
        self.lengths: dict[int, str] = {}
        """The inputs, by id, whose length represents an int, with the source of that int."""
        self.sets: list[tensor_writes.Set] = []
        """The tensor properties set by the frame that later operations depend on."""
        self._state = ThreadState()
        self.autocast_cache = self._state.cache
        """True if autocast caches its casts, as the frame sees it."""
        self._setter: Location = []
        """The place where the frame last set thread state."""
        self._is_away = 0
        """The depth of nested regions in which the capture has been left."""
        self._enters_inference = False
        """True if the frame has entered `torch.inference_mode`: its settings are restored when that object dies."""
        self.began = time.monotonic()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Session:
        with contextlib.ExitStack() as stack:
            stack.enter_context(progress.silent())
            stack.enter_context(_disable_current_modes())
            if self.inference:
                stack.enter_context(_ordinary_tensors())
            stack.enter_context(foreign_modes.deferred_hooks())
            stack.enter_context(self._state.kept())
            stack.enter_context(quiet_fakes())
            stack.enter_context(numpy_errors.refused(self._refuse))
            stack.enter_context(self.mode)
            stack.enter_context(self.recorder)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        try:
            self._stack.close()
        finally:
            if (failure := self.recorder.failure) is not None:
                # Its frames hold the arguments of the user's functions. These would keep this session alive, and the
                # session the failure.
                failure.__traceback__ = failure.__cause__ = failure.__context__ = None

    def input(self, real: torch.Tensor, name: str, sized: tuple[list[Any], list[Any]] | None = None) -> torch.Tensor:
        """Returns the fake of a tensor that the frame reads. The first call for a tensor makes it an input of the
        graph, with the given sizes and strides if some are dynamic."""
        known = self.faker.known(real)
        if known is not None:
            return known
        # Under the fake mode, metadata of a real tensor would be answered by fakes.
        with modes.set_aside():
            return self._add_input(real, name, sized)

    def _add_input(
        self, real: torch.Tensor, name: str, sized: tuple[list[Any], list[Any]] | None = None
    ) -> torch.Tensor:
        if type(real) is FakeTensor:
            raise Fallback("subclass", "a FakeTensor of the caller's")
        if sized is not None:
            self.recorder.memo.varies = True
            self.mode.cache_enabled = False  # its keys only support torch's own symbols
        try:
            fake = self.faker.fake(real, sized)
        except Fallback as failure:
            told = " in ".join(part for part in (failure.message, _readable(name)) if part)
            raise Fallback(failure.reason, told, failure.location) from None
        self.recorder.add_input(fake, name)
        self.foreign |= real.is_inference() and not self.inference
        self.inputs.append(real)
        return fake

    def number(self, value: float, place: str) -> tuple[torch.Tensor, scalars.Number]:
        """Returns the tensor that currently passes a changing float to the graph, and the number that represents it."""
        with modes.set_aside():
            real = torch.tensor(value, dtype=torch.float64, device="cpu")
            fake = self._add_input(real, place)
        self.recorder.has_numbers = True
        return real, scalars.Number(scalars.Node(self.recorder, fake, frozenset([place])))

    def length(self, value: int, place: str, sized: tuple[list[Any], list[Any]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns a tensor whose length passes an int to the graph, and its fake. Its elements share memory."""
        with modes.set_aside():
            memory = torch.zeros(1, dtype=torch.int64, device="cpu").untyped_storage()
            real = torch.empty(0, dtype=torch.int64, device="cpu").set_(memory, 0, (value,), (0,))
            self.lengths[id(real)] = place
            return real, self._add_input(real, place, sized)

    def take_unbacked(self, sizes: Any, makes_sizes: bool, reads_numbers: bool, uncut: bool) -> None:
        """Allows the graph to have unbacked sizes, or numbers read from tensors of ints.

        ``uncut``: the graph is for a foreign backend, which knows these by their nodes.
        """
        self.calls = recheck_unbacked.Calls(self.recorder, sizes, makes_sizes, reads_numbers)
        self.births, self.layouts = self.calls.births, self.calls.layouts
        self.uncut = uncut

    def note_spelled(self, symbol: int) -> None:
        """Records that a symbol has a node."""
        self.spelled.append(symbol)

    def may_read(self, fake: torch.Tensor, method: str) -> bool:
        """Returns true if a number may be read from a tensor by a method."""
        if method != "__float__" and unbacked.may_read(self.recorder.sources, fake):
            return True
        return method != "__int__" and self.reads_numbers and scalars.may_read(fake)

    def may_list(self, fake: torch.Tensor) -> list[int] | None:
        """Returns the sizes of a tensor whose ints `tolist` may read as unbacked values; None if it may not."""
        return unbacked.may_list(self.recorder.sources, fake)

    def known_contents(self, fake: torch.Tensor) -> torch.Tensor | None:
        """Returns the contents of a tensor created from Python values or from buffers; see `constants.contents`."""
        return constants.contents(self.recorder, fake)

    def blame(self, number: scalars.Number) -> None:
        """Records that Python needs the value of a number."""
        self.recorder.blamed |= number.node.origins

    def blamed(self) -> list[str]:
        """Returns the sources of the floats whose values Python needs."""
        return sorted(self.recorder.blamed)

    def note_sizes(self, sizes: Any, bound: Sequence[tuple[int, int] | None], places: Sequence[str]) -> None:
        """Records the dynamic sizes and their sources: each symbol is this dimension of that input of the graph."""
        self.sizes, self.bound, self.varying = sizes, list(bound), list(places)

    def span(
        self,
        ops: tuple[int, int],
        inputs: list[torch.Tensor],
        given: list[torch.Tensor],
        wanted: list[torch.Tensor],
    ) -> Span | None:
        """Returns operations that may be recorded again; see `repeated_layers.Span`."""
        with modes.set_aside():
            return Span.of(self.recorder, range(*ops), inputs, given, wanted)

    def repeat(
        self, span: Span, inputs: list[tuple[torch.Tensor, str]], given: list[torch.Tensor]
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
        """Records a span again on other tensors; the graph does not have ``inputs`` yet; see `repeated_layers`."""
        with modes.set_aside():
            return repeat(self.recorder, span, inputs, given, self._add_input)

    def savepoint(self) -> tuple[Grown, Savepoint]:
        """Returns a savepoint for `roll_back`."""
        own = Grown.of(
            self,
            ["inputs", "repeated", "sets", "births", "layouts", "spelled", "opaque"],
            ["foreign", "frees", "autocast_cache", "_setter"],
        )
        return own, Savepoint.of(self.recorder)

    def roll_back(self, to: tuple[Grown, Savepoint]) -> bool:
        """Undoes what was recorded since; returns False if a tensor has changed in place, which cannot be undone."""
        own, recorder = to
        with modes.set_aside():
            if not recorder.put_back(self.recorder):
                return False
        tensor_writes.turn_back(self.sets[own.lengths["sets"] :])
        own.put_back(self)
        return True

    def run(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], location: Location) -> Any:
        """Calls one of torch's functions on fakes. ``location`` is the Python line, innermost frame first."""
        self.recorder.location = location
        if target is not getattr:
            self._count(location)
        if target is torch.autograd.grad:
            if self.repeated:
                self.recorder.histories.wanted = True
                raise Fallback("autograd", "gradients of modules whose calls were repeated", location)
            self.frees |= gradients.frees(*args, **kwargs)
        self.recorder.expected = True
        try:
            if self.calls is not None:
                out = self.calls.run(target, args, kwargs)
            else:
                out = composites.run(self.recorder, target, args, kwargs)
            if not self.recorder.has_numbers:
                return out
            out = scalars.as_number(out)
            if type(out) is not scalars.Number and scalars.has_any([out]):
                raise Fallback("data-dependent", "a number is read from a tensor")
            return out
        finally:
            self.recorder.expected = False

    def _count(self, location: Location) -> None:
        """Ends the graph if a line, by one chain of calls, records too many operations: a loop is being unrolled."""
        # The files, lines and functions: the operations of a line have several columns.
        place = tuple(zip(*location, strict=True))[:3]
        self.turns[place] = count = self.turns.get(place, 0) + 1
        if count > config.unroll_limit:
            raise Fallback("long-loop", f"more than {config.unroll_limit} operations of one line", location)

    @property
    def wants_histories(self) -> bool:
        """True if the frame needs histories of repeated calls, whose results do not have their own."""
        return self.recorder.histories.wanted

    @property
    def patience(self) -> int:
        """The largest effort of consecutive instructions that record no node, in simple instructions."""
        return INSTRUCTIONS_OF_OPERATION * config.unroll_limit

    def run_setter(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], location: Location
    ) -> Any:
        """Calls a function that sets thread state."""
        self._setter = location
        if target is torch.set_autocast_cache_enabled:
            self.autocast_cache = bool(args[0])
            return None
        return self.run(target, args, kwargs, location)

    def grad_left_off(self) -> Location | None:
        """Returns the place where the frame turned grad mode off without restoring it; None if it did not.

        If the frame turns it on, the call needs gradients that a graph for a call with grad mode off does not have.
        """
        is_off = self._state.grad and not torch.is_grad_enabled()
        return self._setter if is_off and not self._enters_inference else None

    def left_set(self, grad_left_off: bool) -> tuple[str, Location] | None:
        """Returns the thread state that the frame has set and not restored, and the place; None if there is none.

        With ``grad_left_off`` grad mode does not count.
        """
        changed = [name for name in self._state.changed() if not (grad_left_off and name == "grad mode")]
        if self.recorder.histories.levels:
            changed.append("a transform of torch.func")
        if self.autocast_cache != self._state.cache:
            changed.append("autocast's cache")
        return (f"{', '.join(changed)} is left set", self._setter) if changed else None

    @property
    def sets_state(self) -> bool:
        """True if the frame sets thread state."""
        return bool(self._setter)

    def chooses_otherwise(self) -> bool:
        """Returns true if the frame has changed the choice of kernels, and not restored it."""
        return self._state.chooses_otherwise()

    def answered_before(self, function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns a function's answer from before the frame, as a 1-tuple, if known and the frame sets state."""
        return self._state.answered(function, args) if self._setter else ()

    def note_repeated(self, module: torch.nn.Module, location: Location) -> None:
        """Records a module whose call was not interpreted, and the place of the call."""
        self._count(location)
        self.recorder.histories.lacking = True
        self.repeated.append(type(module).__name__)

    def check_grad(self, fake: torch.Tensor, value: torch.Tensor | None) -> None:
        """Raises torch's error if ``fake.grad = value`` is invalid."""
        tensor_writes.check_grad(fake, value)

    def check_data(self, fake: torch.Tensor, value: torch.Tensor) -> None:
        """Raises `Fallback` unless ``fake.data = value`` changes only the contents."""
        tensor_writes.check_data(fake, value, self.inference)

    def may_require_grad(self, fake: torch.Tensor) -> bool:
        """Returns true if torch allows changing whether a leaf requires a gradient."""
        return (fake.is_floating_point() or fake.is_complex()) and not (fake.is_inference() or self.inference)

    def leaves(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] | None) -> list[torch.Tensor]:
        """Returns the leaves that `backward` of these outputs gives gradients; see `gradients.leaves`."""
        if self.repeated:
            self.recorder.histories.wanted = True
            raise Fallback("autograd", "backward through modules whose calls were repeated", self.recorder.location)
        found = gradients.leaves(outputs, inputs)
        if not found:
            raise Fallback("autograd", "backward to no leaf", self.recorder.location)
        return found

    def is_differentiated_by(self, fake: torch.Tensor) -> bool:
        """Returns true if a transform of `torch.func` differentiates with respect to a tensor."""
        from . import transforms  # which most programs do not need

        return transforms.is_leaf(fake)

    def level(self, begins: bool) -> None:
        """Records that a transform of `torch.func` begins or ends."""
        levels = self.recorder.histories.levels
        if begins:
            levels.append(self.recorder._next)
        elif levels:
            levels.pop()

    def reached_inputs(self, outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Returns the inputs that gradients of these fakes go to, or through; see `gradients.through`."""
        fakes = [self.faker.known(real) for real in self.inputs]
        return gradients.through(outputs, [fake for fake in fakes if fake is not None])

    def asked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Returns the inputs of `torch.autograd.grad`, and the graph inputs that its gradients go through."""
        outputs, inputs = gradients.asked(*args, **kwargs)
        return inputs, self.reached_inputs(outputs)

    def is_used_up(self, fake: torch.Tensor) -> bool:
        """Returns true if the frame has freed the tensors saved for an output's backward."""
        return gradients.is_used_up(fake)

    def note_set(self, fake: torch.Tensor, what: tensor_writes.What, location: Location) -> None:
        """Records that the frame has set a property of a tensor; see `tensor_writes.Set`."""
        self.sets.append(tensor_writes.Set(fake, len(self.recording.ops), what, location))
        if what == "requires_grad":
            tensor_writes.turn(fake)
        else:
            self.recorder.buffers.note_set(fake)

    def described(self, fake: FakeTensor, others: Sequence[torch.Tensor]) -> str | None:
        """Returns as text everything by which Python could tell a tensor created by the frame from another; None if too
        much.

        ``others`` are tensors that may share its memory.
        """
        if fake.constant is not None:
            return None
        storage = fake.untyped_storage()._cdata
        sharing = [other.untyped_storage()._cdata == storage for other in others]
        facts = (fake.dtype, tuple(fake.shape), fake.stride(), fake.storage_offset(), fake.requires_grad)
        return f"{facts} {fake._version} {fake._is_view()} {sharing}"

    def run_whole(
        self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], location: Location
    ) -> Any:
        """Calls a user function that is not traced into; in it, torch reports that it is being compiled."""
        self.opaque.append(len(self.recording.ops))
        with _told_to_compile():
            return self.run(target, args, kwargs, location)

    def outside(self) -> contextlib.AbstractContextManager[None]:
        """Leaves the capture temporarily: tensors created in here are real ones."""
        return self._away()

    def _refuse(self, failure: Fallback) -> None:
        """Ends the capture, even if other code catches this, unless the capture has been left temporarily."""
        if not self._is_away:
            raise self.recorder._fail(failure)

    @contextlib.contextmanager
    def _away(self) -> Iterator[None]:
        self._is_away += 1
        try:
            with modes.set_aside():
                yield
        finally:
            self._is_away -= 1

    def apply_function(self, arguments: tuple[Any, ...], location: Location) -> Application:
        """Begins a call of a `torch.autograd.Function`: grad mode is off until `Application.leave`."""
        self.recorder.location = location
        if self.repeated and torch.is_grad_enabled():
            # Results of repeated calls do not have a history.
            self.recorder.histories.wanted = True
            raise Fallback("autograd", "a torch.autograd.Function of modules whose calls were repeated", location)
        return Application(self.recorder, arguments)

    def enter_checkpoint(self) -> int | None:
        """Begins a part of the frame that backward recomputes; returns the argument of `leave_checkpoint`."""
        return self.recording.enter_checkpoint()

    def leave_checkpoint(self, before: int | None) -> None:
        """Ends that part."""
        self.recording.checkpoint = before

    def facts(self, result: Any, operands: Any) -> Any:
        """Returns facts about the result of a function that is tried; see `regions.facts`."""
        return regions.facts(result, operands, self.recorder.input_fakes)

    def branches_agree(self, *seen: Any) -> bool:
        """Returns true if `regions.cond` may replace `torch.cond`."""
        return regions.branches_agree(*seen)

    def loop_agrees(self, *seen: Any) -> bool:
        """Returns true if `regions.while_loop` may replace `torch.while_loop`."""
        return regions.loop_agrees(*seen)

    def inference_mode(self, enabled: bool) -> Any:
        """Replaces ``torch.inference_mode(enabled)`` if the caller has the same mode: it switches gradients."""
        self._enters_inference = True
        return torch.enable_grad() if not enabled else torch.no_grad()

    def attribute(self, fake: torch.Tensor, name: str, location: Location) -> Any:
        """Returns an attribute of a tensor; some are operations (``T``, ``real``)."""
        return self.run(getattr, (fake, name), {}, location)

    def failure(self, error: BaseException) -> Fallback | None:
        """Returns the reason behind an operation's exception if the recorder raised it, not the user's code."""
        if self.recorder.failure is not None:
            return self.recorder.failure
        seen: BaseException | None = error
        causes: set[int] = set()
        while seen is not None and id(seen) not in causes:
            if isinstance(seen, Fallback):
                return seen
            if (reason := refused_by_fakes(seen)) is not None:
                return Fallback(reason, str(seen), self.recorder.location)
            # The causes may form a cycle.
            causes.add(id(seen))
            seen = seen.__cause__
        return None

    def finish(self, outputs: Sequence[torch.Tensor], named: Sequence[int]) -> list[int]:
        """Closes the recording with the fakes that the frame returns. Returns the positions of the inputs that are
        used.

        ``named`` are those that the torch-level graph has as arguments, used or not.
        """
        if self.recorder.failure is not None:
            raise self.recorder.failure
        if self.foreign and self.recording.mutates_inputs:
            raise Fallback("thread-state", "an inference tensor is written outside of inference mode")
        self.recording.outputs = [output_record(fake, self.recorder) for fake in outputs]
        overridden_kernels.check(self.recording)
        tensor_writes.settle(self.recorder, self.sets)
        used = {value for op in self.recording.ops for value in op.operands}
        used |= {output.id for output in self.recording.outputs}
        bases = output_views.bases(self.recorder, outputs)
        # The recorder also creates inputs for constants such as torch.tensor([1, 2]): they come after the frame's.
        fakes = self.recorder.input_fakes
        places = {id(self.faker.known(real)): at for at, real in enumerate(self.inputs)}
        self.recorder.note_bumps()
        used |= {self.recording.inputs[base.at].id for base in bases if base is not None and base.kind == "arg"}
        wanted = {id(self.faker.known(self.inputs[at])) for at in named}
        kept = [at for at, record in enumerate(self.recording.inputs) if record.id in used or id(fakes[at]) in wanted]
        kept.sort(key=lambda at: id(fakes[at]) not in places)
        fetchers = dict(zip((at for at, fake in enumerate(fakes) if id(fake) not in places), self.recording.captures))
        self.recording.inputs = [self.recording.inputs[at] for at in kept]
        self.recording.captures = [fetchers[at] for at in kept if at in fetchers]
        creations = output_views.creations(self.recorder, outputs)
        for output, base, creation in zip(self.recording.outputs, bases, creations, strict=True):
            output.base = Base("arg", kept.index(base.at)) if base is not None and base.kind == "arg" else base
            output.creation = creation
        if self.births and self.uncut:
            whole_graphs.refuse(self)
        elif self.births:
            self.segments = cut_recording.plan(
                self.recording, self.births, self.recorder.fakes(), self.recorder.grad_enabled
            )
        return [places[id(fakes[at])] for at in kept if id(fakes[at]) in places]


class Watched(OpRecorder):
    """A recorder that refuses operations dispatched outside of the calls it expects."""

    expected = False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if not self.expected and func.namespace != "prim":
            raise self._fail(Fallback("hidden-operation", str(func), self.location))
        return super().__torch_dispatch__(func, types, args, kwargs)


def is_fake(value: Any) -> bool:
    """Returns true if a value is a fake tensor."""
    return isinstance(value, FakeTensor)


def _readable(place: str) -> str:
    """Returns a source in the program's notation: ``x`` for ``L['x']``."""
    return re.sub(r"^[LG]\['(\w+)'\]", r"\1", place)


def _stranger(tensor: torch.Tensor) -> tuple[str, Callable[[], torch.Tensor]]:
    raise Fallback("unknown-tensor", f"a {tuple(tensor.shape)} tensor that the frame did not read")


_told = threading.Lock()
_telling = 0
_told_before = False


@contextlib.contextmanager
def _told_to_compile() -> Iterator[None]:
    """Makes `torch.compiler.is_compiling()` true, in all threads as while torch compiles, until the last one leaves."""
    global _telling, _told_before
    with _told:
        if _telling == 0:
            _told_before, torch.compiler._is_compiling_flag = torch.compiler._is_compiling_flag, True
        _telling += 1
    try:
        yield
    finally:
        with _told:
            _telling -= 1
            if _telling == 0:
                torch.compiler._is_compiling_flag = _told_before


@contextlib.contextmanager
def _ordinary_tensors() -> Iterator[None]:
    """Creates fakes with version counters, which reveal writes; gradients stay off, as in inference mode."""
    with torch.inference_mode(False), torch.no_grad():
        yield
