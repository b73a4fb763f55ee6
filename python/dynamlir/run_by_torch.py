"""Runs a recording by torch's own operators, for gradients of gradients that the compiler cannot compute.

The recorded operators are those that autograd dispatched, each differentiable on its own. So torch gives their results
a history, and raises its own errors where it cannot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch._functorch.eager_transforms import enable_inplace_requires_grad
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from . import recomputed_gradients
from .aten.rerun_on_fakes import split_arguments
from .aten.schema import as_called
from .recording import DTYPES, NO_RESULT, InputRecord, OpRecord, Recording, map_refs


class Differs(Exception):
    """Raised if torch's operators compute something other than what was compiled; carries the difference."""


def gradients(
    recording: Recording, known: dict[int, torch.Tensor], orders: Sequence[Sequence[int]], given: Sequence[int] = ()
) -> dict[int, torch.Tensor]:
    """Returns the gradients of the last of ``orders``, by the numbers of the tensors they belong to; in grad mode with
    a history.

    Each order has the numbers of its tangents in ``known``; missing ones are zero. No gradient depends on the values of
    missing inputs. ``given`` are the indices of results that the user holds, whose numbers come after those of the
    first order: gradients lead to these, and not to recomputed ones. Raises `Differs` if the numbers of results and
    tangents differ.
    """
    wants_history = torch.is_grad_enabled()
    with torch.enable_grad():
        program = _Program(recording, known, orders, given if wants_history or len(orders) > 1 else ())
        numbers, is_last = orders[0], len(orders) == 1
        tangents = _tangents(known, numbers, program.shown, is_last)
        found = program.first(tangents, create_graph=wants_history or not is_last)
        wanted = {**program.inputs, **dict(zip(numbers, tangents)), **program.held}
        for step, numbers in enumerate(orders[1:], 1):
            outputs = [gradient for gradient in found.values() if gradient.requires_grad]
            is_last = step == len(orders) - 1
            tangents = _tangents(known, numbers, outputs, is_last)
            found = _gradients(outputs, wanted, tangents, create_graph=wants_history or not is_last)
            wanted.update(zip(numbers, tangents))
    return found


def _gradients(
    outputs: Sequence[torch.Tensor],
    wanted: dict[int, torch.Tensor],
    tangents: Sequence[torch.Tensor],
    create_graph: bool,
) -> dict[int, torch.Tensor]:
    made = torch.autograd.grad(
        outputs, list(wanted.values()), tangents, retain_graph=True, create_graph=create_graph, allow_unused=True
    )
    return {number: gradient for number, gradient in zip(wanted, made) if gradient is not None}


class _Run(NamedTuple):
    """One recomputation of a recording."""

    past: recomputed_gradients.Past
    inputs: dict[int, torch.Tensor]
    """The inputs with a gradient, in the form used."""
    shown: list[torch.Tensor]
    """Its results."""


class _Program:
    """A recording, and its first gradients."""

    def __init__(
        self,
        recording: Recording,
        known: dict[int, torch.Tensor],
        orders: Sequence[Sequence[int]],
        given: Sequence[int],
    ) -> None:
        self._recording = recording
        self._results = _differentiable(recording)
        read = _needed(recording, self._results)[1]
        self._all = [_input(record, known.get(at), record.id in read) for at, record in enumerate(recording.inputs)]
        self.inputs = {at: tensor for at, tensor in enumerate(self._all) if recording.inputs[at].requires_grad}
        """The inputs with a gradient."""
        places = {len(self._all) + len(orders[0]) + at: place for at, place in enumerate(given)}
        self._places = {number: place for number, place in places.items() if number in known}
        self.held = {number: _tangent(known[number], known[number], len(orders) == 1) for number in self._places}
        """The results that the user holds."""
        self._state = torch.get_rng_state() if recording.has_random else None
        self._run = self._computed(list(self.held))
        self.shown = self._run.shown
        """The results."""

    def _computed(self, held: Sequence[int]) -> _Run:
        """Recomputes everything, with gradients redirected to the results ``held`` by the user."""
        if self._state is not None:
            torch.set_rng_state(self._state)
        way, taken = recomputed_gradients.passing(self.inputs, {number: self.held[number] for number in held})
        inputs = [taken.get(at, tensor) for at, tensor in enumerate(self._all)]
        values = _run(self._recording, inputs, self._results)
        return _Run(way, taken, [values[value] for value in self._results])

    def first(self, tangents: Sequence[torch.Tensor], create_graph: bool) -> dict[int, torch.Tensor]:
        """Returns the gradients of the inputs. Backward does not visit results that no gradient leads to, so there is a
        separate run for each set of results that gradients lead to."""
        run = self._run
        found = _gradients(run.shown, run.inputs, tangents, create_graph)
        if not self.held:
            return found
        ends = [*self.inputs.values(), *self.held.values(), *tangents]
        makers = {number: self.shown[place] for number, place in self._places.items()}
        with_history = {number: gradient for number, gradient in found.items() if gradient.requires_grad}
        led = {
            number: recomputed_gradients.reached(gradient, makers, ends) for number, gradient in with_history.items()
        }
        for choice in dict.fromkeys(led.values()):
            run, made = self._run, found
            if len(choice) != len(self.held):
                run = self._computed(choice)
                made = _gradients(run.shown, run.inputs, tangents, create_graph)
            run.past.lead({number: run.shown[self._places[number]] for number in choice})
            found.update((number, made[number]) for number, own in led.items() if own == choice)
        return found


def _input(record: InputRecord, tensor: torch.Tensor | None, is_read: bool) -> torch.Tensor:
    """Returns a separate input, also if one tensor is given twice. A missing one that is read, though not for its
    values, gets the right layout: some kernels read a tensor's memory beyond its strides."""
    if tensor is None:
        meta, dtype = record.meta, DTYPES[record.meta.dtype]
        if is_read:
            tensor = torch.empty_strided(meta.sizes, meta.strides, dtype=dtype).zero_()
        else:
            tensor = torch.zeros((), dtype=dtype).expand(meta.sizes)
        return _leaf(tensor) if record.requires_grad else tensor
    if record.requires_grad and not tensor.requires_grad:
        return _leaf(tensor)
    return tensor.view_as(tensor)


def _tangents(
    known: dict[int, torch.Tensor], numbers: Sequence[int], outputs: Sequence[torch.Tensor], is_last: bool
) -> list[torch.Tensor]:
    if len(numbers) != len(outputs):
        raise Differs(f"{len(outputs)} results in place of {len(numbers)}")
    return [_tangent(known.get(number), output, is_last) for number, output in zip(numbers, outputs)]


def _tangent(tensor: torch.Tensor | None, output: torch.Tensor, is_last: bool) -> torch.Tensor:
    """Returns a separate tangent, which requires a gradient if later orders differentiate with respect to it."""
    if tensor is None:
        tensor = torch.zeros_like(output)
    if is_last or tensor.requires_grad:
        return tensor.view_as(tensor)
    return _leaf(tensor)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the same values, detached, as a leaf that requires a gradient. Within `torch.vmap`, torch forbids
    ``requires_grad_()`` because of the transform's own tensors; this is not one of them."""
    leaf = tensor.detach()
    is_own = torch._C._functorch.is_functorch_wrapped_tensor(leaf)
    with contextlib.nullcontext() if is_own else enable_inplace_requires_grad(True):
        return leaf.requires_grad_()


def _differentiable(recording: Recording) -> list[int]:
    """Returns the values of outputs with a gradient, or their bases, in order, without inputs. A value that is
    detached, and written later, has no history before that."""
    roots = recording.roots(detach=False)
    own = {record.id for record in recording.inputs}
    found = [roots.get(output.id, output.id) for output in recording.outputs if output.requires_grad]
    return [value for value in dict.fromkeys(found) if value not in own]


def _needed(recording: Recording, results: Iterable[int]) -> tuple[set[int], set[int]]:
    """Returns the indices of the operations that compute these values, and the values that they read. Operations that
    draw random numbers are included, because later draws depend on them. Operands of other operations may be
    missing."""
    roots = recording.roots()
    live, needed, read = {roots.get(value, value) for value in results}, set[int](), set[int]()
    for at in reversed(range(len(recording.ops))):
        op = recording.ops[at]
        touched = (*op.result_ids, *(op.operands[place] for place in op.mutates))
        if op.random or not live.isdisjoint(roots.get(value, value) for value in touched):
            needed.add(at)
            read.update(op.operands)
            live.update(roots.get(value, value) for value in op.operands)
    return needed, read


def differentiated(recording: Recording) -> list[OpRecord]:
    """Returns the operations that compute results with a gradient."""
    return [recording.ops[at] for at in sorted(_needed(recording, _differentiable(recording))[0])]


def _run(recording: Recording, inputs: Sequence[torch.Tensor], results: Iterable[int]) -> dict[int, Any]:
    """Runs the operations that compute these values, and returns their results. Writes happen as in the program, except
    that inputs are copied first."""
    roots, needed = recording.roots(), _needed(recording, results)[0]
    written = {roots.get(value, value) for op in recording.ops for value in map(op.operands.__getitem__, op.mutates)}
    given = ((record.id, tensor) for record, tensor in zip(recording.inputs, inputs, strict=True))
    values: dict[int, Any] = {value: tensor.clone() if value in written else tensor for value, tensor in given}
    for at, op in enumerate(recording.ops):
        if at not in needed:
            continue
        if op.raw is None and op.vjp is not None:
            values.update(zip(op.result_ids, _apply(op, [values[value] for value in op.operands])))
            continue
        if op.raw is None:
            raise RuntimeError(f"dynamlir: {op.schema} in {recording.name} cannot be differentiated twice")
        variant, raw = op.raw
        overload = as_called(op.schema, variant) if op.functional else variant
        positional, keywords = split_arguments(
            overload or variant, [map_refs(value, lambda ref: values[ref.id]) for value in raw]
        )
        with torch.set_grad_enabled(op.grad_enabled):
            made = pytree.tree_leaves((overload or variant)(*positional, **keywords))
            if overload is None:
                # Only the functional variant accepts these arguments; it returns the written values last.
                targets = [values[op.operands[place]] for place in op.mutates]
                for target, content in zip(targets, made[len(made) - len(targets) :], strict=True):
                    target.copy_(content)
                made = made[: len(made) - len(targets)]
        if overload is None:
            fresh = iter(made)
            values.update(
                (value, next(fresh) if alias < 0 else values[op.operands[alias]])
                for value, alias in zip(op.result_ids, op.aliases, strict=True)
            )
            continue
        present = [value for value, meta in zip(op.result_ids, op.results) if meta is not NO_RESULT]
        values.update(zip(op.result_ids if len(made) >= len(op.result_ids) else present, made))
    return values


def function_gradients(
    op: OpRecord, known: Sequence[Any], tangents: Sequence[torch.Tensor | None]
) -> list[torch.Tensor | None]:
    """Returns the gradients of the operands of a function with its own derivative, None for those without one.

    ``known`` are its operands and its results; each result has a tangent.
    """
    vjp = op.vjp
    assert vjp is not None
    given = [*known, *(tangents[record.tangent] for record in vjp.inputs if record.tangent is not None)]
    values = _run(vjp, given, [output.id for output in vjp.outputs])
    found: list[torch.Tensor | None] = [None] * len(op.operands)
    for output in vjp.outputs:
        assert output.gradient is not None
        before, gradient = found[output.gradient], values[output.id]
        found[output.gradient] = gradient if before is None else before + gradient
    return found


def _apply(op: OpRecord, operands: list[torch.Tensor]) -> Sequence[torch.Tensor]:
    return (_Once if op.once else _Function).apply(op, *operands)


class _Applied(torch.autograd.Function):
    """Passes on the results of a function with its own derivative."""

    @staticmethod
    def forward(ctx: Any, op: OpRecord, *operands: torch.Tensor) -> Any:
        ctx.op = op
        ctx.set_materialize_grads(False)
        assert op.decomposition is not None and op.vjp is not None
        results = tuple(operands[op.operands.index(output.id)].clone() for output in op.decomposition.outputs)
        ctx.save_for_backward(*operands, *results)
        with_tangent = {record.tangent for record in op.vjp.inputs}
        ctx.mark_non_differentiable(*[result for at, result in enumerate(results) if at not in with_tangent])
        return results


def _applied_gradients(ctx: Any, tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Returns the gradients of the applied function. Missing tangents are zero, unless all are missing."""
    op: OpRecord = ctx.op
    if all(tangent is None for tangent in tangents):
        return [None] * len(op.operands)
    known = ctx.saved_tensors
    results = known[len(op.operands) :]
    given = [torch.zeros_like(own) if one is None else one for one, own in zip(tangents, results, strict=True)]
    return function_gradients(op, known, given)


class _Function(_Applied):
    """A function whose gradients have gradients, as far as its backward provides them."""

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        return None, *_applied_gradients(ctx, tangents)


class _Once(_Applied):
    """A function whose gradients have none."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        found = _applied_gradients(ctx, tangents)
        # Operations are replayed under the grad mode with which they were recorded.
        return None, *(None if gradient is None else gradient.detach() for gradient in found)
