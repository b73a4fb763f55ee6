"""Remembers what operations give on fakes, so that an operation met before is not run on fakes again.

A model runs few operations, on tensors of few shapes, many times. What the fake implementation of an operation says
depends on the metadata of its operands, on which of them share memory, on its other arguments and on a little state of
the thread: all that is the key here. What it said is kept as a `Template`, of which the recorder makes new fakes and a
new record. Kept is only what is certain to be the same the next time: no operation that writes, draws random numbers,
asks for contents, is not torch's own, or returns one of its operands. Everything else is run on fakes each time.

A memo lives as long as one recording. `checking` runs everything on fakes as well, and compares.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from . import sizes
from .aten import schema
from .device import device_of
from .fakes import fake_state, made_fake
from .recording import OpRecord, Ref, TensorMeta

_META = torch.device("meta")

_REQUIRES_GRAD = object()
"""Stands in a key after an operand that requires a gradient."""


class Use:
    """How memos are used; changed by tests."""

    enabled = True
    checks = False
    hits = 0
    """Operations recalled and compared while checking."""


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Run everything on fakes."""
    before, Use.enabled = Use.enabled, False
    try:
        yield
    finally:
        Use.enabled = before


@contextlib.contextmanager
def checking() -> Iterator[None]:
    """Run everything on fakes, and compare with what a memo would have given: a `Difference` is raised."""
    before, Use.checks, Use.hits = Use.checks, True, 0
    try:
        yield
    finally:
        Use.checks = before


class Difference(Exception):
    """What was recalled is not what fakes give."""


class TensorKey:
    """The metadata of a value. There is one object for all values with equal metadata: keys compare these."""

    __slots__ = ()


class Value(NamedTuple):
    """A value of the recording as operand: its number, its metadata, the storage that it shows."""

    number: int
    key: TensorKey
    storage: int


class Call(NamedTuple):
    """A call that may be remembered."""

    key: tuple[Any, ...]
    full: list[Any]
    """All arguments in schema order."""
    tensors: list[torch.Tensor]
    operands: list[Value]


class Leaf(NamedTuple):
    """One result: its metadata, and the operand whose memory it shows; -1 for memory of its own."""

    meta: TensorMeta
    dtype: torch.dtype
    device: torch.device
    shares: int


class Template(NamedTuple):
    """What a call gave, without the tensors."""

    leaves: tuple[Leaf, ...]
    container: type[Any] | None
    """The sequence that the results are in; None for a single tensor."""
    record: OpRecord
    places: tuple[tuple[int, int], ...] | None
    """Which argument is which operand; None where operands are in lists."""

    def arguments(self, numbers: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """The arguments of the record for other operands: encoded, and with references."""
        assert self.record.raw is not None
        if self.places is None:
            encoded, references = iter(numbers), iter(numbers)
            args = [_renumbered(value, encoded) for value in self.record.args]
            return args, [_renumbered(value, references) for value in self.record.raw[1]]
        args, raw = list(self.record.args), list(self.record.raw[1])
        for at, operand in self.places:
            args[at], raw[at] = ("t", numbers[operand]), Ref(numbers[operand])
        return args, raw


@functools.cache
def _rememberable(func: OpOverload) -> tuple[schema.Operator, tuple[Any, ...], int | None] | None:
    """An operation whose results may be remembered, defaults, which argument has to be 0. None for others."""
    known = schema.info(func)
    if func.namespace != "aten" or known.has_written or known.reads_contents or known.inplace_view:
        return None
    kinds = {str(result.type) for result in func._schema.returns}
    if kinds not in ({"Tensor"}, {"List[Tensor]"}):
        return None
    zero = None
    if known.random:
        names = [argument.name for argument in known.arguments]
        if "dropout_p" not in names:
            return None
        zero = names.index("dropout_p")  # attention without dropout draws nothing
    return known, tuple(argument.default for argument in known.arguments), zero


class Memo:
    """The operations met in one recording, under one fake mode."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._keys: dict[tuple[TensorMeta, torch.device], TensorKey] = {}
        self._values: dict[int, Value] = {}
        self._templates: dict[tuple[Any, ...], Template] = {}
        self.varies = False
        """Whether sizes may be expressions."""
        self.assumes = True
        """Whether something may be assumed of these that faster code needs."""

    def note(self, tensor: torch.Tensor, number: int, meta: TensorMeta, storage: int) -> None:
        """Say what value a fake is, which the recorder keeps alive."""
        described = (sizes.key(meta) if self.varies else meta, device_of(tensor))
        key = self._keys.get(described)
        if key is None:
            key = self._keys[described] = TensorKey()
        self._values[id(tensor)] = Value(number, key, storage)

    def value(self, tensor: torch.Tensor) -> Value | None:
        """What was noted of a fake."""
        return self._values.get(id(tensor))

    def key(self, tensor: torch.Tensor) -> TensorKey | None:
        """The key of a tensor that need not be known; None where no value has its metadata."""
        meta = TensorMeta.of(tensor)
        return self._keys.get((sizes.key(meta) if self.varies else meta, device_of(tensor)))

    def call(
        self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], is_temporary: Callable[[int], bool]
    ) -> Call | None:
        """A call that may be remembered, or None. ``is_temporary`` tells of storages that nobody else can see."""
        found = _rememberable(func) if Use.enabled else None
        if found is None:
            return None
        known, defaults, zero = found
        full = schema.full_arguments(func, args, kwargs) if kwargs else [*args, *defaults[len(args) :]]
        if zero is not None and full[zero] != 0:
            return None
        grad = torch.is_grad_enabled()
        key: list[Any] = [
            known.name,
            grad,
            torch.is_inference_mode_enabled(),
            torch.get_default_dtype(),
            torch.is_autocast_enabled("cpu"),
            torch.are_deterministic_algorithms_enabled(),
        ]
        tensors: list[torch.Tensor] = []
        if not self._describe(full, key, tensors) or not (tensors or known.facts.factory):
            return None
        operands = [self._values[id(tensor)] for tensor in tensors]
        if len(operands) > 1:
            storages = [value.storage for value in operands]
            key += [storages.index(storage) for storage in storages]
        if known.facts.unsafe_view:
            key.append(is_temporary(operands[0].storage))
        return Call(tuple(key), full, tensors, operands)

    def _describe(self, values: Sequence[Any], key: list[Any], tensors: list[torch.Tensor]) -> bool:
        """Append to a key what arguments are; False where one is of a kind that no key is made of."""
        for value in values:
            kind = type(value)
            if kind is FakeTensor:
                known = self._values.get(id(value))
                if known is None or value.constant is not None:
                    return False
                tensors.append(value)
                key.append(known.key)
                if value.requires_grad:
                    key.append(_REQUIRES_GRAD)
            elif value is None or kind is int or kind is str:
                key.append(value)
            elif self.varies and isinstance(value, torch.SymInt):
                key.append((torch.SymInt, sizes.text(value)))
            elif kind is bool:
                key.append((bool, value))  # True is equal to 1
            elif kind is float:
                key.append((float, value.hex()))  # and 1.0; 0.0 is equal to -0.0
            elif kind is list or kind is tuple or kind is torch.Size:
                key.append((kind, len(value)))
                if not self._describe(value, key, tensors):
                    return False
            elif kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
                key.append(value)
            else:
                return False
        return True

    def known(self, call: Call) -> Template | None:
        """What was remembered for an equal call."""
        return self._templates.get(call.key)

    def remember(self, call: Call, out: Any, record: OpRecord) -> Template | None:
        """Keep what a call gave, where the same can be made again without it."""
        leaves = list(out) if isinstance(out, (list, tuple)) else [out]
        storages = [value.storage for value in call.operands]
        described: list[Leaf] = []
        for leaf, meta in zip(leaves, record.results):
            if type(leaf) is not FakeTensor or any(leaf is tensor for tensor in call.tensors):
                return None
            storage = leaf.untyped_storage()
            shares = storages.index(storage._cdata) if storage._cdata in storages else -1
            device = device_of(leaf)
            if leaf._version or vars(leaf) != fake_state(self._mode, device):
                return None
            if shares < 0 and (meta.offset or storage.nbytes() != _extent(meta) * leaf.element_size()):
                return None
            described.append(Leaf(meta, leaf.dtype, device, shares))
        places: list[tuple[int, Any]] = []
        for at, value in enumerate(call.full):
            if isinstance(value, torch.Tensor):
                places.append((at, len(places)))
        flat = tuple(places) if len(places) == len(call.tensors) else None
        container = type(out) if isinstance(out, (list, tuple)) else None
        template = self._templates[call.key] = Template(tuple(described), container, record, flat)
        return template

    def recall(self, template: Template, tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
        """New fakes that look like the results of an equal call, on these tensors: those whose memory is shown."""
        made: list[torch.Tensor] = []
        with torch._C._DisableTorchDispatch():
            for (_, sizes, strides, offset), dtype, device, shares in template.leaves:
                shown = tensors[shares] if shares >= 0 else None
                if shown is None:
                    assert shares < 0
                    elem = torch.empty_strided(sizes, strides, dtype=dtype, device=_META)
                else:
                    elem = torch.empty(0, dtype=dtype, device=_META)
                    elem.set_(shown.untyped_storage(), offset, sizes, strides)
                made.append(made_fake(self._mode, elem, device))
        return made


def check(template: Template, made: Sequence[torch.Tensor], call: Call, out: Any, record: OpRecord) -> None:
    """Hold what was recalled against what fakes gave for the same call."""
    Use.hits += 1
    operands = [value.number for value in call.operands]
    args, raw = template.arguments(operands)
    recalled = dataclasses.replace(
        template.record,
        args=args,
        operands=operands,
        result_ids=record.result_ids,
        location=record.location,
        recompute=record.recompute,
        raw=(record.raw[0] if record.raw else None, raw),
    )
    if repr(recalled) != repr(record):  # not the objects: a NaN is not equal to itself
        raise Difference(f"{record.schema}: recalled {recalled}, recorded {record}")
    if (template.container or FakeTensor) is not type(out):
        raise Difference(f"{record.schema}: recalled {template.container}, recorded {type(out)}")
    leaves = list(out) if isinstance(out, (list, tuple)) else [out]
    for ours, theirs in zip(made, leaves, strict=True):
        facts = [
            (
                type(fake), TensorMeta.of(fake), fake.dtype, fake.device, fake.layout, fake.requires_grad,
                fake._version, fake.is_conj(), fake.is_neg(), fake.untyped_storage().nbytes(), vars(fake),
                [fake.untyped_storage()._cdata == other.untyped_storage()._cdata for other in call.tensors],
            )
            for fake in (ours, theirs)
        ]  # fmt: skip
        if facts[0] != facts[1]:
            raise Difference(f"{record.schema}: recalled {facts[0]}, recorded {facts[1]}")


def _extent(meta: TensorMeta) -> int:
    """Elements of memory that a tensor reaches over."""
    if 0 in meta.sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(meta.sizes, meta.strides))


def _renumbered(value: Any, numbers: Iterator[int]) -> Any:
    """An argument, encoded or with references, with the next numbers for its tensors."""
    if isinstance(value, list):
        return [_renumbered(element, numbers) for element in value]
    if isinstance(value, Ref):
        return Ref(next(numbers))
    is_tensor = isinstance(value, tuple) and value[:1] == ("t",)
    return ("t", next(numbers)) if is_tensor else value
