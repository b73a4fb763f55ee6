"""A product or convolution to be measured, and the program of that one operation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from .. import native
from ..recording import TensorMeta

Layout = tuple[list[int], list[int]]
"""Sizes and strides."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem as described by the native compiler: see ``crates/driver/src/problems.rs``."""

    text: str
    schema: str
    operands: tuple[Layout, ...]
    numbers: tuple[list[int], ...]
    """For a convolution: strides, padding, dilation, groups."""
    followed: bool
    work: int
    """The number of multiplications."""
    strategies: tuple[str, ...]
    """The strategies; the one that the cost model expects to win comes first."""

    def weights(self) -> int:
        """The operand that a model would read from memory: the columns of a product, the windows of a convolution."""
        return 1 if self.numbers else len(self.operands) - 1

    def result(self) -> list[int]:
        """The result's sizes."""
        if self.numbers:
            (images, _, *size), (outputs, _, *window) = self.operands[0][0], self.operands[1][0]
            strides, padding, dilation, _ = self.numbers
            along = zip(size, window, strides, padding, dilation)
            return [images, outputs, *((n + 2 * p - d * (w - 1) - 1) // s + 1 for n, w, s, p, d in along)]
        left, right = self.operands[-2][0], self.operands[-1][0]
        return [*left[:-1], *right[len(left) - 1 :]]

    def bytes(self) -> int:
        """Memory of operands and result, in floats of four bytes."""
        return 4 * (sum(extent(layout) for layout in self.operands) + math.prod(self.result()))

    def trace(self) -> Any:
        """Records the operation alone, followed by a pointwise operation if the problem includes one."""
        builder = native.module().TraceBuilder("main")
        for at, (sizes, strides) in enumerate(self.operands):
            builder.input(at, f"x{at}", TensorMeta("f32", tuple(sizes), tuple(strides), 0), at)
        tensors: list[Any] = [("t", at) for at in range(len(self.operands))]
        result = TensorMeta("f32", tuple(self.result()), tuple(row_major(self.result())), 0)

        def op(schema: str, args: list[Any], value: int) -> int:
            builder.op(schema, args, [value], [result], [-1], [], None, False, None, None, [])
            return value

        value = op(self.schema, self._arguments(tensors), len(tensors))
        if self.followed:
            value = op("aten.relu.default", [("t", value)], value + 1)
        builder.output("value", value, 0, None, False, None, None)
        return builder

    def _arguments(self, tensors: list[Any]) -> list[Any]:
        """Returns all arguments of the schema, in order."""
        if self.numbers:
            strides, padding, dilation, (groups,) = self.numbers
            bias = tensors[2] if len(tensors) > 2 else None
            return [*tensors[:2], bias, strides, padding, dilation, False, [0, 0], groups]
        factors = [1, 1] if len(tensors) == 3 else []
        return [*tensors, *factors]


def extent(layout: Layout) -> int:
    """Returns the number of elements of memory from the first to past the last."""
    return 1 + sum((size - 1) * stride for size, stride in zip(*layout))


def row_major(sizes: Sequence[int]) -> list[int]:
    """Returns the strides of a contiguous tensor."""
    return [math.prod(max(size, 1) for size in sizes[at + 1 :]) for at in range(len(sizes))]
