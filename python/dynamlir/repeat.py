"""Records a span of operations once more, on tensors that look like the ones before: none of them is dispatched.

A layer's operations are known when the same layer was recorded with other weights. What is left is to give numbers to
the new values and to make their fakes. Whatever is not certain to be the same is refused before anything is recorded:

- each operation of the span is one that the `memo` remembers, and so depends on the looks of its operands only
- each tensor from elsewhere is paired with one of the same looks; tensors that share memory with tensors that do
- the span's numbers are all its own: nothing else was recorded in between
- what is a view for Python, and of what, is what the operations say: the new ones become views of the same
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from . import memo
from .device import device_of
from .recorder import OpRecorder

AddInput = Callable[[torch.Tensor, str], torch.Tensor]
"""Makes a real tensor an input of this name; returns its fake."""


@dataclasses.dataclass(frozen=True)
class Span:
    """What was recorded, and what it is to be recorded with."""

    ops: range
    """Operations of the recording."""
    inputs: Sequence[tuple[torch.Tensor, torch.Tensor, str]]
    """The inputs that were added on the way: fake, the real tensor in its place, and the name of that."""
    pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]
    """Fakes from before the span, and those in their place."""
    wanted: Sequence[torch.Tensor]
    """Fakes, of which there have to be new ones."""


def repeat(
    recorder: OpRecorder, span: Span, add_input: AddInput
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """The fakes of the new inputs, and the new ones that are wanted; None, with nothing recorded, if not certain."""
    templates = [recorder.templates.get(at) for at in span.ops]
    fixed = {recorder.number(old): new for old, new in span.pairs}
    inputs = {recorder.number(old): (real, name) for old, real, name in span.inputs}
    wanted = [recorder.number(old) for old in span.wanted]
    known = [template for template in templates if template is not None and template.leaves]
    if len(known) < len(templates) or None in fixed or None in inputs or not _looks_the_same(recorder, span):
        return None
    own = _own(recorder, span.ops, known, set(fixed), set(inputs))
    if own is None or not own.union(fixed).issuperset(wanted):
        return None
    views = _views(recorder, span, known)
    if views is None:
        return None

    made = dict(fixed)
    numbers = {old: recorder.number(new) for old, new in fixed.items()}
    seen = {*wanted, *views.values()}
    added: list[torch.Tensor] = []
    for number, of in _events(recorder, span.ops, sorted(inputs)):
        if of is None:
            made[number] = add_input(*inputs[number])
            numbers[number] = recorder.number(made[number])
            added.append(made[number])
        else:
            record = recorder.recording.ops[of]
            operands = [made[operand] for operand in record.operands]
            results = recorder.recall(
                known[of - span.ops.start],
                operands,
                [numbers[operand] for operand in record.operands],
                record.location,
                [result in seen for result in record.result_ids],
            )
            made.update(zip(record.result_ids, results))
            numbers.update(zip(record.result_ids, recorder.recording.ops[-1].result_ids))
    _become_views([(made[number], made[base]) for number, base in views.items()])
    return added, [made[number] for number in wanted]


def _events(recorder: OpRecorder, ops: range, inputs: list[int]) -> Iterator[tuple[int, int | None]]:
    """Inputs and operations in the order of before, so that each value gets the number that it would have had."""
    results = [(recorder.recording.ops[at].result_ids[0], at) for at in ops]
    yield from sorted([*results, *((number, None) for number in inputs)], key=lambda event: event[0])


def _looks_the_same(recorder: OpRecorder, span: Span) -> bool:
    """Whether each new tensor from elsewhere looks like the old one, and shares memory with the same others."""
    facts = [(old, new, recorder.value(old), recorder.value(new)) for old, new in span.pairs]
    facts += [(old, real, recorder.value(old), recorder.would_be(real)) for old, real, _ in span.inputs]
    storages: set[tuple[Hashable, Hashable]] = set()
    for old, new, before, now in facts:
        if before is None or now is None or before.shape is not now.shape or old.requires_grad != new.requires_grad:
            return False
        storages.add((before.storage, now.storage))
    return all(len(set(column)) == len(storages) for column in zip(*storages))


def _own(
    recorder: OpRecorder, ops: range, templates: Sequence[memo.Template], fixed: set[int], inputs: set[int]
) -> set[int] | None:
    """The numbers of the span's own values; None where it uses others, or others were given in between."""
    own = set(inputs)
    # What shows memory from elsewhere: who else shows it is not known of the new tensors.
    foreign = fixed | inputs
    for at, template in zip(ops, templates):
        record = recorder.recording.ops[at]
        if any(operand not in own and operand not in fixed for operand in record.operands):
            return None
        if record.schema in memo.UNSAFE_VIEWS and not foreign.isdisjoint(record.operands):
            return None
        own.update(record.result_ids)
        shared = (leaf.shares >= 0 and record.operands[leaf.shares] in foreign for leaf in template.leaves)
        foreign.update(number for number, is_shared in zip(record.result_ids, shared) if is_shared)
    return own if not own or max(own) - min(own) + 1 == len(own) else None


def _views(recorder: OpRecorder, span: Span, templates: Sequence[memo.Template]) -> dict[int, int] | None:
    """Which wanted values are views, and of which value: what eager counts writes together for, and shows as ``_base``.

    None where that is not what the operations say, as after ``detach``: it shows the same memory and is no view of it.
    """
    of: dict[int, int] = {}
    for at, template in zip(span.ops, templates):
        record = recorder.recording.ops[at]
        if record.schema not in memo.UNSAFE_VIEWS:
            shared = zip(record.result_ids, template.leaves)
            of.update((number, record.operands[leaf.shares]) for number, leaf in shared if leaf.shares >= 0)
    given = {recorder.number(old): old for old in [*(old for old, _ in span.pairs), *(old for old, *_ in span.inputs)]}
    views: dict[int, int] = {}
    for old in span.wanted:
        number = recorder.number(old)
        if number is None or number in given:
            continue
        if old._is_view() != (number in of):
            return None
        if number in of:
            root = number
            while root in of:
                root = of[root]
            base = given[root]._base if root in given and given[root]._is_view() else None
            if old._base is not base and recorder.number(old._base) != root:
                return None
            views[number] = root
    return views


class _Giving(TorchDispatchMode):
    """Answers operations with a tensor that there is."""

    answer: torch.Tensor

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return device_of(args[0]) if func is torch.ops.prim.device.default else self.answer


def _become_views(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Make new fakes views of others, as torch does above dispatch with what an operation returns."""
    with _Giving() as giving:
        for fake, base in pairs:
            giving.answer = fake
            base.as_strided(fake.shape, fake.stride(), fake.storage_offset())
