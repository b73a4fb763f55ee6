"""Functions whose backward is not differentiated (`once_differentiable`), in graphs of several nodes.

Eager treats the gradients of such a backward as constants, and adds a separate input to them whose history raises. So a
backward to other inputs does not encounter it, and a backward to all inputs does. Here a recording gets such an input,
and the derivative of the function ends with the sum of its results, as constants, and that input.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

import torch

from . import autograd_functions, linear_backward
from .recording import DETACH, DTYPES, InputRecord, OpRecord, Recording, Ref, TensorMeta

WORDS = "trying to differentiate twice a function that was marked with @once_differentiable"


@dataclasses.dataclass(frozen=True)
class Constants:
    """A recording in which some functions return constants."""

    recording: Recording
    errors: Mapping[int, bool] = dataclasses.field(default_factory=dict)
    """The numbers of the inputs whose histories raise. The value is true if the gradients passed to the function have a
    history even if the tangents do not; without any history there is nothing to raise for."""

    def given(self, tangents: Sequence[torch.Tensor | None]) -> Iterator[tuple[int, torch.Tensor]]:
        """Yields these inputs, with their numbers, for some tangents."""
        are_followed = any(tensor is not None and tensor.requires_grad for tensor in tangents)
        for number, has_history in self.errors.items():
            zero = torch.zeros((), dtype=DTYPES[self.recording.inputs[number].meta.dtype])
            if has_history or are_followed:
                zero = torch._C._functions.DelayedError(WORDS.encode(), 1)(zero.requires_grad_())
            yield number, zero


def as_constants(recording: Recording) -> Constants:
    """Returns the recording with constants for the gradients of once-differentiable functions."""
    marked = [op for op in recording.ops if _gives_constants(op)]
    metas = dict(recording.metas)
    ids = itertools.count(1 + max(itertools.chain(metas, *(op.vjp.metas for op in marked if op.vjp)), default=0))
    inputs, replaced, errors = list(recording.inputs), dict[int, OpRecord](), dict[int, bool]()
    for op in marked:
        error = None
        if op.once and op.vjp is not None:
            element = op.vjp.metas[op.vjp.outputs[0].id].dtype
            storage = 1 + max(record.storage for record in inputs)
            error = InputRecord(next(ids), "once", TensorMeta(element, (), (), 0), storage, requires_grad=True)
            metas[error.id] = error.meta
            errors[len(inputs)] = not _is_followed_linearly(recording, op)
            inputs.append(error)
        replaced[id(op)] = _constant(op, error, ids)
    ops = [replaced.get(id(op), op) for op in recording.ops]
    return Constants(dataclasses.replace(recording, ops=ops, inputs=inputs, metas=metas), errors)


def _gives_constants(op: OpRecord) -> bool:
    if not autograd_functions.is_function(op) or op.vjp is None or op.unseen:
        return False
    recorded = [inner.grad_enabled for inner in op.vjp.ops]
    if len({op.vjp.metas[output.id].dtype for output in op.vjp.outputs}) != 1:
        return False
    return op.once or (bool(recorded) and not any(recorded))


def _constant(op: OpRecord, error: InputRecord | None, ids: Iterator[int]) -> OpRecord:
    """Returns a function whose derivative ends with constants, to which the error is added."""
    assert op.vjp is not None and op.decomposition is not None
    metas, ops, outputs = dict(op.vjp.metas), [], []
    # A derivative recorded entirely with grad mode off counts as recorded with it on; the last operation is not off.
    ops += [dataclasses.replace(inner, grad_enabled=False) for inner in op.vjp.ops]
    for output in op.vjp.outputs:
        copied, added = next(ids), next(ids)
        metas[copied] = metas[added] = _dense(metas[output.id])
        ops.append(_call(op, torch.ops.aten.clone.default, [output.id], copied, metas[copied], grad_enabled=False))
        if error is None:
            ops.append(_call(op, torch.ops.aten.clone.default, [copied], added, metas[added], grad_enabled=True))
        else:
            operands = [copied, error.id]
            ops.append(_call(op, torch.ops.aten.add.Tensor, operands, added, metas[added], grad_enabled=True))
        outputs.append(dataclasses.replace(output, id=added))
    inputs = list(op.vjp.inputs)
    operands, decomposition = list(op.operands), op.decomposition
    if error is not None:
        metas[error.id] = error.meta
        given = InputRecord(error.id, "once", error.meta, -1)
        inputs.insert(len(operands), given)
        operands.append(error.id)
        decomposition = dataclasses.replace(decomposition, inputs=[*decomposition.inputs, given], metas=metas)
    vjp = dataclasses.replace(op.vjp, ops=ops, outputs=outputs, inputs=inputs, metas=metas)
    args = [[("t", value) for value in operands]]
    return dataclasses.replace(op, once=False, vjp=vjp, operands=operands, args=args, decomposition=decomposition)


def _call(
    op: OpRecord, overload: torch._ops.OpOverload, operands: list[int], value: int, meta: TensorMeta, grad_enabled: bool
) -> OpRecord:
    """Returns one more operation for a derivative."""
    rest = [1] if len(operands) > 1 else [None]
    return OpRecord(
        schema=str(overload),
        args=[*(("t", operand) for operand in operands), *rest],
        operands=operands,
        results=[meta],
        result_ids=[value],
        aliases=[-1],
        mutates=[],
        functional=None,
        grad_enabled=grad_enabled,
        location=op.location,
        raw=(overload, [*map(Ref, operands), *rest]),
        needs_grad=(1,) if grad_enabled and len(operands) > 1 else (),
    )


def _dense(meta: TensorMeta) -> TensorMeta:
    """Returns the metadata of a row-major tensor of the same sizes."""
    inner = (math.prod(max(1, size) for size in meta.sizes[at + 1 :]) for at in range(len(meta.sizes)))
    return meta._replace(strides=tuple(inner), offset=0)


def _is_followed_linearly(recording: Recording, function: OpRecord) -> bool:
    """Returns true if everything computed from a function's results is linear in them, by factors without a history."""
    roots = recording.roots()
    own = {roots.get(value, value) for value in function.result_ids}
    after = itertools.dropwhile(lambda op: op is not function, recording.ops)
    for op in itertools.islice(after, 1, None):
        read = [at for at, value in enumerate(op.operands) if roots.get(value, value) in own]
        if not any(at in op.needs_grad for at in read):
            continue
        name = op.schema.split(".")[1].removesuffix("_")
        alone = set(op.needs_grad) <= set(read)
        is_linear = (
            name in linear_backward.SUMS
            or (name in linear_backward.OF_FIRST and read == [0] and alone)
            or (name in linear_backward.PRODUCTS and len(read) == 1 and alone)
        )
        if not is_linear or op.schema == DETACH:
            return False
        own.update(roots.get(value, value) for value in op.result_ids)
    return True
