"""Savepoints to which a recording can roll back, as if nothing had been recorded since.

Data that only grows is truncated to its earlier length: lists, and dicts whose entries are never replaced, which keep
insertion order. Data that changes otherwise has an undo log.
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
    """The lengths of some lists and dicts, and the values of some attributes of an object."""

    lengths: Mapping[str, int]
    values: Mapping[str, Any]

    @staticmethod
    def of(owner: Any, growing: Sequence[str], plain: Sequence[str] = ()) -> Grown:
        return Grown(
            {name: len(getattr(owner, name)) for name in growing}, {name: getattr(owner, name) for name in plain}
        )

    def put_back(self, owner: Any) -> None:
        """Truncates the owner's lists and dicts, and restores its attributes."""
        for name, length in self.lengths.items():
            cut(getattr(owner, name), length)
        for name, value in self.values.items():
            setattr(owner, name, value)


def cut(grown: list[Any] | MutableMapping[Any, Any], length: int) -> None:
    """Removes the last additions to a list or dict."""
    if isinstance(grown, list):
        del grown[length:]
        return
    while len(grown) > length:
        grown.popitem()


class Counts:
    """Counts by key."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._keys: list[int] = []

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: int) -> bool:
        return key in self._counts

    def add(self, key: int) -> None:
        """Increments the count of a key."""
        self._keys.append(key)
        self._counts[key] = self._counts.get(key, 0) + 1

    def of(self, key: int) -> int:
        """Returns the count of a key."""
        return self._counts.get(key, 0)

    def was_known(self, key: int, length: int) -> bool:
        """Returns true if a key was among the first that were counted."""
        return key in self._keys[:length]

    def cut(self, length: int) -> None:
        """Undoes all increments after the first ones."""
        for key in self._keys[length:]:
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]
        cut(self._keys, length)


@dataclasses.dataclass(frozen=True)
class Savepoint:
    """The position of a recorder."""

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
    def of(recorder: OpRecorder) -> Savepoint:
        growing = ["_inputs", "_ids", "_alive", "_input_storages", "templates", "eager_facts"]
        return Savepoint(
            Grown.of(recorder, growing, ["location", "builtin", "failure", "_next"]),
            Grown.of(
                recorder.recording,
                ["inputs", "ops", "metas", "captures", "_roots"],
                ["mutates_inputs", "offset_sensitive", "device"],
            ),
            Grown.of(recorder.faker, ["_fakes", "_storages", "_alive"]),
            # Results of operations stay cached: they are valid for any tensors.
            Grown.of(recorder.memo, ["_values"]),
            # A write removes entries, so that the length does not determine the earlier contents.
            dict(recorder.recording._detached),
            len(recorder.shown),
            Grown.of(recorder.buffers, ["held"]),
            len(recorder.versions),
            recorder.reshaped,
        )

    def put_back(self, recorder: OpRecorder) -> bool:
        """Undoes what was recorded since; returns False, with nothing undone, if a tensor became a view in place."""
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
