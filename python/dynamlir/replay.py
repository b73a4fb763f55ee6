"""A recording run by torch's own operators, for gradients of gradients that the compiler cannot make.

What was recorded are the operators that autograd dispatched, each differentiable by itself. So torch gives a history to
what they return, and says in its own words where it cannot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._functorch.eager_transforms import enable_inplace_requires_grad
from torch.autograd.function import once_differentiable
from torch.utils import _pytree as pytree

from .aten.replaying import split_arguments
from .aten.schema import as_called
from .recording import DTYPES, NO_RESULT, InputRecord, OpRecord, Recording, map_refs


def gradients(
    recording: Recording, known: dict[int, torch.Tensor], orders: Sequence[Sequence[int]]
) -> list[torch.Tensor]:
    """The gradients of the last of ``orders``, in the order of what they are gradients of; in grad mode with a history.

    Each order is the numbers of its tangents in ``known``, which are zero where they are missing. No gradient depends
    on the values of inputs that are missing.
    """
    found: list[torch.Tensor] = []
    wants_history = torch.is_grad_enabled()
    with torch.enable_grad():
        results = _differentiable(recording)
        read = _needed(recording, results)[1]
        inputs = [_input(record, known.get(at), record.id in read) for at, record in enumerate(recording.inputs)]
        values = _run(recording, inputs, results)
        outputs = [values[value] for value in results]
        wanted = {at: tensor for at, tensor in enumerate(inputs) if recording.inputs[at].requires_grad}
        for step, numbers in enumerate(orders):
            given = [known.get(number) for number in numbers]
            is_last = step == len(orders) - 1
            tangents = [_tangent(tensor, output, is_last) for tensor, output in zip(given, outputs, strict=True)]
            create = wants_history or not is_last
            each = torch.autograd.grad(outputs, list(wanted.values()), tangents, create_graph=create, allow_unused=True)
            wanted.update(zip(numbers, tangents))
            found = [gradient for gradient in each if gradient is not None]
            outputs = [gradient for gradient in found if gradient.requires_grad]
    return found


def _input(record: InputRecord, tensor: torch.Tensor | None, is_read: bool) -> torch.Tensor:
    """An input of its own, also where one tensor is given twice. Where it is missing and read, which is not for its
    values, it looks as it should: there are kernels that read the memory of a tensor past its strides."""
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


def _tangent(tensor: torch.Tensor | None, output: torch.Tensor, is_last: bool) -> torch.Tensor:
    """A tangent of its own. Those that are differentiated with respect to require a gradient, so that each has one."""
    if tensor is None:
        tensor = torch.zeros_like(output)
    if is_last or tensor.requires_grad:
        return tensor.view_as(tensor)
    return _leaf(tensor)


def _leaf(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, detached, as a leaf that requires a gradient. Within `torch.vmap`, torch forbids
    ``requires_grad_()`` because of the transform's own tensors; this is not one of them."""
    leaf = tensor.detach()
    is_own = torch._C._functorch.is_functorch_wrapped_tensor(leaf)
    with contextlib.nullcontext() if is_own else enable_inplace_requires_grad(True):
        return leaf.requires_grad_()


def _differentiable(recording: Recording) -> list[int]:
    """The values that outputs with a gradient are, or are views of, in order. Views of inputs are none of them."""
    roots = recording.roots()
    own = {record.id for record in recording.inputs}
    found = [roots.get(output.id, output.id) for output in recording.outputs if output.requires_grad]
    return [value for value in dict.fromkeys(found) if value not in own]


def _needed(recording: Recording, results: Iterable[int]) -> tuple[set[int], set[int]]:
    """The operations, by their places, that these values are made by, and the values that they read. So are those that
    draw random numbers, which others come after. What the rest is given may be missing."""
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
    """The operations that results with a gradient are made by."""
    return [recording.ops[at] for at in sorted(_needed(recording, _differentiable(recording))[0])]


def _run(recording: Recording, inputs: Sequence[torch.Tensor], results: Iterable[int]) -> dict[int, Any]:
    """What the operations return that these values are made by. What is written is written, as in the program, but for
    the inputs: copies of those."""
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
                # The variant, which alone takes these arguments, returns what is to be written after all else.
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
    """The gradients of the operands of a function with a derivative of its own, None for what has none.

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
    """Hands on what a function with a derivative of its own has returned."""

    @staticmethod
    def forward(ctx: Any, op: OpRecord, *operands: torch.Tensor) -> Any:
        ctx.op = op
        assert op.decomposition is not None and op.vjp is not None
        results = tuple(operands[op.operands.index(output.id)].clone() for output in op.decomposition.outputs)
        ctx.save_for_backward(*operands, *results)
        with_tangent = {record.tangent for record in op.vjp.inputs}
        ctx.mark_non_differentiable(*[result for at, result in enumerate(results) if at not in with_tangent])
        return results


class _Function(_Applied):
    """One whose gradients have gradients, as far as its backward gives them some."""

    @staticmethod
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        return None, *function_gradients(ctx.op, ctx.saved_tensors, tangents)


class _Once(_Applied):
    """One whose gradients have none."""

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> Any:
        found = function_gradients(ctx.op, ctx.saved_tensors, tangents)
        # Operations are replayed under the grad mode that they were recorded with.
        return None, *(None if gradient is None else gradient.detach() for gradient in found)
