"""Points to which a recording goes back, as if nothing had been recorded since.

What only grows is cut to the length that it had: lists, and dicts whose entries are never replaced, which keep them in
the order in which they came. What changes as well has a list of its changes, which are undone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from .recorder import OpRecorder


@dataclasses.dataclass(frozen=True)
class Grown:
    """How long some lists and dicts were, and what some attributes of an object were."""

    lengths: Mapping[str, int]
    values: Mapping[str, Any]

    @staticmethod
    def of(owner: Any, growing: Sequence[str], plain: Sequence[str] = ()) -> Grown:
        return Grown(
            {name: len(getattr(owner, name)) for name in growing}, {name: getattr(owner, name) for name in plain}
        )

    def put_back(self, owner: Any) -> None:
        """Cut the owner's lists and dicts, and set its attributes back."""
        for name, length in self.lengths.items():
            cut(getattr(owner, name), length)
        for name, value in self.values.items():
            setattr(owner, name, value)


def cut(grown: list[Any] | MutableMapping[Any, Any], length: int) -> None:
    """Take out what was added to a list or dict last."""
    if isinstance(grown, list):
        del grown[length:]
        return
    while len(grown) > length:
        grown.popitem()


class Counts:
    """How often something was counted, by a key."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._keys: list[int] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: int) -> bool:
        return key in self._counts

    def add(self, key: int) -> None:
        """Count once more."""
        self._keys.append(key)
        self._counts[key] = self._counts.get(key, 0) + 1

    def of(self, key: int) -> int:
        """How often a key was counted."""
        return self._counts.get(key, 0)

    def was_known(self, key: int, length: int) -> bool:
        """Whether a key was among the first that were counted."""
        return key in self._keys[:length]

    def cut(self, length: int) -> None:
        """Forget what was counted after the first times."""
        for key in self._keys[length:]:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        cut(self._keys, length)


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """How far a recorder is."""

    recorder: Grown
    recording: Grown
    faker: Grown
    memo: Grown
    detached: Mapping[int, int]
    shown: int
    buffers: Grown
    versions: int
    reshaped: int

    @staticmethod
    def of(recorder: OpRecorder) -> Checkpoint:
        growing = ["_inputs", "_ids", "_alive", "_input_storages", "templates", "eager_facts"]
        return Checkpoint(
            Grown.of(recorder, growing, ["location", "builtin", "failure", "_next"]),
            Grown.of(
                recorder.recording,
                ["inputs", "ops", "metas", "captures", "_roots"],
                ["mutates_inputs", "offset_sensitive", "device"],
            ),
            Grown.of(recorder.faker, ["_fakes", "_storages", "_alive"]),
            # What operations give stays known: it is so on any tensors.
            Grown.of(recorder.memo, ["_values"]),
            # A write takes entries out of it, so that its length does not tell what it held.
            dict(recorder.recording._detached),
            len(recorder.shown),
            Grown.of(recorder.buffers, ["held"]),
            len(recorder.versions),
            recorder.reshaped,
        )

    def put_back(self, recorder: OpRecorder) -> bool:
        """Forget what was recorded since; False, with nothing forgotten, where a tensor became a view in place."""
        if recorder.reshaped != self.reshaped:
            return False
        self.recorder.put_back(recorder)
        self.recording.put_back(recorder.recording)
        self.faker.put_back(recorder.faker)
        self.memo.put_back(recorder.memo)
        recorder.recording._detached = dict(self.detached)
        recorder.shown.cut(self.shown)
        self.buffers.put_back(recorder.buffers)
        for tensor, version in reversed(recorder.versions[self.versions :]):
            torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
        cut(recorder.versions, self.versions)
        return True
