"""Gradients that are themselves differentiated (``create_graph=True``): graphs, compiled on first use.

The gradients of a graph are a function of its inputs and of the tangents of its results. That function is compiled from
the same recording, with ``dynamo.order = 2``, as a graph that trains: so it has gradients, and for their gradients it
is compiled with order 3, and so on. If that is impossible, torch's own operators run the recording, and torch
differentiates.

If a graph is several nodes of autograd's graph, the gradients of each node are such a function, also of the values that
the node takes from others.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
import threading
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import (
    autograd_functions,
    batched_gradients,
    interruptions,
    once_differentiable,
    plain_warnings,
    reachable_history,
    reasons,
    reports,
    run_by_torch,
)
from .aten.schema import draws
from .options import Options
from .program import Program
from .reasons import Fallback
from .recording import DTYPES, Recording
from .runtime import Variant
from .tracing import fresh_fake_mode

_NAMED = ", gradients"

_SECOND = 2
"""The order of the gradients of a graph's own gradients."""

_KEYS_ALONE = (collections.Counter[str](), collections.Counter({"aten.randint.low": 1}))
"""The extern draws of a graph that otherwise generates its own random numbers."""

_ANY_SIZE = 2

_MOST = 16
"""The number of sizes for which differentiable gradients are kept."""


def attach(executable: Any, gradients: Callable[..., Gradients], whole: bool = True) -> None:
    """Makes the gradients of a compiled graph differentiable, those of each of its nodes.

    ``gradients`` creates a `Gradients` from a ``node`` and from ``whole``, which is false if there are other nodes.
    """
    for node in range(executable.nodes):
        executable.differentiate_again(node, gradients(node=node, whole=whole and executable.nodes == 1))


@dataclasses.dataclass(frozen=True)
class _Differentiated:
    """The recording whose gradients are differentiated."""

    recording: Recording
    constants: once_differentiable.Constants
    reaching: reachable_history.Reaching
    has_once: bool
    """True if a function's backward must not be differentiated."""
    has_unseen: bool
    """True if the derivative of a derivative that is needed is unknown."""

    @staticmethod
    def of(program: Program, node: int, whole: bool) -> _Differentiated:
        """Reads a program, for the gradients of a node; ``whole`` if there are no other nodes."""
        first = program.recording()
        once, unseen = any(op.once for op in first.ops), any(op.unseen for op in run_by_torch.differentiated(first))
        ops, order, path = autograd_functions.without_formulas(first.ops), first.order + 1, (*first.path, node)
        recording = dataclasses.replace(first, ops=ops, order=order, path=path)
        constants = once_differentiable.Constants(recording)
        if not whole:
            constants = once_differentiable.as_constants(recording)
            ops = autograd_functions.with_first_gradients_alone(constants.recording.ops)
            recording = dataclasses.replace(constants.recording, ops=ops)
        return _Differentiated(recording, constants, reachable_history.Reaching(recording), once, unseen)


class Gradients:
    """The gradients of a node of a graph as a function that has gradients.

    Inputs and tangents have numbers: first the inputs of the recorded graph, then the tangents of the node, the values
    that it takes from others and those of its own results that it is given, then those of its gradients, and so on. The
    keys of its random numbers have the number None, and are saved by its node. If torch's operators drew the numbers,
    the node saves the generator's state, and they draw them again.
    """

    def __init__(
        self,
        program: Program,
        settings: Options,
        name: str,
        compile_recording: Callable[..., tuple[Variant, reports.CompileReport]],
        numbers: Sequence[int | None] | None = None,
        tangents: Sequence[tuple[int, ...]] = (),
        node: int = 0,
        whole: bool = True,
        *,
        drawn: collections.Counter[str],
    ) -> None:
        """``program`` is what is differentiated, ``compile_recording`` compiles the recording of the gradients,
        ``numbers`` are those of the inputs of the graph to be differentiated, ``tangents`` those of earlier ones,
        ``node`` is the node's index, ``whole`` is true if there are no other nodes, ``drawn`` counts the extern
        operators of the program itself that draw random numbers."""
        self._program = program
        self._order = program.order + 1
        self._node = node
        self._whole = whole
        """True if these are the gradients of the whole program: torch's operators can replace the compiler."""
        self._settings = settings
        self._compile_recording = compile_recording
        self._name = name if program.order > 1 else name + _NAMED
        self._numbers = numbers
        self._tangents = tuple(tangents)
        self._lock = threading.Lock()
        self._executable: Any = None
        self._event: reasons.Event | None = None
        self._drawn = drawn
        self._sized: collections.OrderedDict[tuple[int, ...], Gradients] = collections.OrderedDict()
        """For dynamic sizes: the gradients for the sizes seen so far."""

    @functools.cached_property
    def _of(self) -> _Differentiated:
        """The recording that is differentiated, read when it is first needed: most programs are differentiated once."""
        program = self._program
        if program.symbols:
            # For facts that do not depend on sizes.
            program = program.at([_ANY_SIZE] * len(program.symbols))
        return _Differentiated.of(program, self._node, self._whole)

    @property
    def takes_batches(self) -> bool:
        """True if tangents may be batches of `torch.vmap`: torch's operators can rerun the whole program."""
        of = self._of
        return self._whole and not (of.recording.given or of.recording.has_random or of.has_once or of.has_unseen)

    def __call__(
        self,
        inputs: dict[int | None, torch.Tensor],
        tangents: list[torch.Tensor | None],
        wanted: list[tuple[int | None, bool]],
        state: torch.Tensor | None = None,
        values: Sequence[int] = (),
        taken: Sequence[torch.Tensor] = (),
        results: Mapping[int, torch.Tensor] = types.MappingProxyType({}),
    ) -> list[torch.Tensor | None] | str:
        """Returns the wanted gradients, None for others; if only the node can compute them, the reason that they cannot
        be differentiated.

        - ``inputs``: by their indices among those of the graph.
        - ``wanted``: for each gradient, the index of the input it belongs to, if any.
        - ``state``: torch's generator before a call that drew only by torch's operators.
        - ``values``: those of the symbols, with dynamic sizes.
        - ``taken``: the values that the node takes from others.
        - ``results``: the node's own results that it has saved, by index: always the same ones. Gradients computed from
          these lead to them.
        """
        if self._program.symbols:
            # The library drew numbers that a graph for static sizes would draw itself.
            if self._drawn not in _KEYS_ALONE and not self._draws_again(state):
                raise RuntimeError(_DRAWS_OTHERS)
            at = self._at(tuple(values))
            return at(inputs, tangents, wanted, state, taken=taken, results=results)
        if (
            self._of.recording.has_random
            and self._numbers is None
            and None not in inputs
            and not self._draws_again(state)
        ):
            raise RuntimeError(_DRAWS_OTHERS)
        known = {self._number(at): tensor for at, tensor in inputs.items()}
        wanted = [(self._number(at), asked) for at, asked in wanted]
        # Gradients of gradients do not use gradients that the user holds.
        given = tuple(sorted(results)) if self._order == _SECOND else self._of.recording.given
        first = len(self._of.recording.inputs) + sum(map(len, self._tangents)) + len(self._of.recording.given)
        beside = [*tangents, *taken]
        known.update((first + at, tensor) for at, tensor in enumerate(beside) if tensor is not None)
        known.update(self._of.constants.given(tangents))
        own = tuple(range(first, first + len(beside)))
        if self._order == _SECOND:
            known.update((first + len(beside) + at, results[place]) for at, place in enumerate(given))
        foreign = next(filter(None, map(foreign_kind, tangents)), None)
        executable = self._compiled(own, self._draws_again(state), given) if foreign is None else None
        gradients: Sequence[torch.Tensor | None] | None = None
        if executable is not None:
            with _drawing_from(state):
                gradients = self._computed(executable, known, wanted, own, given)
        if gradients is None and self._of.recording.has_random and not self._draws_again(state):
            raise RuntimeError(f"{_DRAWS_OTHERS} ({self._event or foreign})")
        if gradients is None:
            event = self._event if foreign is None else reasons.note("subclass", f"a gradient is a {foreign}")
            assert event is not None
            if self._of.has_unseen or not self._whole:
                # The node computes them; differentiating them raises the reason.
                said = (
                    _UNSEEN
                    if self._of.has_unseen
                    else once_differentiable.WORDS
                    if self._of.has_once
                    else _SEVERAL_NODES
                )
                return said if self._of.has_once else f"{said} ({event})"
            plain_warnings.tell(plain_warnings.Subject(self._name), event)
            numbered = {number: tensor for number, tensor in known.items() if number is not None}
            try:
                with _drawing_from(state), _outside_of_transforms(tangents):
                    found = run_by_torch.gradients(self._of.recording, numbered, [*self._tangents, own], given)
            except run_by_torch.Differs as why:
                return f"{_DIFFERS}: {why} ({event})"
            gradients = [None if number is None else found.get(number) for number, _ in wanted]
        if len(gradients) != len(wanted):
            raise RuntimeError(f"dynamlir: {len(gradients)} gradients of {len(wanted)} inputs")
        return [gradient if asked else None for gradient, (_, asked) in zip(gradients, wanted)]

    def _number(self, at: int | None) -> int | None:
        """Returns the number of the graph's input at an index."""
        return at if self._numbers is None or at is None else self._numbers[at]

    def _computed(
        self,
        executable: Any,
        known: dict[int | None, torch.Tensor],
        wanted: list[tuple[int | None, bool]],
        own: tuple[int, ...],
        given: tuple[int, ...],
    ) -> list[torch.Tensor] | None:
        """Runs the graph and gives the results the histories of eager's gradients. Returns None if these are unknown,
        now and from then on."""
        arguments = [_argument(known, *described) for described in executable.arguments()]
        gradients = _with_history(executable, arguments, executable(*arguments))
        if not self._whole:
            return gradients
        tensors = {number: tensor for number, tensor in known.items() if number is not None}
        try:
            self._of.reaching.complete(gradients, wanted, tensors, [*self._tangents, own], given)
        except reachable_history.Unknown as why:
            with self._lock:
                if self._event is None:
                    self._event = reasons.note("autograd", f"what gradients are made of is not known: {why}")
                self._executable = None
            return None
        return gradients

    def _at(self, values: tuple[int, ...]) -> Gradients:
        """Returns the gradients for given sizes: a graph that computes them takes numbers."""
        with self._lock:
            known = self._sized.get(values)
            if known is None:
                known = Gradients(
                    self._program.at(values),
                    self._settings,
                    self._name.removesuffix(_NAMED),
                    self._compile_recording,
                    node=self._node,
                    whole=self._whole,
                    drawn=self._drawn,
                )
                self._sized[values] = known
                if len(self._sized) > _MOST:
                    self._sized.popitem(last=False)
            self._sized.move_to_end(values)
            return known

    def _draws_again(self, state: torch.Tensor | None) -> bool:
        """Returns true if the state reproduces the graph's random numbers; it does not cover draws on a device."""
        return state is not None and self._of.recording.device in (None, torch.device("cpu"))

    def _compiled(self, own: tuple[int, ...], draws_again: bool, given: tuple[int, ...]) -> Any:
        """Returns the graph of the gradients, which redraws the earlier numbers or draws none; None if it cannot be
        compiled, for the reason in `_event`."""
        with self._lock:
            if self._executable is None and self._event is None:
                try:
                    self._executable = self._compile(own, draws_again, given)
                except Exception as error:
                    interruptions.pass_on(error)
                    # A name for it in this frame would be a cycle, which would keep the differentiated tensors alive.
                    self._event = _noted(error)
        return self._executable

    def _compile(self, own: tuple[int, ...], draws_again: bool, given: tuple[int, ...]) -> Any:
        autograd_functions.refuse_twice(self._of.recording)
        with torch.no_grad():
            recording = dataclasses.replace(self._of.recording, given=given)
            variant, made = self._compile_recording(recording, fresh_fake_mode(), self._settings, self._name)
        if drawing := self._drawing_others(made, draws_again):
            raise Fallback("random-state", f"{drawing} draws random numbers")
        reports.add(made)
        assert variant.program is not None
        executable = variant.executable
        numbers = [described[0] for described in executable.arguments()]
        following = functools.partial(
            Gradients,
            variant.program,
            self._settings,
            self._name,
            self._compile_recording,
            numbers,
            [*self._tangents, own],
            drawn=self._drawn,
        )
        attach(executable, following, self._whole)
        return executable

    def _drawing_others(self, made: reports.CompileReport, draws_again: bool) -> str | None:
        """Returns an operator that would draw other random numbers than the first time. None if each drawing call
        repeats its earlier numbers: none of these calls is ever left out or reordered."""
        innocent = {op.schema for op in self._of.recording.ops if not op.random}
        first = collections.Counter({schema: count for schema, count in self._drawn.items() if schema not in innocent})
        calls, later = (
            collections.Counter({schema: count for schema, count in drawn_by(part).items() if schema not in innocent})
            for part in (made, made.gradients)
        )
        expected = first if draws_again else collections.Counter[str]()
        return None if calls == expected and not later else next(iter([*later, *calls, *expected]))


def _noted(error: Exception) -> reasons.Event:
    if isinstance(error, Fallback):
        return reasons.note(error.reason, error.message, error.location)
    return reasons.note("internal-error", f"{type(error).__name__}: {error}")


class _Refused(torch.autograd.Function):
    """Gradients with a history that raises in backward."""

    @staticmethod
    def forward(ctx: Any, why: str, gradients: list[torch.Tensor], *_: torch.Tensor) -> Any:
        ctx.why = why
        return tuple(gradient.view_as(gradient) for gradient in gradients)

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor | None) -> Any:
        raise RuntimeError(ctx.why)


def refuse(
    why: str, gradients: Sequence[torch.Tensor | None], made_of: Sequence[torch.Tensor | None]
) -> tuple[torch.Tensor | None, ...]:
    """Wraps gradients computed by a node so that differentiating them raises the reason."""
    present = [gradient for gradient in gradients if gradient is not None]
    requiring = [tensor for tensor in made_of if tensor is not None and tensor.requires_grad]
    with_history = iter(_Refused.apply(why, present, *requiring) if present else ())
    return tuple(None if gradient is None else next(with_history) for gradient in gradients)


def drawn_by(made: reports.CompileReport | None) -> collections.Counter[str]:
    """Returns the extern operators that draw random numbers, with their call counts."""
    drawn = collections.Counter[str]()
    for call in made.externs if made is not None else ():
        if draws(call.schema):
            drawn[call.schema] += call.count
    return drawn


@contextlib.contextmanager
def _drawing_from(state: torch.Tensor | None) -> Iterator[None]:
    """Draws random numbers from an earlier state; afterwards, other code draws as if nothing had been drawn."""
    if state is None:
        yield
        return
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(state)
        yield


def _outside_of_transforms(tangents: Sequence[torch.Tensor | None]) -> contextlib.AbstractContextManager[object]:
    """Returns a context outside of all transforms of `torch.func`, unless these have created one of the tangents."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    is_within = any(tensor is not None and wrapped(tensor) for tensor in tangents)
    return contextlib.nullcontext() if is_within else batched_gradients.Batch.outside()


def foreign_kind(tensor: Any) -> str | None:
    """Returns the kind of a gradient whose operations are not those of its memory, as for `torch.vmap`; else None."""
    if not isinstance(tensor, torch.Tensor):
        return None
    if is_traceable_wrapper_subclass(tensor):
        return type(tensor).__name__
    functorch = torch._C._functorch
    is_transformed = functorch.is_functorch_wrapped_tensor(tensor) or functorch.is_legacy_batchedtensor(tensor)
    return "tensor of a transformation such as vmap" if is_transformed else None


def _with_history(
    executable: Any, arguments: Sequence[torch.Tensor], gradients: list[torch.Tensor]
) -> list[torch.Tensor]:
    """Returns the gradients, detached if none of their sources has a history: a node gives one to all of them."""
    sources = executable.sources()
    if sources is None:
        return gradients
    given = [tensor.requires_grad for tensor in arguments]
    return [
        gradient if any(given[at] for at in own) else gradient.detach() for gradient, own in zip(gradients, sources)
    ]


_UNSEEN = (
    "trying to differentiate twice a torch.autograd.Function, of which torch.compile does not show how its backward is "
    "differentiated: it switches grad mode or applies a function. Compile with dynamlir.compile, or compute the "
    "gradients without create_graph=True"
)

_SEVERAL_NODES = (
    "trying to differentiate twice a compiled graph of several results, whose second gradients cannot be compiled: "
    "compute the gradients without create_graph=True, or run the function as plain Python"
)

_DIFFERS = (
    "trying to differentiate twice a compiled graph, which torch's operators would do with respect to other tensors"
)

_DRAWS_OTHERS = (
    "trying to differentiate twice a compiled graph that draws random numbers, which would draw others: compute the "
    "gradients without create_graph=True, or run the function as plain Python"
)


def _argument(
    known: dict[int | None, torch.Tensor], number: int | None, dtype: str, sizes: Sequence[int], strides: Sequence[int]
) -> torch.Tensor:
    """Returns an input of the compiled graph, in the layout that it expects.

    A missing one is an undefined tangent, which is zero, or an input that the first gradients do not depend on
    (``dynamo.primals``), so that theirs do not depend on it either.
    """
    tensor = known.get(number)
    if tensor is not None and number is None:
        # The gradients may not need the keys of the last operators.
        return tensor[: sizes[0]]
    if tensor is None:
        return torch.empty_strided(sizes, strides, dtype=DTYPES[dtype]).zero_()
    if list(tensor.stride()) == list(strides):
        return tensor
    outer_first = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    moved = tensor.permute(outer_first).contiguous()
    turned = moved.permute([outer_first.index(dim) for dim in range(len(sizes))])
    # One-element dimensions may have any stride.
    return turned if list(turned.stride()) == list(strides) else turned.as_strided(sizes, strides)
