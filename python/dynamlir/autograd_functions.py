"""Functions with their own derivative (`torch.autograd.Function`), as one operation with ``vjp``.

The operations of ``forward`` are recorded like any others, with grad mode off. Its results then go through one more
operation, ``dynamlir.function``, which only passes them on and has the operations of ``backward`` as its derivative:
``backward`` is run once, right after ``forward``, on placeholder tangents. So the values come from the recorded
operations, and gradients take the user's way.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from . import linear_backward, modes, run_by_torch
from .aten.rerun_on_fakes import fake_like
from .fakes import is_stranger
from .reasons import Fallback
from .recorder import OpRecorder
from .recording import DETACH, InputRecord, OpRecord, OutputRecord, Recording, TensorMeta

SCHEMA = "dynamlir.function.default"
OPAQUE = "dynamlir.first_gradients.default"

_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size, torch.Tensor)


class Call:
    """The recording of one call of a function: first its forward, then `results`, its backward, `derivative`."""

    def __init__(self, recorder: OpRecorder, arguments: Sequence[Any]) -> None:
        self.arguments = list(arguments)
        self.is_differentiated = torch.is_grad_enabled() and any(map(_requires_grad, arguments))
        """True if its results get a history."""
        self._recorder = recorder
        self._shown = len(recorder.shown)
        self._location = recorder.location
        self.first = 0
        """The index of the first operation of backward."""
        self._raw: list[torch.Tensor] = []
        self._differentiable: list[int] = []
        self._record = OpRecord(SCHEMA, [], [], [], [], [], [], None, True, self._location)
        self._tangents: dict[int, torch.Tensor] = {}

    def results(
        self, raw: Sequence[torch.Tensor], non_differentiable: Sequence[torch.Tensor] = (), materialize: bool = True
    ) -> list[torch.Tensor | None]:
        """Gives forward's results, in place, the history that autograd would give them. Returns the tangents for
        backward.

        No result may be an argument. With ``materialize`` missing tangents are zeros.
        """
        recorder, record = self._recorder, self._record
        self._raw = list(raw)
        if len({id(tensor) for tensor in raw}) < len(raw):
            raise Fallback("autograd", "a torch.autograd.Function returns one tensor twice", self._location)
        values = [recorder.id_of(tensor) for tensor in raw]
        metas = [recorder.recording.metas[value] for value in values]
        if any(meta.dtype.startswith("complex") for meta in metas):
            raise Fallback("complex", "a torch.autograd.Function", self._location)
        shared = [self._shares_memory(tensor) for tensor in raw]
        left_out = {id(tensor) for tensor in non_differentiable}
        inputs = [argument for argument in self.arguments if _requires_grad(argument)]
        _History.apply(self, [tensor for tensor in raw if id(tensor) in left_out], *inputs)
        self._differentiable = [at for at, tensor in enumerate(raw) if tensor.requires_grad]
        if not self._differentiable:
            # They are the plain results of forward, and no derivative is needed.
            self.first = len(recorder.recording.ops)
            return [None] * len(raw)
        if not materialize and len(self._differentiable) > 1:
            raise Fallback("autograd", "set_materialize_grads(False) of several results", self._location)
        record.materialized = materialize
        record.operands = [*dict.fromkeys(recorder.id_of(tensor) for tensor in inputs), *values]
        record.results = metas
        record.aliases = [record.operands.index(value) if is_shared else -1 for value, is_shared in zip(values, shared)]
        for tensor, meta in zip(raw, metas):
            value = recorder.rename(tensor, meta)
            record.result_ids.append(value)
        self.first = len(recorder.recording.ops)
        return [self._tangent(at, tensor, materialize) for at, tensor in enumerate(raw)]

    def derivative(self, gradients: Any, once: bool = False, unseen: bool = False, keeps: bool = False) -> None:
        """Takes the result of backward as the derivative. ``once``: it cannot be differentiated itself; ``unseen``: its
        derivative is unknown; ``keeps``: it has asked for saved tensors."""
        recorder, recording, record = self._recorder, self._recorder.recording, self._record
        if not self._differentiable:
            recorder.forget_operations(self.first)
            return
        outputs = self._gradients(gradients if isinstance(gradients, (tuple, list)) else (gradients,))
        recorder.note_histories()
        ops = recording.ops[self.first :]
        self._check(ops)
        recorder.forget_operations(self.first)
        made = {value for op in ops for value in op.result_ids}
        known = made.union(record.result_ids, (recorder.id_of(tensor) for tensor in self._tangents.values()))
        used = [value for op in ops for value in op.operands] + [value for _, value in outputs]
        record.operands += [value for value in dict.fromkeys(used) if value not in known.union(record.operands)]
        record.args = [[("t", value) for value in record.operands]]
        wanting = {recorder.id_of(tensor) for tensor in self._wanting()}
        record.needs_grad = tuple(at for at, value in enumerate(record.operands) if value in wanting)
        record.once, record.unseen = once, unseen
        record.decomposition = self._recording("function", record.operands)
        values = [*record.operands, *record.result_ids]
        record.decomposition.outputs = [OutputRecord("value", value) for value in self._raw_values()]
        record.vjp = self._recording("vjp of a function", values)
        record.vjp.ops = ops
        for at, tangent in self._tangents.items():
            given = InputRecord(recorder.id_of(tangent), f"tangent{at}", TensorMeta.of(tangent), -1, tangent=at)
            record.vjp.inputs.append(given)
        record.vjp.outputs = [
            OutputRecord("value", value, gradient=record.operands.index(recorder.id_of(self.arguments[at])))
            for at, value in outputs
        ]
        record.vjp.drop_unseen_detaches()
        record.vjp.keeps = keeps
        record.not_linear = not linear_backward.in_tangents(record.vjp)
        recording.append(record)

    def again(self, tangents: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Returns the gradients of the arguments that want one, if the frame asks for them itself."""
        record = self._record
        if record.vjp is None or record.once or record.unseen:
            raise Fallback("autograd", "gradients of a torch.autograd.Function, within the function", self._location)
        fakes = self._recorder.fakes()
        # The results are operands under value numbers that no fake has any more.
        raw = dict(zip(self._raw_values(), self._raw))
        known = [raw[value] if value in raw else fakes[value] for value in record.operands]
        found = run_by_torch.function_gradients(record, [*known, *self._raw], tangents)
        return [found[record.operands.index(self._recorder.id_of(tensor))] for tensor in self._wanting()]

    # -- parts

    def _wanting(self) -> list[torch.Tensor]:
        return [argument for argument in self.arguments if _requires_grad(argument)]

    def _raw_values(self) -> list[int]:
        first = len(dict.fromkeys(self._recorder.id_of(tensor) for tensor in self._wanting()))
        return self._record.operands[first : first + len(self._raw)]

    def _recording(self, name: str, values: Sequence[int]) -> Recording:
        metas, device = self._recorder.recording.metas, self._recorder.recording.device
        inputs = [InputRecord(value, f"operand{at}", metas[value], -1) for at, value in enumerate(values)]
        return Recording(name, inputs, metas=metas, device=device)

    def _shares_memory(self, tensor: torch.Tensor) -> bool:
        """Returns true if the memory of a result is visible elsewhere."""
        shown, storage = self._recorder.shown, tensor.untyped_storage()._cdata
        if shown.was_known(storage, self._shown):
            return True
        if sum(other.untyped_storage()._cdata == storage for other in self._raw) > 1:
            return True
        if shown.of(storage) > 1 and not all(map(_is_plain, self.arguments)):
            raise Fallback("autograd", "a torch.autograd.Function may keep a view of what it returns", self._location)
        return False

    def _tangent(self, at: int, result: torch.Tensor, materialize: bool) -> torch.Tensor | None:
        if at not in self._differentiable:
            return torch.zeros_like(result) if materialize else None
        recorder = self._recorder
        meta = TensorMeta.of(result)._replace(offset=0)
        with modes.set_aside():
            key = ("tangent", recorder.id_of(result))
            fake = fake_like(recorder.faker, meta, key, recorder.recording.device)
            recorder.add_value(fake)
            self._tangents[at] = fake.requires_grad_()
        return fake

    def _gradients(self, given: Sequence[Any]) -> list[tuple[int, int]]:
        """Returns the gradients of arguments, with their indices: checked and converted, as the engine does."""
        count = len(self.arguments)
        if len(given) < count or any(extra is not None for extra in given[count:]):
            raise Fallback("autograd", f"backward returns {len(given)} gradients of {count} inputs", self._location)
        found = []
        for at, (argument, gradient) in enumerate(zip(self.arguments, given)):
            if gradient is None:
                continue
            if not isinstance(argument, torch.Tensor) or not isinstance(gradient, torch.Tensor):
                raise Fallback("autograd", f"gradient {at} is not one of a tensor", self._location)
            if not argument.requires_grad:
                continue
            if is_stranger(gradient):
                gradient = self._recorder.adopt(gradient)
            if gradient.shape != argument.shape:
                if not _is_expandable(argument.shape, gradient.shape):
                    raise Fallback("autograd", f"gradient {at} has another shape than its input", self._location)
                gradient = gradient.sum_to_size(argument.shape)
            if gradient.dtype != argument.dtype:
                gradient = gradient.to(argument.dtype)
            if gradient.device != argument.device or gradient.is_complex():
                raise Fallback("autograd", f"gradient {at} is not like its input", self._location)
            found.append((at, self._recorder.id_of(gradient)))
        return found

    def _check(self, ops: Sequence[OpRecord]) -> None:
        """Refuses a backward that is not a function of its inputs."""
        made = {value for op in ops for value in op.result_ids}
        roots = self._recorder.recording.roots()
        for op in ops:
            if op.not_linear:
                # As a part of a derivative it is not a separate node.
                raise Fallback("autograd", "a torch.autograd.Function whose backward may not be linear", op.location)
            if op.random:
                raise Fallback("autograd", "the backward of a torch.autograd.Function draws numbers", op.location)
            if any(roots.get(op.operands[at], op.operands[at]) not in made for at in op.mutates):
                raise Fallback("autograd", "the backward of a torch.autograd.Function writes a tensor", op.location)
            if any(meta.dtype.startswith("complex") for meta in op.results):
                raise Fallback("complex", "the backward of a torch.autograd.Function", op.location)


class _History(torch.autograd.Function):
    """Gives tensors the history of a function's results."""

    @staticmethod
    def forward(ctx: Any, call: Call, non_differentiable: Sequence[torch.Tensor], *inputs: torch.Tensor) -> Any:
        ctx.call = call
        if non_differentiable:
            ctx.mark_non_differentiable(*non_differentiable)
        return tuple(call._raw)

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        return None, None, *ctx.call.again(tangents)


def is_function(op: OpRecord) -> bool:
    """Returns true for an operation that passes on the results of a function with its own derivative."""
    return op.schema == SCHEMA


def check(recording: Recording) -> None:
    """Refuses conflicting uses of memory that a function has returned or saves for its backward.

    A result that shares other memory is a separate value here. So that memory must not be written, and the result must
    not be visible as a view. Values read by backward must be unchanged.
    """
    kept: dict[int, OpRecord] = {}
    shown: dict[int, OpRecord] = {}
    roots: dict[int, int] = {}
    for op in recording.ops:
        for at in op.mutates:
            root = roots.get(op.operands[at], op.operands[at])
            if root in shown or root in kept:
                raise Fallback("autograd", "what a torch.autograd.Function keeps is written", op.location)
        if op.schema.startswith("aten.as_strided") and any(roots.get(x, x) in shown for x in op.operands):
            raise Fallback("autograd", "memory that a torch.autograd.Function shows is shown in a new way", op.location)
        for value, alias in zip(op.result_ids, op.aliases):
            if alias >= 0:
                roots[value] = roots.get(op.operands[alias], op.operands[alias])
                if is_function(op):
                    shown[roots[value]] = op
        if is_function(op) and op.vjp is not None:
            for inner in op.vjp.ops:
                kept.update((roots.get(value, value), op) for value in inner.operands)
    values = _values_of(recording)
    for output in recording.outputs:
        if output.id in values:
            raise Fallback("autograd", "an output shows memory that a torch.autograd.Function has handed on")


def _values_of(recording: Recording) -> set[int]:
    """Returns the values that functions return as views of other memory, and views of those."""
    found: set[int] = set()
    for op in recording.ops:
        for value, alias in zip(op.result_ids, op.aliases):
            if alias >= 0 and (is_function(op) or op.operands[alias] in found):
                found.add(value)
    return found


def without_formulas(ops: Sequence[OpRecord]) -> list[OpRecord]:
    """Returns the operations without derivatives recorded from torch's formulas. Functions keep theirs."""

    def without(op: OpRecord) -> OpRecord:
        if not is_function(op) or op.vjp is None:
            return dataclasses.replace(op, vjp=None)
        return dataclasses.replace(op, vjp=dataclasses.replace(op.vjp, ops=without_formulas(op.vjp.ops)))

    return [without(op) for op in ops]


def refuse_twice(recording: Recording) -> None:
    """Raises `Fallback` if the compiler would have to differentiate a backward that must not be differentiated."""
    for op in recording.ops:
        if is_function(op) and op.vjp is not None:
            if _has_first_gradients_alone(op, op.vjp):
                raise Fallback("autograd", "the backward of a torch.autograd.Function has no derivative", op.location)
            refuse_twice(op.vjp)


def with_first_gradients_alone(ops: Sequence[OpRecord]) -> list[OpRecord]:
    """Returns the operations with each backward that must not be differentiated replaced by one operator without a
    known derivative. So other parts of a graph can be differentiated twice."""

    def opaque(op: OpRecord) -> OpRecord:
        if not is_function(op) or op.vjp is None:
            return op
        vjp = op.vjp
        if not _has_first_gradients_alone(op, vjp):
            return dataclasses.replace(op, vjp=dataclasses.replace(vjp, ops=with_first_gradients_alone(vjp.ops)))
        operands = [record.id for record in vjp.inputs]
        given = list(dict.fromkeys(output.id for output in vjp.outputs))
        metas, aliases = [vjp.metas[value] for value in given], [-1] * len(given)
        args = [[("t", value) for value in operands]]
        one = OpRecord(OPAQUE, args, operands, metas, given, aliases, [], None, True, op.location)
        return dataclasses.replace(op, once=False, unseen=False, vjp=dataclasses.replace(vjp, ops=[one]))

    return [opaque(op) for op in ops]


def _has_first_gradients_alone(op: OpRecord, vjp: Recording) -> bool:
    recorded = [inner.grad_enabled for inner in vjp.ops]
    # Detaches by autograd itself have been removed: this one is the user's.
    detaches = any(inner.schema == DETACH and inner.needs_grad for inner in vjp.ops)
    return op.once or op.unseen or detaches or (bool(recorded) and not any(recorded))


def _requires_grad(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _is_expandable(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Returns true if a tensor of ``shape`` would be broadcast to the other shape."""
    return len(shape) <= len(to) and all(own in (1, other) for own, other in zip(reversed(shape), reversed(to)))
