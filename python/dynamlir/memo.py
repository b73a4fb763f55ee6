"""Caches the results of operations on fakes, so that an operation seen before is not run on fakes again.

A model runs few operations, on tensors of few shapes, many times. The result of an operation's fake implementation
depends on the metadata of its operands, on which of them share memory, on its other arguments and on a little thread
state: all of that forms the key. The result is kept as a `Template`, from which the recorder creates new fakes and a
new record. Only results that are certain to be the same next time are kept: no operation that writes, draws random
numbers, inspects contents, is not torch's own, or returns one of its operands. Everything else is run on fakes each
time.

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

from .aten import schema
from .device import device_of
from .fakes import fake_state, made_fake
from .recording import OpRecord, Ref, TensorMeta

_META = torch.device("meta")

_REQUIRES_GRAD = object()
"""Marks, in a key, the preceding operand as requiring a gradient."""


class Use:
    """The current use of memos; changed by tests."""

    enabled = True
    checks = False
    hits = 0
    """The number of operations recalled and compared while checking."""


@contextlib.contextmanager
def disabled() -> Iterator[None]:
    """Runs everything on fakes."""
    before, Use.enabled = Use.enabled, False
    try:
        yield
    finally:
        Use.enabled = before


@contextlib.contextmanager
def checking() -> Iterator[None]:
    """Runs everything on fakes, and compares with the memo's result: raises `Difference` if they differ."""
    before, Use.checks, Use.hits = Use.checks, True, 0
    try:
        yield
    finally:
        Use.checks = before


class Difference(Exception):
    """A recalled result differs from the result on fakes."""


class TensorKey:
    """The metadata of a value. There is one object for all values with equal metadata: keys compare these."""

    __slots__ = ()


class Value(NamedTuple):
    """A value of the recording as operand: its number, its metadata, its storage."""

    number: int
    key: TensorKey
    storage: int


class Call(NamedTuple):
    """A call that may be cached."""

    key: tuple[Any, ...]
    full: list[Any]
    """All arguments in schema order."""
    tensors: list[torch.Tensor]
    operands: list[Value]


class Leaf(NamedTuple):
    """One result: its metadata, and the operand whose memory it shares; -1 for its own memory."""

    meta: TensorMeta
    dtype: torch.dtype
    device: torch.device
    shares: int


class Template(NamedTuple):
    """The result of a call, without the tensors."""

    leaves: tuple[Leaf, ...]
    container: type[Any] | None
    """The sequence type of the results; None for a single tensor."""
    record: OpRecord
    places: tuple[tuple[int, int], ...] | None
    """Pairs of argument and operand indices; None if operands are in lists."""

    def arguments(self, numbers: Sequence[int]) -> tuple[list[Any], list[Any]]:
        """Returns the arguments of the record for other operands: encoded, and with references."""
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
    """Returns an operation with cacheable results, its defaults, and the argument that has to be 0; else None."""
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
        zero = names.index("dropout_p")  # attention without dropout does not draw
    return known, tuple(argument.default for argument in known.arguments), zero


class Memo:
    """The operations seen in one recording, under one fake mode."""

    def __init__(self, mode: FakeTensorMode) -> None:
        self._mode = mode
        self._keys: dict[tuple[TensorMeta, torch.device], TensorKey] = {}
        self._values: dict[int, Value] = {}
        self._templates: dict[tuple[Any, ...], Template] = {}
        self.varies = False
        """True if sizes may be expressions."""
        self.assumes = True
        """True if assumptions about such sizes may be made for faster code."""

    def note(self, tensor: torch.Tensor, number: int, meta: TensorMeta, storage: int) -> None:
        """Records the value of a fake, which the recorder keeps alive."""
        described = (_key(meta) if self.varies else meta, device_of(tensor))
        key = self._keys.get(described)
        if key is None:
            key = self._keys[described] = TensorKey()
        self._values[id(tensor)] = Value(number, key, storage)

    def value(self, tensor: torch.Tensor) -> Value | None:
        """Returns the recorded value of a fake."""
        return self._values.get(id(tensor))

    def key(self, tensor: torch.Tensor) -> TensorKey | None:
        """Returns the key of a tensor that need not be known; None if no value has its metadata."""
        meta = TensorMeta.of(tensor)
        return self._keys.get((_key(meta) if self.varies else meta, device_of(tensor)))

    def call(
        self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], is_temporary: Callable[[int], bool]
    ) -> Call | None:
        """Returns a cacheable call, or None. ``is_temporary``: true for storages that are visible nowhere else."""
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
        """Appends a description of arguments to a key; returns False if one is of an unsupported kind."""
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
                key.append((torch.SymInt, _text(value)))
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
        """Returns the cached result of an equal call."""
        return self._templates.get(call.key)

    def remember(self, call: Call, out: Any, record: OpRecord) -> Template | None:
        """Caches the result of a call, if it can be recreated without running the call."""
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
        """Returns new fakes like the results of an equal call; ``tensors`` are the operands whose memory they share."""
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
    """Compares a recalled result with the result on fakes for the same call."""
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
    if repr(recalled) != repr(record):  # not the objects: NaN is not equal to itself
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
    """Returns the number of elements of memory that a tensor spans."""
    if 0 in meta.sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(meta.sizes, meta.strides))


def _renumbered(value: Any, numbers: Iterator[int]) -> Any:
    """Returns an argument, encoded or with references, with the next numbers for its tensors."""
    if isinstance(value, list):
        return [_renumbered(element, numbers) for element in value]
    if isinstance(value, Ref):
        return Ref(next(numbers))
    is_tensor = isinstance(value, tuple) and value[:1] == ("t",)
    return ("t", next(numbers)) if is_tensor else value


def _key(meta: TensorMeta) -> TensorMeta:
    """Returns the same with text for dynamic sizes: equal for equal expressions, without adding a guard."""
    sizes, strides, offset = map(_text, meta.sizes), map(_text, meta.strides), _text(meta.offset)
    return TensorMeta(meta.dtype, tuple(sizes), tuple(strides), offset)


def _text(value: Any) -> Any:
    """Returns a size, as text if it is dynamic."""
    return str(value.node) if isinstance(value, torch.SymInt) else value
