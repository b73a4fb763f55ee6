"""The result of a recorder, as plain data: values, operations, outputs. Emitted to the native builder in one go.

Nothing native exists until a graph has been recorded completely, so a graph that falls back leaves nothing behind.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from . import native, source_lines
from .reasons import Fallback, Location

if TYPE_CHECKING:
    from .cut_recording import Plan

# As in crates/torch-abi/src/dtype.rs; a test compares the two.
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
"""The inverse mapping."""


def dtype_name(dtype: torch.dtype) -> str:
    """Returns the short name of an element type; raises `Fallback` for an unsupported one."""
    name = DTYPE_NAMES.get(dtype)
    if name is None:
        raise Fallback("complex" if dtype.is_complex else "dtype", str(dtype))
    return name


class TensorMeta(NamedTuple):
    """Everything about a tensor except its contents and storage."""

    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorMeta:
        return TensorMeta(
            dtype_name(tensor.dtype),
            _numbers(tensor.shape),
            _numbers(tensor.stride()),
            _number(tensor.storage_offset()),
        )


def _number(value: Any) -> int:
    """Returns a size as an int; one of our dynamic ones unchanged."""
    if type(value) is int:
        return value
    return native.module().Sizes.as_program(value) if isinstance(value, torch.SymInt) else int(value)


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple([value if type(value) is int else _number(value) for value in values])


DETACH = "aten.detach.default"

NO_RESULT = TensorMeta("none", (), (), 0)
"""Represents a result that is None."""


Layouts = Mapping[int, Sequence[tuple[Mapping[int, int], TensorMeta]]]
"""Values with other layouts for some values of symbols, by their numbers; the last match counts."""

Varying = tuple[Any, Sequence[tuple[int, int] | None]]
"""The facts about dynamic sizes, and for each symbol its input and dimension; None for symbols of other graphs."""


class Ref(NamedTuple):
    """A value of the recording, in place of a tensor in an argument list."""

    id: int


def map_refs(value: Any, made: Callable[[Ref], torch.Tensor]) -> Any:
    """Returns an argument with tensors instead of references."""
    if isinstance(value, Ref):
        return made(value)
    if isinstance(value, (list, tuple)) and any(isinstance(element, Ref) for element in value):
        return type(value)(map_refs(element, made) for element in value)
    return value


@dataclasses.dataclass
class InputRecord:
    """A tensor the graph receives: a placeholder's, or one captured from the module."""

    id: int
    name: str
    meta: TensorMeta
    storage: int
    requires_grad: bool = False
    version_bumps: int = 0
    """The number of times that eager bumps its version counter."""
    tangent: int | None = None
    """In a derivative: the result whose tangent it is."""


@dataclasses.dataclass
class OpRecord:
    """One dispatched operation; ``args`` are encoded for the builder, ``operands`` are their tensors in order."""

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
    needs_grad: tuple[int, ...] = ()
    """The operands that require a gradient, if the operation is differentiated."""
    decomposition: Recording | None = None
    vjp: Recording | None = None
    """Its derivative: computes the gradients of operands from operands, results and tangents of results."""
    recompute: int | None = None
    """The torch.utils.checkpoint region that it belongs to, which backward recomputes."""
    once: bool = False
    """True if differentiating the derivative raises."""
    unseen: bool = False
    """True if the derivative of the derivative is unknown."""
    materialized: bool = False
    """True if the derivative runs, on zeros, when the gradients of the results are missing."""
    not_linear: bool = False
    """True if the derivative is not linear, so that it needs the sum of all gradients of the results."""

    @property
    def is_view(self) -> bool:
        """True if it only creates views of its operands."""
        return not self.mutates and any(alias >= 0 for alias in self.aliases)


class Base(NamedTuple):
    """The base of an output that is a view: input (``arg``) or ``output`` number ``at``, or an invisible tensor
    (``hidden``), which is the base of output ``at``."""

    kind: str
    at: int


@dataclasses.dataclass
class OutputRecord:
    """One output of the graph: ``kind`` is value, none or const."""

    kind: str
    id: int = -1
    version: int = 0
    base: Base | None = None
    """Its base; None if it is not a view."""
    requires_grad: bool = False
    creation: str | None = None
    """The creation of a view: with grad mode off (``no_grad``), or as ``one_of_several`` of an operation."""
    gradient: int | None = None
    """In a derivative: the operand whose gradient it is."""
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
    """The nesting of the outputs (a pytree spec)."""
    mutates_inputs: bool = False
    offset_sensitive: bool = False
    """True if an input's absolute storage offset was used."""
    device: torch.device | None = None
    """The device of all tensors; None before the first."""
    _detached: dict[int, int] = dataclasses.field(default_factory=dict)
    """The results of ``detach`` that were not written, with the indices of its calls."""
    _roots: dict[int, int] = dataclasses.field(default_factory=dict)
    """Like `roots`, for the operations so far."""
    keeps: bool = False
    """In a derivative: true if eager saves something for it, which one backward pass uses up."""
    checkpoint: int | None = None
    """The torch.utils.checkpoint region that is being recorded."""
    checkpoints: int = 0
    """The number of such regions."""
    order: int = 1
    """The number of times it is differentiated: with 2, its gradients and theirs are compiled."""
    path: tuple[int, ...] = ()
    """The node whose gradients these are, for each order except the last, if a graph is several autograd nodes."""
    given: tuple[int, ...] = ()
    """The indices of the first node's results that its gradients are given instead of recomputing them."""
    varying: Varying | None = None
    """None if all sizes are static."""
    cut: tuple[Plan, Layouts] | None = None
    """With unbacked sizes: how it is cut into segments, and the noted layouts of values."""
    lengths: Sequence[int] = ()
    """The arguments that are ints, each passed as an input of that length, after the tensors."""

    def place(self, device: torch.device) -> None:
        """Records the device of a tensor; raises `Fallback` if others are on another device."""
        if self.device is None:
            self.device = device
        elif self.device != device:
            raise Fallback("mixed-devices", f"{device} beside {self.device}")

    @property
    def is_training(self) -> bool:
        """True if an output requires a gradient that the graph has to compute."""
        return any(output.requires_grad for output in self.outputs)

    @property
    def has_random(self) -> bool:
        return any(op.random for op in self.ops)

    def append(self, op: OpRecord, asked: bool = False) -> None:
        """Records the next operation; ``asked`` if the user called it directly, not as part of another."""
        op.recompute = self.checkpoint
        for at in op.needs_grad:
            self._undo_detach(op.operands[at])
        note_roots(self._roots, op)
        if op.mutates and self._detached:
            # A written value has another history from here on, and what was saved of it before is no longer read.
            written = {self._roots.get(op.operands[at], op.operands[at]) for at in op.mutates}
            self._detached = {value: at for value, at in self._detached.items() if self._roots[value] not in written}
        if op.schema == DETACH and not asked:
            self._detached[op.result_ids[0]] = len(self.ops)
        self.ops.append(op)

    def _undo_detach(self, value: int) -> None:
        """Treats a ``detach`` as an alias, since its result gets a history.

        Autograd detaches the results that its formulas need, and restores their history when a formula reads them. This
        happens if the frame itself asks for gradients.
        """
        while (at := self._detached.pop(value, None)) is not None:
            op, alias = self.ops[at], torch.ops.aten.alias.default
            raw = None if op.raw is None else (alias, op.raw[1])
            self.ops[at] = dataclasses.replace(op, schema=str(alias), raw=raw, grad_enabled=True, needs_grad=(0,))
            value = op.operands[0]

    @contextlib.contextmanager
    def recomputed(self) -> Iterator[None]:
        """Records operations that backward recomputes. A torch.utils.checkpoint within another is a part of that."""
        before = self.enter_checkpoint()
        try:
            yield
        finally:
            self.checkpoint = before

    def enter_checkpoint(self) -> int | None:
        """Begins such a region; returns the previous one."""
        before = self.checkpoint
        if before is None:
            self.checkpoint = self.checkpoints
            self.checkpoints += 1
        return before

    def forget(self, first: int) -> None:
        """Removes the operations from this index on, to be kept elsewhere."""
        del self.ops[first:]
        self._detached = {value: at for value, at in self._detached.items() if at < first}

    def drop_unseen_detaches(self) -> None:
        """Removes ``detach`` where its result is unused: autograd calls it on what it saves."""
        used = {output.id for output in self.outputs}
        for op in self.ops:
            used.update(op.operands)
        self.ops = [op for op in self.ops if op.schema != DETACH or used.intersection(op.result_ids)]

    def roots(self, detach: bool = True) -> dict[int, int]:
        """Returns, for each value that shares an operand's storage, the value at the start of its chain of views.
        Without ``detach`` a new chain starts where something is detached."""
        found: dict[int, int] = {}
        for op in self.ops:
            if detach or op.schema != DETACH:
                note_roots(found, op)
        return found

    def histogram(self) -> collections.Counter[str]:
        """Returns the count of each schema."""
        return collections.Counter(op.schema for op in self.ops)

    def emit(self, make_builder: Callable[[str], Builder]) -> Builder:
        """Writes the recording into a fresh builder."""
        return self._emit(make_builder, {}, self.varying)

    def _emit(
        self, make_builder: Callable[[str], Builder], made: dict[int, Builder], varying: Varying | None
    ) -> Builder:
        builder = make_builder(self.name)
        device = str(self.device or "cpu")
        if device != "cpu":
            builder.device(device)
        builder.libraries(source_lines.LIBRARIES)
        if self.has_random:
            builder.random()
        if self.keeps:
            builder.keeps()
        if self.order > 1:
            builder.order(self.order, self.path, self.given)
        if varying is not None:
            builder.symbols(*varying)
        for record in self.inputs:
            facts = (record.version_bumps, record.requires_grad, record.tangent)
            builder.input(record.id, record.name, record.meta, record.storage, *facts)

        def nested(recording: Recording | None) -> Builder | None:
            if recording is not None and id(recording) not in made:
                made[id(recording)] = recording._emit(make_builder, made, varying)
            return None if recording is None else made[id(recording)]

        for op in self.ops:
            builder.op(
                op.schema,
                op.args if device == "cpu" else _on_device(op.args, device),
                op.result_ids,
                op.results,
                op.aliases,
                op.mutates,
                op.functional,
                op.grad_enabled,
                nested(op.decomposition),
                nested(op.vjp),
                op.location,
                op.recompute if self.is_training else None,
                op.materialized,
                op.not_linear,
                op.once,
                op.unseen,
            )
        for output in self.outputs:
            if output.kind == "value":
                returned = (output.version, output.base, output.requires_grad, output.creation, output.gradient)
                builder.output("value", output.id, *returned)
            elif output.kind == "const":
                # Sizes are computed outside the graph.
                builder.output("const", 0 if isinstance(output.const, torch.SymInt) else output.const)
            else:
                builder.output("none")
        return builder


def note_roots(roots: dict[int, int], op: OpRecord) -> None:
    """Adds the results of an operation that share an operand's storage."""
    for value, alias in zip(op.result_ids, op.aliases):
        if alias >= 0:
            roots[value] = roots.get(op.operands[alias], op.operands[alias])


class Builder(Protocol):
    """The native trace builder. Values are identified by the numbers given for them."""

    def device(self, device: str) -> None: ...

    def libraries(self, folders: Sequence[str]) -> None: ...

    def random(self) -> None: ...
    def keeps(self) -> None: ...
    def order(self, order: int, path: Sequence[int], given: Sequence[int]) -> None: ...
    def symbols(self, sizes: Any, bound: Sequence[tuple[int, int] | None]) -> None: ...

    def input(
        self,
        value: int,
        name: str,
        meta: TensorMeta,
        storage: int,
        version_bumps: int = 0,
        requires_grad: bool = False,
        tangent: int | None = None,
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
        vjp: Any,
        location: Location,
        recompute: int | None = None,
        materialized: bool = False,
        not_linear: bool = False,
        once: bool = False,
        unseen: bool = False,
    ) -> None: ...

    def output(self, kind: str, *payload: Any) -> None: ...

    @property
    def declared(self) -> list[int]: ...
    @property
    def requires_grad(self) -> list[bool]: ...
    @property
    def times(self) -> int: ...
    def at(self, values: Sequence[tuple[int, int]]) -> Builder: ...
    def recorded(self) -> dict[str, Any]: ...
    def text(self) -> str: ...


def encode(value: Any, lookup: Callable[[torch.Tensor], int]) -> Any:
    """Returns one argument in the builder's form; ``lookup`` gives the id of a tensor."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, torch.Tensor):
        return ("t", lookup(value))
    if isinstance(value, torch.SymInt):
        value = _number(value)
        if isinstance(value, torch.SymInt):
            return value
    if isinstance(value, int):
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


def result_leaves(out: Any, count: int | None = None) -> list[Any]:
    """Returns the results of an operation, with lists flattened; None for those after ``count``."""
    if isinstance(out, (list, tuple)):
        leaves = [leaf for element in out for leaf in result_leaves(element)]
        return leaves if count is None else [*leaves[:count], *[None] * (len(leaves) - count)]
    return [out]


def tensors_of(full: Sequence[Any]) -> list[torch.Tensor]:
    """Returns the tensors among arguments, and in lists of them."""
    found: list[torch.Tensor] = []
    for value in full:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found.extend(element for element in value if isinstance(element, torch.Tensor))
    return found


def operand_ids(args: Sequence[Any]) -> Iterator[int]:
    """Yields the tensors of an encoded argument list, in order."""
    for value in args:
        if isinstance(value, tuple):
            if value[0] == "t":
                yield value[1]
        elif isinstance(value, list):
            yield from operand_ids(value)


def _on_device(args: Sequence[Any], device: str) -> list[Any]:
    """Returns arguments with the current device for one without an index; the results give the current one."""
    return [
        _on_device(value, device)
        if isinstance(value, list)
        else ("device", device)
        if isinstance(value, tuple) and value == ("device", "cuda")
        else value
        for value in args
    ]
