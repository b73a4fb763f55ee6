"""Numbers in the buffers of modules, and values computed from them: known when the program reads them.

A codec keeps its kernel sizes and strides in buffers, computes a padding from them and passes that to `pad`. Such a
buffer holds one integer (or bool), and the native part reports those that have not changed so far. If a program reads a
value that follows from these alone, it is computed while the frame is captured, and the buffers' contents become
guards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from . import modes
from .aten import schema
from .recording import OpRecord, Recording, map_refs

if TYPE_CHECKING:
    from .recorder import OpRecorder

PLAIN = (bool, int, float, str, torch.dtype, torch.device, torch.layout, torch.memory_format, type(None))


class Buffers:
    """The buffers of a recording whose contents may be read."""

    def __init__(self) -> None:
        self.held: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        """The fake and the real tensor of each buffer, by value number."""
        self.read: list[torch.Tensor] = []
        """The fakes of the buffers that were read, once per read."""
        self._set: list[torch.Tensor] = []

    def note(self, recorder: OpRecorder, fake: torch.Tensor, real: torch.Tensor) -> None:
        """Registers an input of the recording as such a buffer."""
        self.held[recorder.id_of(fake)] = fake, real

    def note_set(self, fake: torch.Tensor) -> None:
        """Records that a tensor's data is replaced: if it is a buffer, its contents are not read any more."""
        self._set.append(fake)

    def contents(self, recorder: OpRecorder, fake: torch.Tensor) -> torch.Tensor | None:
        """Returns the contents of a one-element tensor that follow from buffers alone. None for others, and if
        computing them raises: Python then raises at the place of the computation."""
        value = recorder.number(fake)
        if value is None or not self.held:
            return None
        found = self._origins(recorder.recording, value)
        if found is None:
            return None
        operations, origins = found
        with modes.set_aside(), torch.no_grad():
            known = {origin: self.held[origin][1] for origin in origins}
            try:
                for record in operations:
                    (result,) = record.result_ids
                    known[result] = _run(record, known)
            except RuntimeError:
                return None
        self.read += [self.held[origin][0] for origin in origins]
        return known[value]

    def _origins(self, recording: Recording, value: int) -> tuple[list[OpRecord], list[int]] | None:
        """Returns the operations that compute a value, in order, and the buffers they start from. None if they start
        from anything else, or if one of the values is written."""
        wanted = {value}
        operations: list[OpRecord] = []
        for record in reversed(recording.ops):
            if wanted.isdisjoint(record.result_ids):
                continue
            if not _computes_a_number(recording, record):
                return None
            wanted.difference_update(record.result_ids)
            wanted.update(record.operands)
            operations.append(record)
        if not wanted <= self.held.keys():
            return None
        if any(self.held[origin][0] is fake for origin in wanted for fake in self._set):
            return None
        made = {result for record in operations for result in record.result_ids}
        if _is_written(recording, wanted | made):
            return None
        return operations[::-1], sorted(wanted)


def _computes_a_number(recording: Recording, record: OpRecord) -> bool:
    """Returns true for one of torch's operations without effects that returns one one-element tensor and depends only
    on its arguments."""
    if record.raw is None or record.mutates or record.random or len(record.result_ids) != 1:
        return False
    func, full = record.raw
    if getattr(func, "namespace", None) != "aten" or any(
        size != 1 for size in recording.metas[record.result_ids[0]].sizes
    ):
        return False
    return all(type(leaf) in PLAIN for leaf in pytree.tree_leaves(full))


def _is_written(recording: Recording, values: set[int]) -> bool:
    """Returns true if some operation writes to the memory of one of these."""
    roots = recording.roots()
    storages = {record.id: ("input", record.storage) for record in recording.inputs}

    def memory(value: int) -> Any:
        root = roots.get(value, value)
        return storages.get(root, root)

    written = {memory(record.operands[at]) for record in recording.ops for at in record.mutates}
    return not written.isdisjoint(map(memory, values))


def _run(record: OpRecord, known: dict[int, torch.Tensor]) -> torch.Tensor:
    """Runs an operation and returns its result."""
    assert record.raw is not None
    func, full = record.raw
    positional, keywords = schema.call(func, [map_refs(value, lambda ref: known[ref.id]) for value in full])
    return func(*positional, **keywords)
