"""Recordings with dynamic sizes, their versions for given sizes, and assumptions on ints used in computations.

A dynamic size is an expression over symbols, a ``torch.SymInt`` whose node is native. If a recording with such sizes
cannot be compiled itself, `at` makes it static, as if it had been recorded on tensors with these sizes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from .aten import schema
from .recording import OpRecord, Recording, TensorMeta

Layouts = Mapping[int, Sequence[tuple[Mapping[int, int], TensorMeta]]]
"""Values with other layouts for some values of symbols, by their numbers; the last match counts."""


def at(recording: Recording, values: Sequence[int], layouts: Layouts | None = None) -> Recording:
    """Returns a recording for these values of the symbols."""
    return _At(values, layouts or {}).recording(recording)


class _At:
    """Makes recordings static. Shared parts stay shared."""

    def __init__(self, values: Sequence[int], layouts: Layouts) -> None:
        self.values = list(values)
        self._layouts: dict[int, TensorMeta] = {}
        """The layouts of the outermost recording's values."""
        self._depth = 0
        for value, noted in layouts.items():
            for case, meta in noted:
                if all(self.values[symbol] == number for symbol, number in case.items()):
                    self._layouts[value] = meta
        self._metas: dict[int, tuple[TensorMeta, TensorMeta]] = {}
        self._recordings: dict[int, Recording] = {}

    def recording(self, symbolic: Recording) -> Recording:
        known = self._recordings.get(id(symbolic))
        if known is None:
            self._depth += 1
            known = self._recordings[id(symbolic)] = dataclasses.replace(
                symbolic,
                varying=None,
                inputs=[
                    dataclasses.replace(record, meta=self._of(record.id, record.meta)) for record in symbolic.inputs
                ],
                ops=[self._op(op) for op in symbolic.ops],
                outputs=[dataclasses.replace(output) for output in symbolic.outputs],
                metas={value: self._of(value, meta) for value, meta in symbolic.metas.items()},
            )
            self._depth -= 1
        return known

    def _op(self, op: OpRecord) -> OpRecord:
        return dataclasses.replace(
            op,
            args=self._value(op.args),
            results=[self._of(value, meta) for value, meta in zip(op.result_ids, op.results)],
            raw=None if op.raw is None else (op.raw[0], self._value(op.raw[1])),
            decomposition=None if op.decomposition is None else self.recording(op.decomposition),
            vjp=None if op.vjp is None else self.recording(op.vjp),
        )

    def _of(self, value: int, meta: TensorMeta) -> TensorMeta:
        return self._meta(self._layouts.get(value, meta) if self._depth == 1 else meta)

    def _meta(self, meta: TensorMeta) -> TensorMeta:
        known = self._metas.get(id(meta))
        if known is None:
            sizes, strides = (tuple(map(self._number, numbers)) for numbers in (meta.sizes, meta.strides))
            made = TensorMeta(meta.dtype, sizes, strides, self._number(meta.offset))
            known = self._metas[id(meta)] = meta, made  # keeps `meta` alive, since its id is the key
        return known[1]

    def _number(self, value: Any) -> Any:
        node: Any = getattr(value, "node", None) if isinstance(value, torch.SymInt) else None
        return value if node is None else node.at(self.values)

    def _value(self, value: Any) -> Any:
        if type(value) is list:
            return [self._value(element) for element in value]
        # Others are references to values.
        return tuple(map(self._value, value)) if type(value) in (tuple, torch.Size) else self._number(value)


def key(meta: TensorMeta) -> TensorMeta:
    """Returns the same with text for dynamic sizes: equal for equal expressions, without adding a guard."""
    sizes, strides, offset = map(text, meta.sizes), map(text, meta.strides), text(meta.offset)
    return TensorMeta(meta.dtype, tuple(sizes), tuple(strides), offset)


def text(value: Any) -> Any:
    """Returns a size, as text if it is dynamic."""
    return str(value.node) if isinstance(value, torch.SymInt) else value


_COMPUTED = frozenset(["number", "Optional[number]", "List[number]", "Tensor", "Optional[Tensor]"])
"""The types of arguments whose ints are computed with: 64 bits must hold them, and the results."""


def fit(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Assumes that no dynamic int is too large to be computed with."""
    arguments = schema.info(func).arguments
    kinds = {argument.name: argument.type for argument in arguments}
    given = [*zip((argument.type for argument in arguments), args), *((kinds[name], kwargs[name]) for name in kwargs)]
    for kind, value in given:
        if kind in _COMPUTED:
            for number in value if type(value) in (list, tuple) else (value,):
                if isinstance(number, torch.SymInt):
                    number.node.fit()  # type: ignore[attr-defined]
