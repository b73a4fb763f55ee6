"""Every pointwise operator that torch lists, and some others, compiled, against eager at delicate values: zeros of both
signs, subnormals, infinities, NaN, overflow thresholds, halves, and the ends of integer types.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from edges import Operator, check, grid, line, signed
from torch import Tensor
from torch.testing._internal import common_methods_invocations as invocations

aten = torch.ops.aten
FLOATS = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}
OTHERS = {"i64": torch.int64, "i32": torch.int32, "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}

# Operators that are random, complex, or C++ generated at run time; and those that crash eager itself.
SKIPPED = {
    "lcm", "imag", "conj", "cdouble", "cfloat", "chalf", "complex", "polar", "nn.functional.rrelu",
    "nn.functional.silu.complex", "jiterator_unary", "jiterator_binary", "jiterator_binary_return_by_ref",
}  # fmt: skip

# Eager itself loops from a negative number up to zero.
ENDLESS = ("polygamma", "digamma", "special.zeta")

UNARY: dict[str, Callable[[Tensor], Any]] = {
    "gelu": F.gelu, "gelu.tanh": lambda x: F.gelu(x, approximate="tanh"), "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, -0.2), "elu": lambda x: F.elu(x, -0.5),
    "softplus": lambda x: F.softplus(x, 2.0, 5), "x**2": lambda x: x**2, "x**-2": lambda x: x**-2,
    "x**0.5": lambda x: x**0.5, "x**-0.5": lambda x: x**-0.5, "x**1.3": lambda x: x**1.3, "x**7": lambda x: x**7,
    "2**x": lambda x: 2.0**x, "(-2)**x": lambda x: (-2) ** x, "logit": torch.logit, "1-x": lambda x: 1 - x,
    "logit.eps": lambda x: torch.logit(x, 1e-3), "1/x": lambda x: 1 / x, "clamp": lambda x: x.clamp(-1, 1),
    "lerp.0.3": lambda x: torch.lerp(x, -x, 0.3), "lerp.0.7": lambda x: torch.lerp(x, -x, 0.7),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.5), "addcdiv": lambda x: aten.addcdiv(x, x, x, value=0.5),
    "log_softmax": lambda x: x.unsqueeze(-1).log_softmax(-1), "ldexp.3": lambda x: torch.ldexp(x, torch.tensor(3)),
    "nan_to_num.numbers": lambda x: torch.nan_to_num(x, 1, 2, 3),
}  # fmt: skip

BINARY: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "sigmoid_backward": aten.sigmoid_backward, "tanh_backward": aten.tanh_backward,
    "silu_backward": aten.silu_backward, "gelu_backward": aten.gelu_backward,
    "gelu_backward.tanh": lambda g, x: aten.gelu_backward(g, x, approximate="tanh"),
    "threshold_backward": lambda g, x: aten.threshold_backward(g, x, 0), "lerp": lambda a, b: torch.lerp(a, b, b),
    "addcmul": lambda a, b: torch.addcmul(a, a, b, value=0.3), "prelu": aten._prelu_kernel,
    "addcdiv": lambda a, b: aten.addcdiv(a, b, a, value=0.3), "add.alpha": lambda a, b: torch.add(a, b, alpha=3),
    "sub.alpha": lambda a, b: torch.sub(a, b, alpha=0.3), "where": lambda a, b: torch.where(a > b, a, b),
    "clamp": lambda a, b: torch.clamp(a, b, a), "logaddexp2": torch.logaddexp2,
    "mse": lambda a, b: F.mse_loss(a, b, reduction="none"),
    "smooth_l1": lambda a, b: F.smooth_l1_loss(a, b, reduction="none", beta=0.5),
    "huber": lambda a, b: F.huber_loss(a, b, reduction="none", delta=0.7),
    "ldexp.int": lambda a, b: torch.ldexp(a, b.nan_to_num(0).clamp(-3000, 3000).to(torch.int32)),
}  # fmt: skip

CONSTANTS = (0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, 1e-40, 3e38, 1e300, 0.5, -2.0, 7)
BY_CONSTANT: dict[str, Callable[[Tensor, Any], Any]] = {
    "remainder": torch.remainder, "fmod": torch.fmod, "floor_divide": torch.floor_divide, "div": torch.div,
    "div.trunc": lambda x, c: torch.div(x, c, rounding_mode="trunc"), "pow": torch.pow, "mul": torch.mul,
    "add": lambda x, c: torch.add(x, c, alpha=3), "rsub": torch.rsub, "clamp_min": lambda x, c: x.clamp_min(c),
    "clamp": lambda x, c: x.clamp(c, c), "xlogy": torch.xlogy, "threshold": lambda x, c: F.threshold(x, c, c),
    "hardtanh": lambda x, c: F.hardtanh(x, -abs(c), abs(c)), "leaky_relu": F.leaky_relu, "copysign": torch.copysign,
    "pow.base": lambda x, c: torch.pow(c, x), "mul.tensor": lambda x, c: x * torch.tensor(c),
    "lerp": lambda x, c: torch.lerp(x, x + 1, c), "fmod.tensor": lambda x, c: torch.fmod(x, torch.tensor(c)),
    "softshrink": lambda x, c: F.softshrink(x, abs(c)),
}  # fmt: skip


def listed(table: Sequence[Any], dtype: torch.dtype, x: Tensor) -> Iterator[Operator]:
    """Torch's own list of operators for an element type, each with its first sampled arguments."""
    for info in table:
        name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
        if name.startswith("_refs") or name in SKIPPED or dtype not in info.supported_dtypes("cpu"):
            continue
        kwargs = {} if table is invocations.binary_ufuncs else info.sample_kwargs("cpu", dtype, x)[0]
        if name.startswith("div."):
            kwargs = {"rounding_mode": {"no": None, "tr": "trunc", "fl": "floor"}[name[4:6]]}
        if "polygamma" in name:
            kwargs = {"n": int(name[-1])}
        yield Operator(name, lambda *args, op=info.op, kwargs=kwargs: op(*args, **kwargs))


def custom(table: dict[str, Callable[..., Any]]) -> list[Operator]:
    return [Operator(name, function) for name, function in table.items()]


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_one_float(name: str) -> None:
    dtype = FLOATS[name]
    x = line(dtype)
    operators = [*listed(invocations.unary_ufuncs, dtype, x), *custom(UNARY)]
    endless = [operator for operator in operators if any(word in operator.name for word in ENDLESS)]
    check((operator for operator in operators if operator not in endless), (x,), gaps=dtype.itemsize > 2)
    check(endless, (x[(x > -100) | x.isnan()],), gaps=False)


@pytest.mark.parametrize("name", FLOATS)
def test_functions_of_two_floats(name: str) -> None:
    dtype = FLOATS[name]
    x, y = grid(dtype)
    operators = [*listed(invocations.binary_ufuncs, dtype, x), *custom(BINARY)]
    long = [op for op in operators if "polynomial" in op.name or "igamma" in op.name or op.name in ENDLESS]
    check((operator for operator in operators if operator not in long), (x, y), gaps=dtype.itemsize > 2)
    # Eager's recurrences take as many steps as the order, and its sums for numbers below zero cancel.
    kept = (x.abs() < 1e4) & (y >= 0) & (y < 200)
    check(long, (x[kept], y[kept]), gaps=False)


@pytest.mark.parametrize("name", ["f32", "f64", "f16"])
def test_functions_of_a_float_and_a_constant(name: str) -> None:
    cases = itertools.product(BY_CONSTANT.items(), CONSTANTS)
    operators = [Operator(f"{name}({c})", lambda x, f=f, c=c: f(x, c)) for (name, f), c in cases]
    values = [0.0, 1e-45, 1e-40, 0.3, 0.5, 1, 2.5, 7, 1000, 1e19, 3e38, math.inf]
    check(operators, (signed(values, FLOATS[name]),), gaps=False)


@pytest.mark.parametrize("name", OTHERS)
def test_integers(name: str) -> None:
    dtype = OTHERS[name]
    x = line(dtype)
    check([*listed(invocations.unary_ufuncs, dtype, x), *custom(UNARY)], (x,), gaps=False)
    operators = listed(invocations.binary_ufuncs, dtype, x)
    check((operator for operator in operators if not operator.name.startswith("special.")), grid(dtype), gaps=False)
