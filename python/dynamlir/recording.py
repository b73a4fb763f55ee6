"""What a recorder has seen, as plain data: values, operations, outputs. Emitted to the native builder in one go.

Nothing native exists until a graph has been recorded completely, so a graph that falls back leaves nothing behind.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from . import places
from .reasons import Fallback, Location

# As in crates/torch-abi/src/dtype.rs; a test holds the two against each other.
DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "ui8",
    torch.bool: "i1",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
}


DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
"""The other way round."""


def dtype_name(dtype: torch.dtype) -> str:
    """The short name of an element type; `Fallback` for one that has none here."""
    name = DTYPE_NAMES.get(dtype)
    if name is None:
        raise Fallback("complex" if dtype.is_complex else "dtype", str(dtype))
    return name


class TensorMeta(NamedTuple):
    """Everything about a tensor but its contents and storage."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorMeta:
        return TensorMeta(
            dtype_name(tensor.dtype),
            tuple(map(int, tensor.shape)),
            tuple(map(int, tensor.stride())),
            int(tensor.storage_offset()),
        )


NO_RESULT = TensorMeta("none", (), (), 0)
"""Stands for a result that is None."""


class Ref(NamedTuple):
    """A value of the recording, where an argument list holds a tensor."""

    id: int


@dataclasses.dataclass
class InputRecord:
    """A tensor the graph receives: a placeholder's, or one captured from the module."""

    id: int
    name: str
    meta: TensorMeta
    storage: int
    requires_grad: bool = False
    version_bumps: int = 0
    """How often eager bumps its version counter."""


@dataclasses.dataclass
class OpRecord:
    """One dispatched operation; ``args`` are encoded as the builder wants, ``operands`` are their tensors in order."""

    schema: str
    args: list[Any]
    operands: list[int]
    results: list[TensorMeta]
    result_ids: list[int]
    aliases: list[int]
    mutates: list[int]
    functional: str | None
    grad_enabled: bool
    location: Location
    raw: tuple[Any, list[Any]] | None = None
    """The overload (the functional one, if any) and its arguments with `Ref` for tensors: for decomposing."""
    random: bool = False
    decomposition: Recording | None = None

    @property
    def is_view(self) -> bool:
        """Whether it only makes views of its operands."""
        return not self.mutates and any(alias >= 0 for alias in self.aliases)


class Base(NamedTuple):
    """What an output is a view of: input (``arg``) or ``output`` number ``at``, or a tensor nobody sees (``hidden``),
    which is the one that output ``at`` is a view of."""

    kind: str
    at: int


@dataclasses.dataclass
class OutputRecord:
    """One output of the graph: ``kind`` is value, none or const."""

    kind: str
    id: int = -1
    version: int = 0
    base: Base | None = None
    """What it is a view of; None for what is not a view."""
    const: Any = None


@dataclasses.dataclass
class Recording:
    """A whole graph."""

    name: str
    inputs: list[InputRecord] = dataclasses.field(default_factory=list)
    ops: list[OpRecord] = dataclasses.field(default_factory=list)
    outputs: list[OutputRecord] = dataclasses.field(default_factory=list)
    metas: dict[int, TensorMeta] = dataclasses.field(default_factory=dict)
    captures: list[Callable[[], torch.Tensor]] = dataclasses.field(default_factory=list)
    """Fetch, at call time, the inputs after the placeholders'."""
    out_spec: Any = None
    """How the outputs are nested (a pytree spec)."""
    mutates_inputs: bool = False
    offset_sensitive: bool = False
    """Whether an input's absolute storage offset was used."""
    device: torch.device | None = None
    """Where all tensors live; None before the first."""

    def place(self, device: torch.device) -> None:
        """Note where a tensor lives; `Fallback` where others live elsewhere."""
        if self.device is None:
            self.device = device
        elif self.device != device:
            raise Fallback("mixed-devices", f"{device} beside {self.device}")

    @property
    def has_random(self) -> bool:
        return any(op.random for op in self.ops)

    def roots(self) -> dict[int, int]:
        """Each value that shares an operand's storage, with the value that this chain of views starts from."""
        found: dict[int, int] = {}
        for op in self.ops:
            for value, alias in zip(op.result_ids, op.aliases):
                if alias >= 0:
                    found[value] = found.get(op.operands[alias], op.operands[alias])
        return found

    def histogram(self) -> collections.Counter[str]:
        """How often each schema occurs."""
        return collections.Counter(op.schema for op in self.ops)

    def emit(self, make_builder: Callable[[str], Builder]) -> Builder:
        """Write the recording into a fresh builder."""
        return self._emit(make_builder, {})

    def _emit(self, make_builder: Callable[[str], Builder], made: dict[int, Builder]) -> Builder:
        builder = make_builder(self.name)
        device = str(self.device or "cpu")
        if device != "cpu":
            builder.device(device)
        builder.libraries(places.LIBRARIES)
        if self.has_random:
            builder.random()
        for record in self.inputs:
            counts = (record.version_bumps, record.requires_grad)
            builder.input(record.id, record.name, record.meta, record.storage, *counts)
        for op in self.ops:
            nested = None
            if op.decomposition is not None:
                nested = made.get(id(op.decomposition))
                if nested is None:
                    nested = made[id(op.decomposition)] = op.decomposition._emit(make_builder, made)
            builder.op(
                op.schema,
                op.args if device == "cpu" else _on_device(op.args, device),
                op.result_ids,
                op.results,
                op.aliases,
                op.mutates,
                op.functional,
                op.grad_enabled,
                nested,
                op.location,
            )
        for output in self.outputs:
            if output.kind == "value":
                builder.output("value", output.id, output.version, output.base)
            elif output.kind == "const":
                builder.output("const", output.const)
            else:
                builder.output("none")
        return builder


class Builder(Protocol):
    """The native trace builder. Values are known by the numbers that they are given with."""

    def device(self, device: str) -> None: ...

    def libraries(self, folders: Sequence[str]) -> None: ...

    def random(self) -> None: ...

    def input(
        self,
        value: int,
        name: str,
        meta: TensorMeta,
        storage: int,
        version_bumps: int = 0,
        requires_grad: bool = False,
    ) -> None: ...

    def op(
        self,
        schema: str,
        args: list[Any],
        values: list[int],
        results: list[TensorMeta],
        aliases: list[int],
        mutates: list[int],
        functional: str | None,
        grad_enabled: bool,
        decomposition: Any,
        location: Location,
    ) -> None: ...

    def output(self, kind: str, *payload: Any) -> None: ...

    def text(self) -> str: ...


def encode(value: Any, lookup: Callable[[torch.Tensor], int]) -> Any:
    """One argument in the builder's form; ``lookup`` gives the id of a tensor."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, torch.Tensor):
        return ("t", lookup(value))
    if isinstance(value, (int, torch.SymInt)):
        if not -(2**63) <= int(value) < 2**63:
            raise Fallback("opaque-argument", f"{value}, which 64 bits do not hold")
        return int(value)
    if isinstance(value, (float, torch.SymFloat)):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [encode(element, lookup) for element in value]
    if isinstance(value, torch.dtype):
        return ("dtype", dtype_name(value))
    if isinstance(value, torch.device):
        if value.type not in ("cpu", "cuda"):
            raise Fallback("device", str(value))
        return ("device", "cpu" if value.type == "cpu" else str(value))
    if isinstance(value, torch.memory_format):
        return ("memory_format", str(value).removeprefix("torch."))
    if isinstance(value, torch.layout):
        if value is not torch.strided:
            raise Fallback("layout", str(value))
        return ("layout", "strided")
    if isinstance(value, complex):
        raise Fallback("complex", "a complex number as argument")
    raise Fallback("opaque-argument", type(value).__name__)


def operand_ids(args: Sequence[Any]) -> Iterator[int]:
    """The tensors of an encoded argument list, in order."""
    for value in args:
        if isinstance(value, tuple):
            if value[0] == "t":
                yield value[1]
        elif isinstance(value, list):
            yield from operand_ids(value)


def _on_device(args: Sequence[Any], device: str) -> list[Any]:
    """Arguments where a device without a number is the current one, of which the results have told."""
    return [
        _on_device(value, device)
        if isinstance(value, list)
        else ("device", device)
        if isinstance(value, tuple) and value == ("device", "cuda")
        else value
        for value in args
    ]
