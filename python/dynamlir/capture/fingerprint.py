"""A textual fingerprint of a recording, equal for two recordings of the same program.

Values are numbered by first appearance, dynamic sizes are written as their expressions, and constants by their
contents. The text contains neither the current values of such sizes nor the Python lines of an operation; the lines are
kept alongside, for reporting differences.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import modes, native
from ..reasons import Location
from ..recording import InputRecord, OpRecord, OutputRecord, Recording, TensorMeta

if TYPE_CHECKING:
    from .session import Session

Line = tuple[str, Location]
"""A line of text, and its Python location, innermost frame first."""


def program(session: Session) -> list[Line]:
    """Returns the operations of a capture, with its inputs, constants and outputs."""
    with modes.set_aside():
        return _Words().of(session.recording)


class _Words:
    """The text of one recording and the recordings nested in it."""

    def __init__(self) -> None:
        self._values: dict[int, int] = {}
        self._text = native.module().Sizes.text
        self._offsets: dict[int, Any] = {}
        """The storage offset of each input and of its aliases. An entry is valid for any such offset."""

    def of(self, recording: Recording) -> list[Line]:
        # An unused input is at most passed through, which belongs to the epilogue.
        used = {value for op in recording.ops for value in op.operands}
        used |= {output.id for output in recording.outputs}
        lines: list[Line] = [(self._input(record), []) for record in recording.inputs if record.id in used]
        lines += [(f"constant {_contents(fetch())}", []) for fetch in recording.captures]
        for op in recording.ops:
            lines.append((self._op(op), list(op.location)))
            for name, inner in (("decomposition", op.decomposition), ("derivative", op.vjp)):
                if inner is not None:
                    lines += [(f"{name}: {text}", place or list(op.location)) for text, place in _Words().of(inner)]
        return lines + [(self._output(output), []) for output in recording.outputs]

    def _value(self, value: int) -> str:
        return f"%{self._values.setdefault(value, len(self._values))}"

    def _sizes(self, sizes: Sequence[Any]) -> str:
        return f"[{', '.join(map(self._size, sizes))}]"

    def _size(self, size: Any) -> str:
        return str(size) if type(size) is int else str(self._text(size))

    def _meta(self, meta: TensorMeta, value: int) -> str:
        begins = self._offsets.get(value, 0)
        if type(begins) is int and type(meta.offset) is int:
            offset = str(meta.offset - begins)
        else:
            offset = f"{self._size(meta.offset)} from {self._size(begins)}"
        return f"{meta.dtype} {self._sizes(meta.sizes)} {self._sizes(meta.strides)} {offset}"

    def _input(self, record: InputRecord) -> str:
        self._offsets[record.id] = record.meta.offset
        facts = (record.requires_grad, record.version_bumps, record.tangent)
        return f"{self._value(record.id)} = {record.name}: {self._meta(record.meta, record.id)} {facts}"

    def _op(self, op: OpRecord) -> str:
        arguments = ", ".join(map(self._argument, op.args))
        for value, alias in zip(op.result_ids, op.aliases, strict=True):
            if alias >= 0 and op.operands[alias] in self._offsets:
                self._offsets[value] = self._offsets[op.operands[alias]]
        results = ", ".join(
            f"{self._value(value)}: {self._meta(meta, value)}"
            for value, meta in zip(op.result_ids, op.results, strict=True)
        )
        facts = (op.aliases, op.mutates, op.functional, op.grad_enabled, op.random, op.needs_grad, op.recompute)
        return f"{results} = {op.schema}({arguments}) {facts}"

    def _output(self, output: OutputRecord) -> str:
        value = self._value(output.id) if output.kind == "value" else output.kind
        constant = self._argument(output.const)
        facts = (output.version, output.base, output.requires_grad, output.creation, output.gradient)
        return f"return {value} {constant} {facts}"

    def _argument(self, value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(self._argument, value))}]"
        if isinstance(value, tuple):
            return self._value(value[1]) if value[0] == "t" else repr(value)
        return self._size(value) if isinstance(value, torch.SymInt) else repr(value)


def _contents(tensor: torch.Tensor) -> str:
    """Returns the metadata of a tensor, and a digest of its contents, which may be large."""
    found = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    held = ctypes.string_at(found.data_ptr(), found.numel())
    digest = hashlib.blake2b(held, digest_size=16).hexdigest()
    return f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()} {tensor.device} {digest}"
