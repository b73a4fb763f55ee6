"""Repeats one recorded operation on fakes like its operands, to learn what torch knows about it besides its result."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch._ops import OpOverload

from ..fakes import Faker
from ..recorder import OpRecorder
from ..recording import DTYPES, Recording, Ref, TensorMeta, map_refs


class Operands:
    """Makes the operands of an operation inputs of another recording, in the order in which its arguments name them."""

    def __init__(
        self,
        recorder: OpRecorder,
        faker: Faker,
        of: Recording,
        prepare: Callable[[torch.Tensor, int], Any] = lambda fake, value: None,
    ) -> None:
        """``prepare`` receives each fake, with the value it represents, before it becomes an input."""
        self.fakes: dict[int, torch.Tensor] = {}
        """The fakes by the values that they represent."""
        self.order: list[int] = []
        """The value of each input."""
        self._recorder = recorder
        self._faker = faker
        self._of = of
        self._prepare = prepare

    def replaced(self, value: Any) -> Any:
        """Returns an argument with fakes instead of references."""
        return map_refs(value, self._fake)

    def _fake(self, ref: Ref) -> torch.Tensor:
        value = ref.id
        if value not in self.fakes:
            fake = fake_like(self._faker, self._of.metas[value], ("operand", value), self._of.device)
            self._prepare(fake, value)
            self.fakes[value] = fake
        self._recorder.add_input(self.fakes[value], f"operand{len(self.order)}")
        self.order.append(value)
        return self.fakes[value]


def split_arguments(overload: OpOverload, arguments: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Splits all arguments in schema order into positional and keyword-only ones."""
    names = [(argument.name, argument.kwarg_only) for argument in overload._schema.arguments]
    positional = [value for value, (_, keyword) in zip(arguments, names) if not keyword]
    return positional, {name: value for value, (name, keyword) in zip(arguments, names) if keyword}


def fake_like(faker: Faker, meta: TensorMeta, storage: Hashable, device: torch.device | None) -> torch.Tensor:
    """Returns a fake with this metadata, over the memory with that key, which ends where the tensor does."""
    dtype = DTYPES[meta.dtype]
    extent = 0
    if 0 not in meta.sizes:
        extent = 1 + sum((size - 1) * stride for size, stride in zip(meta.sizes, meta.strides))
    nbytes = (meta.offset + extent) * dtype.itemsize
    return faker.make(dtype, list(meta.sizes), list(meta.strides), meta.offset, storage, nbytes, device)


def freeze(value: Any, metas: dict[int, TensorMeta], seen: list[int]) -> Any:
    """Returns a hashable key for arguments: tensors by metadata, and by which of them are the same."""
    if isinstance(value, Ref):
        if value.id not in seen:
            seen.append(value.id)
        return (metas[value.id], seen.index(value.id))
    if isinstance(value, (list, tuple)):
        return tuple(freeze(element, metas, seen) for element in value)
    return (type(value).__name__, repr(value) if isinstance(value, float) else value)
