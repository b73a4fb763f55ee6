"""Records a span of operations again, on tensors that look like the earlier ones, without dispatching any.

A layer's operations are known if the same layer was recorded with other weights. It only remains to number the new
values, and to create fakes for those that the frame sees. Anything not certain to be the same is refused before
anything is recorded:

- each operation of the span is in the `memo`, and so depends only on the metadata of its operands
- each outer tensor is paired with one of the same metadata, and shared memory with the same sharing
- the span's numbers are all its own: nothing else was recorded in between
- Python's views and their bases follow from the operations: the new tensors become views in the same way
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch

from . import memo
from .aten import table
from .fakes import Giving, give_history
from .reasons import Location
from .recorder import OpRecorder
from .recording import OpRecord

Call = tuple[OpRecord, memo.Template]
"""An operation, and the template for recording it again."""

AddInput = Callable[[torch.Tensor, str], torch.Tensor]
"""Makes a real tensor an input of this name; returns its fake."""


class OuterTensor(NamedTuple):
    """A tensor from outside the span; its replacement has to look like it."""

    number: int
    key: memo.TensorKey
    storage: Hashable
    requires_grad: bool


class Step(NamedTuple):
    """An operation of a span."""

    template: memo.Template
    operands: list[int]
    results: list[int]
    location: Location
    is_kept: bool
    """True if its results need tensors."""


@dataclasses.dataclass(frozen=True)
class Span:
    """Operations of a recording that may be recorded again, and what is the same each time. Values are numbers."""

    inputs: Sequence[OuterTensor]
    """Inputs that were added during the span."""
    given: Sequence[OuterTensor]
    """Other values that the span uses."""
    events: Sequence[Step | int]
    """Operations, and indices of `inputs`, in their original order: so each value gets the number it would have had."""
    wanted: Sequence[int]
    """Values that need new fakes."""
    views: Mapping[int, int]
    """Those that are views, with their bases."""
    differentiable: Sequence[int]
    """The span's own values that are not views and require a gradient, which operations gave them."""
    shown: Sequence[int]
    """The value with a fake whose memory is shared, once for each value without a fake that shares it."""

    @classmethod
    def of(
        cls,
        recorder: OpRecorder,
        ops: range,
        inputs: Sequence[torch.Tensor],
        given: Sequence[torch.Tensor],
        wanted: Sequence[torch.Tensor],
    ) -> Span | None:
        """Returns a span of operations, given by fakes; None if it is not certain to be the same another time."""
        known = [recorder.templates.get(at) for at in ops]
        templates = [template for template in known if template is not None and template.leaves]
        found = [_outer(recorder, fake) for fake in [*inputs, *given]]
        facts = [fact for fact in found if fact is not None]
        numbers = [number for number in map(recorder.number, wanted) if number is not None]
        if len(templates) < len(ops) or len(facts) < len(found) or len(numbers) < len(wanted):
            return None
        outer = {fact.number for fact in facts}
        added = {fact.number: place for place, fact in enumerate(facts[: len(inputs)])}
        calls = [(recorder.recording.ops[at], template) for at, template in zip(ops, templates)]
        own = _own(calls, outer, set(added))
        if own is None or not own.union(outer).issuperset(numbers):
            return None
        shows = _shows(calls)
        is_view_of = _shows(
            (record, template) for record, template in calls if not table.facts(record.schema).unsafe_view
        )
        views = _views(recorder, is_view_of, [*inputs, *given], wanted)
        if views is None:
            return None
        differentiable = _differentiable(numbers, wanted, views, facts)
        if differentiable is None:
            return None
        kept = _kept(calls, {*numbers, *views.values()})
        steps = [
            Step(template, record.operands, record.result_ids, record.location, not kept.isdisjoint(record.result_ids))
            for record, template in calls
        ]
        events: list[tuple[int, Step | int]] = [*((step.results[0], step) for step in steps), *added.items()]
        events.sort(key=lambda event: event[0])
        made = outer.union(*(step.results for step in steps if step.is_kept))
        roots = [_root(number, shows) for step in steps if not step.is_kept for number in step.results]
        return cls(
            facts[: len(inputs)],
            facts[len(inputs) :],
            [event for _, event in events],
            numbers,
            views,
            differentiable,
            [root for root in roots if root in made],
        )


def repeat(
    recorder: OpRecorder,
    span: Span,
    inputs: Sequence[tuple[torch.Tensor, str]],
    given: Sequence[torch.Tensor],
    add_input: AddInput,
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """Returns the fakes of new inputs, and the wanted new ones; None, with nothing recorded, if not certain.

    Takes real tensors with their names, and fakes, for the span's outer tensors.
    """
    if not _looks_the_same(recorder, span, [real for real, _ in inputs], given):
        return None
    made = {fact.number: fake for fact, fake in zip(span.given, given)}
    numbers = {old: recorder.id_of(new) for old, new in made.items()}
    added: list[torch.Tensor] = []
    for event in span.events:
        if isinstance(event, int):
            fake = add_input(*inputs[event])
            added.append(fake)
            made[span.inputs[event].number] = fake
            numbers[span.inputs[event].number] = recorder.id_of(fake)
            continue
        template, operands, results, location, is_kept = event
        ids = recorder.record_again(template, [numbers[operand] for operand in operands], location)
        numbers.update(zip(results, ids))
        if is_kept:
            made.update(zip(results, recorder.made_again(template, [made.get(operand) for operand in operands], ids)))
    for root in span.shown:
        recorder.show(made[root])
    for number in span.differentiable:
        give_history(made[number])
    _become_views([(made[number], made[base]) for number, base in span.views.items()])
    return added, [made[number] for number in span.wanted]


def _outer(recorder: OpRecorder, fake: torch.Tensor) -> OuterTensor | None:
    value = recorder.value(fake)
    return None if value is None else OuterTensor(value.number, value.key, value.storage, fake.requires_grad)


def _looks_the_same(
    recorder: OpRecorder, span: Span, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor]
) -> bool:
    """Returns true if each new outer tensor looks like the old one, and shares memory with the same others."""
    facts = [(old, real, recorder.would_be(real)) for old, real in zip(span.inputs, inputs, strict=True)]
    facts += [(old, fake, recorder.value(fake)) for old, fake in zip(span.given, given, strict=True)]
    storages: set[tuple[Hashable, Hashable]] = set()
    for before, new, now in facts:
        if now is None or before.key is not now.key or before.requires_grad != new.requires_grad:
            return False
        storages.add((before.storage, now.storage))
    # One to one: no old storage is two now, and no two are one.
    return all(len(set(column)) == len(storages) for column in zip(*storages))


def _own(calls: Iterable[Call], outer: set[int], inputs: set[int]) -> set[int] | None:
    """Returns the numbers of the span's own values; None if it uses others, or if others were assigned in between."""
    own = set(inputs)
    # Values that share outer memory: for the new tensors it is unknown what else shares it.
    foreign = set(outer)
    for record, template in calls:
        if any(operand not in own and operand not in outer for operand in record.operands):
            return None
        if table.facts(record.schema).unsafe_view and not foreign.isdisjoint(record.operands):
            return None
        own.update(record.result_ids)
        shared = (leaf.shares >= 0 and record.operands[leaf.shares] in foreign for leaf in template.leaves)
        foreign.update(number for number, is_shared in zip(record.result_ids, shared) if is_shared)
    return own if not own or max(own) - min(own) + 1 == len(own) else None


def _shows(calls: Iterable[Call]) -> dict[int, int]:
    """Returns the results that share the memory of an operand, with that operand."""
    of: dict[int, int] = {}
    for record, template in calls:
        shared = zip(record.result_ids, template.leaves)
        of.update((number, record.operands[leaf.shares]) for number, leaf in shared if leaf.shares >= 0)
    return of


def _root(number: int, of: Mapping[int, int]) -> int:
    while number in of:
        number = of[number]
    return number


def _kept(calls: Sequence[Call], seen: set[int]) -> set[int]:
    """Returns the values that need tensors: those that are seen, and those whose memory they share."""
    kept = set(seen)
    for record, template in reversed(calls):
        if not kept.isdisjoint(record.result_ids):
            kept.update(record.operands[leaf.shares] for leaf in template.leaves if leaf.shares >= 0)
    return kept


def _views(
    recorder: OpRecorder, of: Mapping[int, int], outer: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]
) -> dict[int, int] | None:
    """Returns the wanted values that are views, with their bases: eager bumps their versions together, and shows
    ``_base``.

    None if the operations do not imply this, as after ``detach``: the same memory, and not a view of it.
    """
    given = {recorder.id_of(fake): fake for fake in outer}
    views: dict[int, int] = {}
    for old in wanted:
        number = recorder.id_of(old)
        if number in given:
            continue
        if old._is_view() != (number in of):
            return None
        if number in of:
            root = _root(number, of)
            base = given[root]._base if root in given and given[root]._is_view() else None
            if old._base is not base and (old._base is None or recorder.number(old._base) != root):
                return None
            views[number] = root
    return views


def _differentiable(
    numbers: Sequence[int], wanted: Sequence[torch.Tensor], views: Mapping[int, int], outer: Sequence[OuterTensor]
) -> list[int] | None:
    """Returns the values that themselves require a gradient. A view requires one if its base does; None if that is not
    so, as for views created with grad mode off."""
    given = {fact.number: fact.requires_grad for fact in outer}
    requiring = {views.get(number, number) for number, fake in zip(numbers, wanted) if fake.requires_grad}
    for number, fake in zip(numbers, wanted):
        root = views.get(number, number)
        if fake.requires_grad != given.get(root, root in requiring):
            return None
    return sorted(requiring.difference(given))


def _become_views(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Makes new fakes views of others, as torch does above dispatch with the result of an operation."""
    with Giving() as giving:
        for fake, base in pairs:
            giving.answer = fake
            base.as_strided(fake.shape, fake.stride(), fake.storage_offset())
