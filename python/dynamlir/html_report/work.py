"""The arithmetic of a kernel, counted in its text at stage 03."""

from __future__ import annotations

import math
import re

_OPERATION = re.compile(r"^ *%[\w:]+ = dynamo\.(\w+) ")
_TENSOR = re.compile(r"tensor<((?:\d+x|\?x)*)(?:[a-z]\w*|complex<\w+>)>")
_FREE = {"broadcast", "permute", "reshape", "slice", "full", "iota", "concat", "pad", "gather", "scatter", "bitcast"}
"""Operations that only move numbers."""


def flops(body: list[str]) -> int | None:
    """Returns the arithmetic operations of a launch: two for each multiplication that a product adds up, one for each
    element of a pointwise result or of a reduced operand. None if a size is dynamic."""
    total = 0
    for line in body:
        match = _OPERATION.match(line)
        if match is None or match[1] in _FREE:
            continue
        types = [_sizes(found) for found in _TENSOR.findall(line)]
        if not types or any(sizes is None for sizes in types):
            return None
        total += _of(match[1], [sizes for sizes in types if sizes is not None])
    return total


def _of(name: str, types: list[list[int]]) -> int:
    result = math.prod(types[-1])
    if name == "matmul" and types[0]:
        return 2 * result * types[0][-1]
    if name == "attention" and len(types) >= 3 and len(types[0]) >= 2:
        # Two products over the keys.
        return 2 * math.prod(types[0][:-1]) * types[1][-2] * (types[0][-1] + types[2][-1])
    if name == "convolution" and len(types) >= 2 and types[1]:
        return 2 * result * math.prod(types[1][1:])
    return math.prod(types[0]) if name == "reduce" else result


def _sizes(text: str) -> list[int] | None:
    if "?" in text:
        return None
    return [int(size) for size in text.split("x") if size]
