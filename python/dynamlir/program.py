"""Programs: what was recorded, as the compiler has it at stage 00. The recorder's own data can be dropped.

A program is read again where torch has to see its operations once more: to differentiate it again, or to compile it for
the sizes of a call. It comes from a recording or from a text.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import torch

from . import native
from .aten import schema
from .recording import (
    DETACH,
    DTYPES,
    NO_RESULT,
    Base,
    Builder,
    InputRecord,
    OpRecord,
    OutputRecord,
    Recording,
    Ref,
    TensorMeta,
    note_roots,
    operand_ids,
)

_UNDEFINED = TensorMeta("f32", (0,), (1,), 0)
"""The type that the text gives an undefined result."""

_OWN = "dynamlir."
"""Operations of this namespace are no operators of torch: their formulas are part of the program."""


class Program:
    """A whole graph at stage 00."""

    def __init__(self, trace: Builder) -> None:
        self.trace = trace
        """The native form, complete."""

    @staticmethod
    def read(text: str, entry: str = "main") -> Program:
        """Reads an entry of a text; raises `ValueError` if it is not at stage 00."""
        return Program(native.module().TraceBuilder.read(text, entry))

    @functools.cached_property
    def symbols(self) -> tuple[int, ...]:
        """The numbers of the symbols in its sizes; empty if all sizes are static."""
        return tuple(self.trace.declared)

    @functools.cached_property
    def requires_grad(self) -> tuple[bool, ...]:
        """For each input, true if it requires a gradient."""
        return tuple(self.trace.requires_grad)

    @property
    def order(self) -> int:
        """The number of times that it is differentiated."""
        return self.trace.times

    def at(self, values: Sequence[int]) -> Program:
        """Returns the program for these values of its symbols, in order."""
        return self.with_values(dict(zip(self.symbols, values, strict=True)))

    def with_values(self, values: dict[int, int]) -> Program:
        """Like `at`, with values by the numbers of symbols, which need not be declared."""
        return Program(self.trace.at(list(values.items())))

    def recording(self) -> Recording:
        """Returns it in the recorder's form, as if it had been recorded on tensors with its sizes, which are static.

        Derivatives recorded from torch's formulas are left out, since torch can record them again. Those of functions
        of the user are part of the program.
        """
        return _Reader(self.trace.recorded()).recording()


class _Reader:
    """Turns a native trace into a recording. Values keep their numbers; those of nested traces follow."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._data = data
        self._metas: dict[int, TensorMeta] = {}
        self._requiring: set[int] = set()
        """The values that require a gradient."""
        self._roots: dict[int, int] = {}
        self._numbers = itertools.count()

    def recording(self) -> Recording:
        made = self._trace(self._data, ())
        recomputed = {op.recompute for op in made.ops if op.recompute is not None}
        made.checkpoints = 1 + max(recomputed, default=-1)
        return made

    def _trace(self, data: dict[str, Any], given: Sequence[int]) -> Recording:
        """Reads a trace whose first inputs are ``given`` values of the outer one."""
        made = Recording(data["name"], metas=self._metas, device=torch.device(data["device"] or self._device()))
        made.keeps, made.order, made.path, made.given = (data[name] for name in ("keeps", "order", "path", "given"))
        values = list(given)
        for at, (name, ty, storage, requires_grad, bumps, tangent) in enumerate(data["inputs"]):
            if at >= len(given):
                values.append(self._value(TensorMeta(*ty)))
                if requires_grad or tangent is not None:
                    self._requiring.add(values[at])
            meta = self._metas[values[at]]
            made.inputs.append(InputRecord(values[at], name, meta, storage, requires_grad, bumps, tangent))
        used = {value for op in data["ops"] for value in operand_ids(op["args"])}
        used.update(output[1] for output in data["outputs"] if output[0] == "value")
        functions: list[tuple[OpRecord, dict[str, Any]]] = []
        for op in data["ops"]:
            record = self._op(op, values, used)
            made.ops.append(record)
            if record.schema.startswith(_OWN):
                functions.append((record, op))
        made.outputs = [_output(values, *output) for output in data["outputs"]]
        # Their values come after all of this trace.
        for record, op in functions:
            self._function(record, op)
        return made

    def _device(self) -> str:
        return self._data["device"] or "cpu"

    def _value(self, meta: TensorMeta) -> int:
        value = next(self._numbers)
        self._metas[value] = meta
        return value

    def _op(self, op: dict[str, Any], values: list[int], used: set[int]) -> OpRecord:
        args = [_renumbered(arg, values) for arg in op["args"]]
        operands, results = list(operand_ids(args)), []
        for meta in map(TensorMeta._make, op["results"]):
            is_undefined = meta == _UNDEFINED and len(op["results"]) > 1 and len(values) not in used
            results.append(NO_RESULT if is_undefined else meta)
            values.append(self._value(results[-1]))
        result_ids = values[len(values) - len(results) :]
        overload = schema.named(op["schema"])
        record = OpRecord(
            op["schema"], args, operands, results, result_ids, op["aliases"], op["mutates"], op["functional"],
            op["grad_enabled"], op["location"], recompute=op["recompute"], once=op["once"], unseen=op["unseen"],
            materialized=op["materialized"], not_linear=op["not_linear"],
        )  # fmt: skip
        if overload is not None:
            full = [_decoded(arg) for arg in args]
            record.random = schema.may_draw(overload, full)
            record.raw = overload, full
            if record.functional is not None and (functional := schema.named(record.functional)) is not None:
                record.raw = functional, schema.functional_arguments(overload, functional, full)
        if record.grad_enabled:
            record.needs_grad = tuple(at for at, value in enumerate(operands) if value in self._requiring)
        note_roots(self._roots, record)
        if record.needs_grad and _has_history(record):
            self._note_history(record)
        return record

    def _note_history(self, op: OpRecord) -> None:
        """Notes that the results of an operation, and the views of what it writes, require a gradient."""
        self._requiring.update(value for value, meta in zip(op.result_ids, op.results) if _is_differentiable(meta))
        for written in map(op.operands.__getitem__, op.mutates):
            root = self._roots.get(written, written)
            self._requiring.update([root, *(value for value, first in self._roots.items() if first == root)])

    def _function(self, record: OpRecord, op: dict[str, Any]) -> None:
        """Reads the formulas of a function: their first inputs are its operands and its results."""
        if op["decomposition"] is not None:
            record.decomposition = self._trace(op["decomposition"], record.operands)
        if op["vjp"] is not None:
            record.vjp = self._trace(op["vjp"], [*record.operands, *record.result_ids])


def _has_history(op: OpRecord) -> bool:
    """Returns false for operations that detach, or that take only the shape of an operand."""
    name = op.schema.split(".")[1]
    return op.schema != DETACH and not name.endswith("_like") and not name.startswith("new_")


def _is_differentiable(meta: TensorMeta) -> bool:
    return meta is not NO_RESULT and (DTYPES[meta.dtype].is_floating_point or DTYPES[meta.dtype].is_complex)


def _renumbered(arg: Any, values: Sequence[int]) -> Any:
    """Returns an encoded argument with the recording's numbers."""
    if isinstance(arg, list):
        return [_renumbered(element, values) for element in arg]
    return ("t", values[arg[1]]) if isinstance(arg, tuple) and arg[0] == "t" else arg


def _decoded(arg: Any) -> Any:
    """Returns an encoded argument as torch takes it, with references for tensors: the inverse of `recording.encode`."""
    if isinstance(arg, list):
        return [_decoded(element) for element in arg]
    if not isinstance(arg, tuple):
        return arg
    kind, value = arg
    if kind == "t":
        return Ref(value)
    if kind == "dtype":
        return DTYPES[value]
    return torch.device(value) if kind == "device" else getattr(torch, value)


def _output(values: Sequence[int], kind: str, *facts: Any) -> OutputRecord:
    if kind != "value":
        return OutputRecord(kind, const=facts[0] if facts else None)
    value, version, base, requires_grad, creation, gradient = facts
    base = None if base is None else Base(*base)
    return OutputRecord(kind, values[value], version, base, requires_grad, creation, gradient)
