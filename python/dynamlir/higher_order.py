"""Gradients that are differentiated in turn (``create_graph=True``): graphs, compiled when they are first asked for.

The gradients of a graph are a function of its inputs and of the tangents of its results. That function is compiled from
the same recording, with ``dynamo.order = 2``, as a graph that trains: so its gradients are there, and for theirs it
is compiled with 3, and so on. Where that cannot be, torch's own operators run the recording, and torch differentiates.

Where a graph is several nodes of autograd's graph, the gradients of each are such a function, of what the node takes
from others as well.
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

from . import batches, functions, interruptions, once, plain, reached, reasons, replay, report, sizes
from .aten.schema import draws
from .options import Options
from .reasons import Fallback
from .recording import DTYPES, Recording
from .tracing import fresh_fake_mode

_NAMED = ", gradients"

_SECOND = 2
"""The order of the gradients of a graph's own gradients."""

_KEYS_ALONE = (collections.Counter[str](), collections.Counter({"aten.randint.low": 1}))
"""What a graph draws by torch's operators that makes its random numbers itself."""

_MOST = 16
"""For so many sizes the gradients that are differentiated are kept."""


def attach(executable: Any, gradients: Callable[..., Gradients], whole: bool = True) -> None:
    """Let the gradients of a compiled graph be differentiated in turn, those of each of its nodes.

    ``gradients`` makes a `Gradients` from a ``node`` and from ``whole``, which is false where there are others.
    """
    for node in range(executable.nodes):
        executable.differentiate_again(node, gradients(node=node, whole=whole and executable.nodes == 1))


class Gradients:
    """The gradients of a node of a graph as a function that has gradients.

    Inputs and tangents have numbers: first come the inputs of the graph that was recorded, then the tangents of the
    node, what it takes from others and which results of its own, then those of its gradients, and so on. The keys of
    the random numbers that it drew have None, and are kept by its node. Where torch's operators drew them the node
    keeps the generator's state, and they draw them once more.
    """

    def __init__(
        self,
        recording: Recording,
        settings: Options,
        name: str,
        numbers: Sequence[int | None] | None = None,
        tangents: Sequence[tuple[int, ...]] = (),
        node: int = 0,
        whole: bool = True,
        *,
        drawn: collections.Counter[str],
    ) -> None:
        """``numbers`` are those of the inputs of the graph to be differentiated, ``tangents`` those of earlier ones,
        ``node`` which node, ``whole`` whether there are no others, ``drawn`` what operators the recording itself has
        left to torch that draw random numbers."""
        self._order = recording.order + 1
        again = functions.without_formulas(recording.ops)
        self._has_once = any(op.once for op in recording.ops)
        self._has_unseen = any(op.unseen for op in replay.differentiated(recording))
        path = (*recording.path, node)
        self._recording = dataclasses.replace(recording, ops=again, order=self._order, path=path)
        self._constants = once.Constants(self._recording)
        if not whole:
            self._constants = once.as_constants(self._recording)
            again = functions.with_first_gradients_alone(self._constants.recording.ops)
            self._recording = dataclasses.replace(self._constants.recording, ops=again)
        self._reaching = reached.Reaching(self._recording)
        self._node = node
        self._whole = whole
        """True if it is the gradients of all that was recorded: torch's operators can take the compiler's place."""
        changes = self._recording.has_random or self._has_once or self._has_unseen
        self.takes_batches = whole and not (recording.given or changes)
        """True if tangents may be batches of `torch.vmap`: torch's operators can run all of the program once more."""
        self._settings = settings
        self._name = name if recording.order > 1 else name + _NAMED
        self._numbers = numbers
        self._tangents = tuple(tangents)
        self._lock = threading.Lock()
        self._executable: Any = None
        self._event: reasons.Event | None = None
        self._first = recording
        self._drawn = drawn
        self._sized: collections.OrderedDict[tuple[int, ...], Gradients] = collections.OrderedDict()
        """Where sizes vary: the same for sizes that there have been."""

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
        """The gradients that are wanted, None for others; where only the node can compute them, why they cannot be
        differentiated. ``inputs`` by their places among those of the graph, ``wanted`` with such a place for each
        gradient that is one of an input, ``state`` that of torch's generator before a call that drew by torch's
        operators alone, ``values`` those of symbols, where sizes vary, ``taken`` what the node takes from others,
        ``results`` those of its own that it has saved, by their places: always the same ones. What gradients are made
        of these leads to them."""
        if self._first.varying is not None:
            # The library drew numbers that a graph for numbers would draw itself.
            if self._drawn not in _KEYS_ALONE and not self._draws_again(state):
                raise RuntimeError(_DRAWS_OTHERS)
            symbols, bound = self._first.varying
            at = self._at(tuple(symbols.all_values(list(values), bound)))
            return at(inputs, tangents, wanted, state, taken=taken, results=results)
        if self._recording.has_random and self._numbers is None and None not in inputs and not self._draws_again(state):
            raise RuntimeError(_DRAWS_OTHERS)
        known = {self._number(at): tensor for at, tensor in inputs.items()}
        wanted = [(self._number(at), asked) for at, asked in wanted]
        # Gradients of gradients are made of no gradient that somebody has.
        given = tuple(sorted(results)) if self._order == _SECOND else self._recording.given
        first = len(self._recording.inputs) + sum(map(len, self._tangents)) + len(self._recording.given)
        beside = [*tangents, *taken]
        known.update((first + at, tensor) for at, tensor in enumerate(beside) if tensor is not None)
        known.update(self._constants.given(tangents))
        own = tuple(range(first, first + len(beside)))
        if self._order == _SECOND:
            known.update((first + len(beside) + at, results[place]) for at, place in enumerate(given))
        foreign = next(filter(None, map(foreign_kind, tangents)), None)
        executable = self._compiled(own, self._draws_again(state), given) if foreign is None else None
        gradients: Sequence[torch.Tensor | None] | None = None
        if executable is not None:
            with _drawing_from(state):
                gradients = self._computed(executable, known, wanted, own, given)
        if gradients is None and self._recording.has_random and not self._draws_again(state):
            raise RuntimeError(f"{_DRAWS_OTHERS} ({self._event or foreign})")
        if gradients is None:
            event = self._event if foreign is None else reasons.note("subclass", f"a gradient is a {foreign}")
            assert event is not None
            if self._has_unseen or not self._whole:
                # The node computes them; that they cannot be differentiated is said to whoever does that.
                said = _UNSEEN if self._has_unseen else once.WORDS if self._has_once else _SEVERAL_NODES
                return said if self._has_once else f"{said} ({event})"
            plain.tell(plain.Subject(self._name), event)
            numbered = {number: tensor for number, tensor in known.items() if number is not None}
            try:
                with _drawing_from(state), _outside_of_transforms(tangents):
                    found = replay.gradients(self._recording, numbered, [*self._tangents, own], given)
            except replay.Differs as why:
                return f"{_DIFFERS}: {why} ({event})"
            gradients = [None if number is None else found.get(number) for number, _ in wanted]
        if len(gradients) != len(wanted):
            raise RuntimeError(f"dynamlir: {len(gradients)} gradients of {len(wanted)} inputs")
        return [gradient if asked else None for gradient, (_, asked) in zip(gradients, wanted)]

    def _number(self, at: int | None) -> int | None:
        """The number of an input of the graph at a place."""
        return at if self._numbers is None or at is None else self._numbers[at]

    def _computed(
        self,
        executable: Any,
        known: dict[int | None, torch.Tensor],
        wanted: list[tuple[int | None, bool]],
        own: tuple[int, ...],
        given: tuple[int, ...],
    ) -> list[torch.Tensor] | None:
        """What the graph computes, with the histories of eager's gradients; None where these are not known, from then
        on."""
        arguments = [_argument(known, *described) for described in executable.arguments()]
        gradients = _with_history(executable, arguments, executable(*arguments))
        if not self._whole:
            return gradients
        tensors = {number: tensor for number, tensor in known.items() if number is not None}
        try:
            self._reaching.complete(gradients, wanted, tensors, [*self._tangents, own], given)
        except reached.Unknown as why:
            with self._lock:
                if self._event is None:
                    self._event = reasons.note("autograd", f"what gradients are made of is not known: {why}")
                self._executable = None
            return None
        return gradients

    def _at(self, values: tuple[int, ...]) -> Gradients:
        """The gradients for given sizes: a graph that computes them takes numbers."""
        with self._lock:
            known = self._sized.get(values)
            if known is None:
                numeric, name = sizes.at(self._first, values), self._name.removesuffix(_NAMED)
                known = Gradients(numeric, self._settings, name, node=self._node, whole=self._whole, drawn=self._drawn)
                self._sized[values] = known
                if len(self._sized) > _MOST:
                    self._sized.popitem(last=False)
            self._sized.move_to_end(values)
            return known

    def _draws_again(self, state: torch.Tensor | None) -> bool:
        """Whether the state gives the numbers that the graph drew: of those on a device it says nothing."""
        return state is not None and self._recording.device in (None, torch.device("cpu"))

    def _compiled(self, own: tuple[int, ...], draws_again: bool, given: tuple[int, ...]) -> Any:
        """The graph of the gradients, which draws what was drawn before or nothing; None where there is none, of which
        `_event` says why."""
        with self._lock:
            if self._executable is None and self._event is None:
                try:
                    self._executable = self._compile(own, draws_again, given)
                except Exception as error:
                    interruptions.pass_on(error)
                    # A name for it in this frame would be a cycle, which holds what is differentiated.
                    self._event = _noted(error)
        return self._executable

    def _compile(self, own: tuple[int, ...], draws_again: bool, given: tuple[int, ...]) -> Any:
        from .backend import compile_recording

        functions.refuse_twice(self._recording)
        with torch.no_grad():
            recording = dataclasses.replace(self._recording, given=given)
            variant, made = compile_recording(recording, fresh_fake_mode(), self._settings, self._name)
        if drawing := self._drawing_others(made, draws_again):
            raise Fallback("random-state", f"{drawing} draws random numbers")
        report.add(made)
        executable = variant.executable
        numbers = [described[0] for described in executable.arguments()]
        following = functools.partial(
            Gradients, recording, self._settings, self._name, numbers, [*self._tangents, own], drawn=self._drawn
        )
        attach(executable, following, self._whole)
        return executable

    def _drawing_others(self, made: report.CompileReport, draws_again: bool) -> str | None:
        """An operator that would draw other random numbers than the first time; None if each call that draws gives once
        more what it gave then: none of them is ever left out, and none changes places."""
        innocent = {op.schema for op in self._recording.ops if not op.random}
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
    """Gradients with a history that cannot be walked back."""

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
    """Gradients that a node has computed, so that whoever differentiates them is told that this cannot be done."""
    present = [gradient for gradient in gradients if gradient is not None]
    requiring = [tensor for tensor in made_of if tensor is not None and tensor.requires_grad]
    with_history = iter(_Refused.apply(why, present, *requiring) if present else ())
    return tuple(None if gradient is None else next(with_history) for gradient in gradients)


def drawn_by(made: report.CompileReport | None) -> collections.Counter[str]:
    """The operators left to torch that draw random numbers, with how often each is called."""
    drawn = collections.Counter[str]()
    for call in made.externs if made is not None else ():
        if draws(call.schema):
            drawn[call.schema] += call.count
    return drawn


@contextlib.contextmanager
def _drawing_from(state: torch.Tensor | None) -> Iterator[None]:
    """Random numbers of another time; what others draw goes on as if nothing had been drawn."""
    if state is None:
        yield
        return
    with torch.random.fork_rng(devices=()):
        torch.set_rng_state(state)
        yield


def _outside_of_transforms(tangents: Sequence[torch.Tensor | None]) -> contextlib.AbstractContextManager[object]:
    """A context outside of all transforms of `torch.func`, unless these have made one of the tangents."""
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor
    is_within = any(tensor is not None and wrapped(tensor) for tensor in tangents)
    return contextlib.nullcontext() if is_within else batches.Batch.outside()


def foreign_kind(tensor: Any) -> str | None:
    """What a gradient is whose operations are not those of its memory, such as one of `torch.vmap`; None for others."""
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
    """The gradients, without a history where nothing that they are made of has one: a node gives one to all of them."""
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
    """An input of the compiled graph, laid out as it expects.

    Missing is a tangent that is undefined, which is zero, or an input that the first gradients are not made of
    (``dynamo.primals``), so that theirs do not depend on it either.
    """
    tensor = known.get(number)
    if tensor is not None and number is None:
        # The gradients may not need those of the last operators.
        return tensor[: sizes[0]]
    if tensor is None:
        return torch.empty_strided(sizes, strides, dtype=DTYPES[dtype]).zero_()
    if list(tensor.stride()) == list(strides):
        return tensor
    outer_first = sorted(range(len(sizes)), key=lambda dim: -strides[dim])
    moved = tensor.permute(outer_first).contiguous()
    turned = moved.permute([outer_first.index(dim) for dim in range(len(sizes))])
    # Dimensions of one element may have any stride.
    return turned if list(turned.stride()) == list(strides) else turned.as_strided(sizes, strides)
