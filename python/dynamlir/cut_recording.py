"""A recording with unbacked sizes, cut where they become known.

Between two cuts is an ordinary recording, whose inputs have sizes that are known by then. Operations that create such
sizes, as ``nonzero`` does, are called by the host. Segments pass on tensors that own their memory; views of them are
recreated where they are used. So no segment needs to know about another.

Nothing of the caller's is written before the last segment: if an earlier one writes an input, all segments are given a
copy, which is written back at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from . import fake_histories
from .aten.unbacked import Birth
from .reasons import Fallback
from .recording import Base, InputRecord, OpRecord, OutputRecord, Recording


@dataclasses.dataclass
class Segment:
    """Operations that are compiled together."""

    recording: Recording
    inputs: list[int]
    """The values that it takes."""
    outputs: list[int]
    """The values that it returns."""
    symbols: list[int]
    """The symbols in it, by their numbers."""


@dataclasses.dataclass
class Call:
    """An operation that the host calls."""

    op: OpRecord
    births: list[Birth]


@dataclasses.dataclass
class Plan:
    """The execution plan of a recording with such sizes: steps in order, then the outputs."""

    steps: list[Segment | Call]
    inputs: list[int]
    """The values of the inputs."""
    copied: dict[int, int]
    """The inputs that are copied and written back, by value, with the number of version bumps in eager."""
    outputs: list[OutputRecord]
    random: bool


def plan(recording: Recording, births: Sequence[Birth], fakes: Mapping[int, torch.Tensor], grad_enabled: bool) -> Plan:
    """Cuts a recording, begun under this grad mode, after the operations that determine sizes; raises `Fallback` if
    that is impossible."""
    return _Cutter(recording, births, fakes, grad_enabled).plan()


class _Cutter:
    def __init__(
        self, recording: Recording, births: Sequence[Birth], fakes: Mapping[int, torch.Tensor], grad_enabled: bool
    ) -> None:
        self.recording, self.fakes, self.grad_enabled = recording, fakes, grad_enabled
        self.births: dict[int, list[Birth]] = {}
        for birth in births:
            self.births.setdefault(id(birth.op), []).append(birth)
        self.makers = {value: op for op in recording.ops for value in op.result_ids}
        self.roots = recording.roots()
        self.input_records = {record.id: record for record in reversed(recording.inputs)}
        self.order = {id(op): at for at, op in enumerate(recording.ops)}
        self.parts = list(self._parts())
        self.last = len(self.parts) - 1
        self.bumps = [self._bumps(ops) for ops, _ in self.parts]
        self.returned = [output.id for output in recording.outputs if output.kind == "value"]

    def plan(self) -> Plan:
        copied = self._copied()
        steps: list[Segment | Call] = []
        for at, (ops, calls) in enumerate(self.parts):
            if (segment := self._segment(at, ops)) is not None:
                steps.append(segment)
            steps += [Call(op, self.births[id(op)]) for op in calls]
        return Plan(
            steps,
            [record.id for record in self.recording.inputs],
            copied,
            self.recording.outputs,
            self.recording.has_random,
        )

    def _parts(self) -> Iterator[tuple[list[OpRecord], list[OpRecord]]]:
        """Yields operations, and the host's calls after them; the rest comes last.

        Operations that do not depend on the host's calls come before them, so that several calls are made at once.
        """
        before: list[OpRecord] = []
        calls: list[OpRecord] = []
        after: list[OpRecord] = []
        late: set[int] = set()  # values known after the calls
        symbols: set[int] = set()  # and symbols
        for op in self.recording.ops:
            births = self.births.get(id(op))
            depends = not late.isdisjoint(op.operands) or not symbols.isdisjoint(_symbols_in(op))
            # Later operations see writes, and random numbers are drawn in order.
            moves = not (depends or op.mutates or op.random or any(other.mutates for other in after))
            if births is not None:
                if calls and not moves:
                    yield before, calls
                    before, calls, after, late, symbols = after, [], [], set(), set()
                calls.append(op)
                late.update(op.result_ids)
                symbols.update(birth.symbol for birth in births)
            elif not calls or moves:
                before.append(op)
            else:
                after.append(op)
                late.update(op.result_ids)
        if calls:
            yield before, calls
            before = after
        yield before, []

    def root(self, value: int) -> int:
        """Returns the value whose memory another one shares."""
        return self.roots.get(value, value)

    def _bumps(self, ops: Iterable[OpRecord]) -> dict[int, int]:
        """Returns how often operations write each root."""
        found: dict[int, int] = {}
        for op in ops:
            for root in {self.root(op.operands[at]) for at in op.mutates}:
                found[root] = found.get(root, 0) + 1
        return found

    def _copied(self) -> dict[int, int]:
        """Returns the inputs that are written before the last segment."""
        copied: dict[int, int] = {}
        for bumps in self.bumps[: self.last]:
            for root in bumps:
                if root in self.input_records:
                    copied[root] = self.input_records[root].version_bumps
        for root in copied:
            record = self.input_records[root]
            shared = sum(other.storage == record.storage for other in self.recording.inputs)
            if shared > 1 or record.meta.offset != 0 or 0 in record.meta.strides:
                raise self._refused(
                    f"{record.name}, which shares memory or has gaps, is written before a size is known"
                )
            if any(self.root(value) == root and value != root for value in self.returned):
                raise self._refused(f"a view of {record.name} is returned, which is written before a size is known")
        trained = {self.root(value) for value, fake in self.fakes.items() if fake.requires_grad}
        for at, bumps in enumerate(self.bumps):
            if any(root in self._made(before) for root in trained.intersection(bumps) for before in range(at)):
                raise self._refused("what requires a gradient is written after a size has become known")
        return copied

    def _made(self, at: int) -> set[int]:
        ops, calls = self.parts[at]
        return {value for op in (*ops, *calls) for value in op.result_ids}

    def _refused(self, message: str) -> Fallback:
        return Fallback("data-dependent-size", message)

    def _segment(self, at: int, ops: list[OpRecord]) -> Segment | None:
        made = {value for op in ops for value in op.result_ids}
        wanted = self._wanted(at, made)
        ops = self._with_views(ops, made, wanted)
        if not ops:
            return None
        made = {value for op in ops for value in op.result_ids}
        used = dict.fromkeys(value for op in ops for value in op.operands if value not in made)
        inputs = [*used]
        recording = self._recording(at, ops, inputs, wanted)
        return Segment(recording, inputs, wanted, sorted(_symbols_of(recording)))

    def _wanted(self, at: int, made: set[int]) -> list[int]:
        """Returns the outputs of a segment: roots for later ones, the host's next operands, and at the end results."""
        later: dict[int, None] = {}
        for op in self.parts[at][1]:
            # The host gets the views themselves, whether they are created here or recreated.
            later.update((value, None) for value in op.operands if value in made or self._is_view(value))
        for ops, calls in self.parts[at + 1 :]:
            for op in (*ops, *calls):
                later.update((self.root(value), None) for value in op.operands if self.root(value) in made)
        for value in self.returned:
            if self.root(value) in made:
                later[self.root(value)] = None
            if at == self.last and (value in made or self._is_view(value)):
                later[value] = None
        return [*later]

    def _is_view(self, value: int) -> bool:
        return self.root(value) != value

    def _with_views(self, ops: list[OpRecord], made: set[int], wanted: Sequence[int]) -> list[OpRecord]:
        """Returns the operations, preceded by those that create the views which they and the results need."""
        missing: dict[int, OpRecord] = {}
        waiting = [value for op in ops for value in op.operands] + [*wanted]
        while waiting:
            value = waiting.pop()
            if value in made or not self._is_view(value):
                continue
            maker = self.makers[value]
            if id(maker) in missing:
                continue
            if not maker.is_view:
                raise self._refused(f"{maker.schema} gives memory of an operand")
            missing[id(maker)] = maker
            waiting += maker.operands
        return sorted(missing.values(), key=lambda op: self.order[id(op)]) + ops

    def _recording(self, at: int, ops: list[OpRecord], inputs: list[int], wanted: list[int]) -> Recording:
        whole = self.recording
        bumps = self.bumps[at]
        storages = {record.id: record.storage for record in whole.inputs}
        first = max(storages.values(), default=0) + 1
        records = []
        for number, value in enumerate(inputs):
            known = self.input_records.get(value)
            written = bumps.get(value, 0)
            if known is not None:
                records.append(dataclasses.replace(known, version_bumps=written))
                continue
            fake = self._fake(value)
            storage = first + number
            records.append(
                InputRecord(value, f"v{value}", whole.metas[value], storage, fake.requires_grad, version_bumps=written)
            )
        outputs = [self._output(at, value, inputs, wanted) for value in wanted]
        return dataclasses.replace(
            whole,
            name=f"{whole.name} part {at}" if self.last else whole.name,
            inputs=records,
            ops=ops,
            outputs=outputs,
            captures=[],
            mutates_inputs=any(value in bumps for value in inputs),
        )

    def _fake(self, value: int) -> torch.Tensor:
        fake = self.fakes.get(value)
        if fake is None:
            raise self._refused("a tensor that is gone is needed after a size has become known")
        return fake

    def _output(self, at: int, value: int, inputs: list[int], wanted: list[int]) -> OutputRecord:
        final = next(
            (output for output in self.recording.outputs if output.kind == "value" and output.id == value), None
        )
        root = self.root(value)
        base = None
        fake = self._fake(value)
        is_view = fake._is_view() if final is None else final.base is not None
        if is_view and root != value:
            if root in inputs:
                base = Base("arg", inputs.index(root))
            elif root in wanted:
                base = Base("output", wanted.index(root))
            else:
                base = Base("hidden", next(n for n, other in enumerate(wanted) if self.root(other) == root))
        earlier, later = (
            sum(bumps.get(root, 0) for bumps in part) for part in (self.bumps[: at + 1], self.bumps[at + 1 :])
        )
        if final is not None:
            return dataclasses.replace(final, base=base, version=max(final.version - later, 0))
        creation = fake_histories.creation(fake) if self.grad_enabled and is_view else None
        if fake.requires_grad and fake.is_leaf:
            raise self._refused("a tensor that is made to require a gradient is needed after a size has become known")
        # A created tensor may have a version; one that is detached at once lacks the counter that is bumped.
        version = max(fake._version - earlier - later, 0) + earlier
        return OutputRecord("value", value, version, base, requires_grad=fake.requires_grad, creation=creation)


def _symbols_of(recording: Recording) -> set[int]:
    """Returns the symbols in a recording, by their numbers."""
    found: set[int] = set()
    for record in recording.inputs:
        found |= _symbols(record.meta)
    for op in recording.ops:
        found |= _symbols_in(op)
    return found


def _symbols_in(op: OpRecord) -> set[int]:
    return _symbols((op.args, *op.results))


def _symbols(value: Any) -> set[int]:
    if isinstance(value, torch.SymInt):
        node: Any = value.node
        return set(node.symbols)
    return set().union(*map(_symbols, value)) if isinstance(value, (list, tuple)) else set()
