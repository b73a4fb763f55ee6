"""The operations of a graph in a small form, which a report keeps so that the graph can be drawn later."""

from __future__ import annotations

import dataclasses
import json
import zlib

from .. import native
from ..recording import Recording, TensorMeta
from ..source_lines import LIBRARIES, Line

Chain = tuple[tuple[str, int], ...]
"""The lines (file, line) of an operation as stages have them: the innermost one, and the user's if that is another."""


@dataclasses.dataclass(frozen=True)
class Value:
    """An input of a graph."""

    number: int
    name: str
    type: str


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation of torch, as it was recorded."""

    schema: str
    operands: tuple[int, ...]
    """The numbers of the values that it reads."""
    results: tuple[int, ...]
    types: tuple[str, ...]
    """The types of its results, such as ``f32[2, 16]``."""
    kind: str
    """``view``, ``write`` or empty."""
    chain: Chain
    calls: Chain
    """The lines in functions named ``forward`` that led to it, innermost first: a module calls another there."""


@dataclasses.dataclass(frozen=True)
class Outline:
    """A graph."""

    inputs: tuple[Value, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[int, ...]


def packed(recording: Recording) -> bytes:
    """Returns the outline of a recording in the form that reports keep: some 20 bytes for each operation."""
    chains: dict[Chain, int] = {}

    def numbered(chain: Chain) -> int:
        return chains.setdefault(chain, len(chains))

    value = {
        "inputs": [[one.id, one.name, _type(one.meta)] for one in recording.inputs],
        "operations": [
            [
                op.schema,
                op.operands,
                op.result_ids,
                [_type(meta) for meta in op.results],
                "view" if op.is_view else "write" if op.mutates else "",
                numbered(_chain(op.location)),
                numbered(tuple((file, line) for file, line, function, _ in op.location if function == "forward")),
            ]
            for op in recording.ops
        ],
        "outputs": [one.id for one in recording.outputs if one.kind == "value"],
        "chains": list(chains),
    }
    return zlib.compress(json.dumps(value, separators=(",", ":")).encode("utf-8", "surrogatepass"), 1)


def unpacked(data: bytes) -> Outline:
    """Returns the outline that `packed` wrote."""
    value = json.loads(zlib.decompress(data).decode("utf-8", "surrogatepass"))
    chains = [tuple((file, line) for file, line in chain) for chain in value["chains"]]
    operations = [
        Operation(schema, tuple(operands), tuple(results), tuple(types), kind, chains[chain], chains[calls])
        for schema, operands, results, types, kind, chain, calls in value["operations"]
    ]
    return Outline(tuple(Value(*one) for one in value["inputs"]), tuple(operations), tuple(value["outputs"]))


def _chain(location: list[Line]) -> Chain:
    own = next(((file, line) for file, line, *_ in location if not file.startswith(LIBRARIES)), None)
    first = [(file, line) for file, line, *_ in location[:1]]
    return tuple(first if own is None or own in first else [*first, own])


def _type(meta: TensorMeta) -> str:
    sizes = [str(size) if type(size) is int else native.module().Sizes.text(size) for size in meta.sizes]
    return f"{meta.dtype}[{', '.join(sizes)}]"
