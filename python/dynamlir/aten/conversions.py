"""Numbers and element types that eager's kernels refuse but fakes accept.

``x.fill_(1e30)`` on ints raises, as does ``torch.add(x, y, alpha=200)`` on ``int8``: a kernel converts a ``Scalar``
argument to the type of its result, which fails if the type cannot hold the number. Generated code would write the
converted value unchecked. And where fakes promote floats of several types, many kernels accept only one type. So such
calls run as plain Python, which raises.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from ..reasons import Fallback
from . import schema


def check(func: OpOverload, full: Sequence[Any], result: Any) -> None:
    """Raises `Fallback` if eager may refuse a number among the arguments. ``result`` is the result on fakes."""
    facts = schema.info(func).facts
    if facts.refuses_bools and isinstance(result, torch.Tensor) and result.dtype == torch.bool:
        raise Fallback("raised", f"{func} of bools")
    if facts.floats_or_bytes and not (result.is_floating_point() or result.dtype == torch.uint8):
        raise Fallback("raised", f"{func} of {result.dtype}")
    if facts.long_index:
        _check_index(func, full)
    if facts.one_type or facts.parameters_of_one_type:
        _check_types(func, full)
    for at in _scalars(func):
        if (number := full[at]) is not None and isinstance(result, torch.Tensor):
            _check(func, schema.info(func).arguments[at].name, number, result.dtype)
    if facts.casts_back:
        operands = [value for value in full if isinstance(value, (torch.Tensor, bool, int, float))]
        _, common = elementwise_dtypes(*operands, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT)
        if not torch.can_cast(common, full[0].dtype):
            raise Fallback("raised", f"{func}: {common} cannot be cast to {full[0].dtype}")


def _check_index(func: OpOverload, full: Sequence[Any]) -> None:
    names = [argument.name for argument in schema.info(func).arguments]
    index = full[names.index("index")]
    if index.dtype != torch.int64:
        raise Fallback("raised", f"{func} with an index of {index.dtype}")


def _check_types(func: OpOverload, full: Sequence[Any]) -> None:
    tensors = [value for value in full if isinstance(value, torch.Tensor) and value.is_floating_point()]
    types = [tensor.dtype for tensor in tensors]
    if len(set(types)) < 2:
        return
    if schema.info(func).facts.parameters_of_one_type:
        is_mixed = types[0] in (torch.float16, torch.bfloat16) and set(types[1:]) == {torch.float32}
        if is_mixed or tensors[0].device.type != "cpu":
            return
    raise Fallback("raised", f"{func} of {' and '.join(str(dtype) for dtype in dict.fromkeys(types))}")


@functools.cache
def _scalars(func: OpOverload) -> tuple[int, ...]:
    """Returns the positions of the arguments that are numbers converted by kernels."""
    arguments = schema.info(func).arguments
    return tuple(at for at, argument in enumerate(arguments) if argument.type in ("number", "Optional[number]"))


def _check(func: OpOverload, name: str, number: Any, dtype: torch.dtype) -> None:
    if name == "alpha":
        # For sums: a bool only for bools, no fraction for ints.
        is_fraction = isinstance(number, (float, torch.SymFloat))
        if (type(number) is bool and dtype != torch.bool) or (is_fraction and _is_integral(dtype)):
            raise Fallback("raised", f"{func}: alpha={number} for {dtype}")
    if dtype == torch.bool or dtype.is_complex:
        return  # every number converts
    if isinstance(number, torch.SymInt) and dtype not in _HOLD_ALL_INTS:
        number = int(number)
    elif isinstance(number, torch.SymFloat) and dtype not in (torch.float32, torch.float64):
        number = float(number)
    facts = schema.info(func).facts
    if facts.bounds and _is_integral(dtype):
        return
    if isinstance(number, (int, float)) and not fits(number, dtype, facts.strictly_unsigned):
        raise Fallback("raised", f"{func}: {name}={number} does not fit {dtype}")


_HOLD_ALL_INTS = (torch.int64, torch.bfloat16, torch.float32, torch.float64)


def _is_integral(dtype: torch.dtype) -> bool:
    return not (dtype.is_floating_point or dtype.is_complex)


def fits(number: int | float, dtype: torch.dtype, strictly: bool = False) -> bool:
    """Returns true if c10's checked conversion accepts a number, with or without rounding.

    Floats have infinities and NaN. Negative ints wrap around in an unsigned type, unless ``strictly``.
    """
    if dtype.is_floating_point:
        limit = torch.finfo(dtype).max
        return number != number or number in (float("inf"), float("-inf")) or -limit <= number <= limit
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    if isinstance(number, int) and least == 0 and not strictly:
        least = -most
    return least <= number <= most
