"""The assumption about rows of dynamic length: that they are short enough for sums of single floats.

A long sum of single floats is accumulated in doubles, which is half as fast (`Emit::reduce`). A dynamic length does not
reveal whether it is long. So if the row being summed is short now, all later ones are assumed to be. The code is
compiled for these; a longer row leads to an entry for rows of any length. For declared lengths nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload

from . import schema

SHORT = 32_768
"""The maximum number of elements of a sum of single floats; see `Emit::reduce`."""


def assume_short(func: OpOverload, full: Sequence[Any]) -> None:
    """Assumes that the rows summed by an operator are short."""
    known = schema.info(func)
    if known.facts.sums is None or not full[0].is_floating_point() or full[0].dtype == torch.float64:
        return
    given = {argument.name: value for argument, value in zip(known.arguments, full)}
    sizes = _summed(full[0], known.facts.sums, given)
    varying = [size for size in sizes if isinstance(size, torch.SymInt)]
    if len(varying) == 1 and all(size == 1 for size in sizes if size is not varying[0]):
        node: Any = varying[0].node
        node.expect_at_most(SHORT)


def _summed(operand: torch.Tensor, argument: str, given: dict[str, Any]) -> list[Any]:
    """Returns the sizes of the summed dimensions if the innermost is among them, else an empty list."""
    rank = operand.dim()
    if argument == "normalized_shape":
        dims = list(range(rank - len(given[argument]), rank))
    elif argument == "-1":
        dims = [-1]
    elif argument == "key":
        # For one query, generated code sums the weights.
        one = type(operand.shape[-2]) is int and operand.shape[-2] == 1
        return [given[argument].shape[-2]] if one else []
    else:
        said = given.get(argument)
        dims = list(range(rank)) if said is None or said == [] else [said] if isinstance(said, int) else list(said)
    dims = [dim % rank for dim in dims] if rank else []
    return [operand.shape[dim] for dim in dims] if rank - 1 in dims else []
