"""The operations of the part `functions`: the calls, and their domains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[..., Any]

ANY, POSITIVE, WITHIN, ABOVE = "any", "positive", "within", "above"
"""Any numbers, those from 0.01 on, between -1 and 1, from 1 on."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """A function of a tensor with a layout, tensors like it, and tensors of indices into its last dimension."""

    name: str
    function: Function
    others: int = 0
    indices: int = 0
    domain: str = ANY
    integers: bool = True
    far: bool = False
    """True if it is also called with large arguments."""


def in_domain(x: Tensor, domain: str) -> Tensor:
    """Maps numbers into an operation's domain."""
    if domain == POSITIVE:
        return x.abs() + 0.01
    if domain == WITHIN:
        return x.tanh() * 0.99
    return x.abs() + 1.01 if domain == ABOVE else x


def _unary() -> list[Operation]:
    """Returns elementwise operations with one operand."""
    far = ["sin", "cos", "tan", "sigmoid", "tanh", "exp", "erf", "atan", "asinh", "sinc", "lgamma", "expm1"]
    floats = ["erfc", "exp2", "sinh", "cosh", "ceil", "floor", "round", "trunc", "frac", "digamma", "i0"]
    positive = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"]
    within = ["asin", "acos", "atanh", "erfinv", "logit"]
    made = [Operation(name, getattr(torch, name), integers=False, far=True) for name in far]
    made += [Operation(name, getattr(torch, name), integers=False) for name in floats]
    made += [Operation(name, getattr(torch, name), domain=POSITIVE, integers=False) for name in positive]
    made += [Operation(name, getattr(torch, name), domain=WITHIN, integers=False) for name in within]
    made.append(Operation("acosh", torch.acosh, domain=ABOVE, integers=False))
    made += [Operation(name, getattr(torch, name)) for name in ("abs", "neg", "sign", "square", "isnan", "logical_not")]
    activations = ["relu", "gelu", "silu", "elu", "selu", "softplus", "mish", "hardtanh", "hardswish", "leaky_relu"]
    made += [Operation(name, getattr(F, name), integers=name == "relu") for name in (*activations, "logsigmoid")]
    return made


def _with_numbers() -> list[Operation]:
    """Returns elementwise operations with Python numbers."""
    floats: dict[str, Function] = {
        "% 0.3": lambda x: x % 0.3,
        "// 0.3": lambda x: x // 0.3,
        "fmod 0.3": lambda x: torch.fmod(x, 0.3),
        "** 2.5": lambda x: x.abs() ** 2.5,
        "** 3": lambda x: x**3,
        "nan_to_num": torch.nan_to_num,
    }
    numbers: dict[str, Function] = {
        "+ 1": lambda x: x + 1,
        "* 3": lambda x: x * 3,
        "/ 3": lambda x: x / 3,
        "clamp": lambda x: x.clamp(-1, 1),
        "> 0": lambda x: x > 0,
        "masked_fill": lambda x: x.masked_fill(x > 0, 0),
        "to f32": lambda x: x.to(torch.float32),
        "to f64": lambda x: x.to(torch.float64),
        "to bf16": lambda x: x.to(torch.bfloat16),
        "to i64": lambda x: x.to(torch.int64),
        "to i8": lambda x: x.to(torch.int8),
    }
    made = [Operation(name, function, integers=False, far=name[0] in "%/f") for name, function in floats.items()]
    return [*made, *(Operation(name, function) for name, function in numbers.items())]


def _binary() -> list[Operation]:
    """Returns elementwise operations with two or more operands."""
    names = ["add", "sub", "mul", "maximum", "minimum", "eq", "lt"]
    floats = [
        "div",
        "atan2",
        "hypot",
        "copysign",
        "fmod",
        "remainder",
        "floor_divide",
        "nextafter",
        "logaddexp",
    ]
    made = [Operation(name, getattr(torch, name), others=1) for name in names]
    made += [Operation(name, getattr(torch, name), others=1, domain=POSITIVE, integers=False) for name in floats]
    made += [
        Operation(name, getattr(torch, name), others=1, domain=POSITIVE, integers=False) for name in ("pow", "xlogy")
    ]
    made.append(Operation("where", lambda x, y: torch.where(x > 0, x, y), others=1))
    made.append(Operation("lerp", lambda x, y: torch.lerp(x, y, 0.3), others=1, integers=False))
    made.append(Operation("addcmul", torch.addcmul, others=2))
    return made


def _along() -> list[Operation]:
    """Returns reductions, scans and sorts, along each of the last dimensions."""
    numbers: dict[str, Callable[[Tensor, int], Any]] = {
        "sum": lambda x, dim: x.sum(dim),
        "prod": lambda x, dim: x.prod(dim),
        "amax": lambda x, dim: x.amax(dim),
        "max": lambda x, dim: x.max(dim),
        "argmax": lambda x, dim: x.argmax(dim),
        "argmin": lambda x, dim: x.argmin(dim),
        "any": lambda x, dim: (x > 3).any(dim),
        "cumsum": lambda x, dim: x.cumsum(dim),
        "sort": lambda x, dim: x.sort(dim),
        "argsort": lambda x, dim: x.argsort(dim),
        "topk": lambda x, dim: x.topk(5 if x.shape[dim] >= 5 else 1, dim),
        "cummax": lambda x, dim: x.cummax(dim),
    }
    floats: dict[str, Callable[[Tensor, int], Any]] = {
        "mean": lambda x, dim: x.mean(dim),
        "var": lambda x, dim: x.var(dim),
        "norm": lambda x, dim: torch.linalg.vector_norm(x, dim=dim),
        "logsumexp": lambda x, dim: x.logsumexp(dim),
        "softmax": lambda x, dim: x.softmax(dim),
        "log_softmax": lambda x, dim: x.log_softmax(dim),
        "cumprod": lambda x, dim: x.cumprod(dim),
        "median": lambda x, dim: x.median(dim),
    }
    made = []
    for dim, place in ((-1, "rows"), (-2, "columns")):
        for table, integers in ((numbers, True), (floats, False)):
            for name, function in table.items():
                call = lambda x, function=function, dim=dim: function(x, dim)  # noqa: E731
                made.append(Operation(f"{name} {place}", call, integers=integers))
    made += [Operation(f"{name} all", getattr(torch, name)) for name in ("sum", "amax", "argmax")]
    made.append(Operation("mean all", torch.mean, integers=False))
    made.append(Operation("var all", torch.var, integers=False))
    made.append(Operation("layer_norm", lambda x: F.layer_norm(x, x.shape[-1:]), integers=False))
    return made


def _copies() -> list[Operation]:
    """Returns operations that move elements."""
    copies: dict[str, Function] = {
        "clone": lambda x: x.clone(memory_format=torch.contiguous_format),
        "transposed copy": lambda x: x.transpose(-1, -2).contiguous(),
        "transposed cast": lambda x: x.transpose(-1, -2).to(torch.float32).contiguous(),
        "transposed sum": lambda x: (x.transpose(-1, -2) + 1).contiguous(),
        "cat": lambda x: torch.cat([x, x], -1),
        "stack": lambda x: torch.stack([x, x]),
        "flip": lambda x: x.flip(-1),
        "roll": lambda x: x.roll(3, -1),
        "pad": lambda x: F.pad(x, (1, 2)),
        "repeat": lambda x: x.repeat(*[1] * (x.dim() - 1), 2),
        "tril": torch.tril,
        "zeros_like": torch.zeros_like,
    }
    return [Operation(name, function) for name, function in copies.items()]


def _index() -> list[Operation]:
    """Returns operations that read and write by index."""
    indices: dict[str, Function] = {
        "gather": lambda x, i: x.gather(-1, i.expand(*x.shape[:-1], -1)),
        "index_select": lambda x, i: x.index_select(-1, i),
        "index_select rows": lambda x, i: x.index_select(-2, i % x.shape[-2]),
        "index": lambda x, i: x[..., i],
        "take_along_dim": lambda x, i: x.take_along_dim(i.expand(*x.shape[:-1], -1), -1),
        "index_add": lambda x, i: x.index_add(-1, i, x),
        "index_copy": lambda x, i: x.index_copy(-1, i, x),
        "scatter": lambda x, i: x.scatter(-1, i.expand(*x.shape[:-1], -1), x),
        "scatter_add": lambda x, i: x.scatter_add(-1, i.expand(*x.shape[:-1], -1), x),
    }
    return [Operation(name, function, indices=1) for name, function in indices.items()]


def all_of_them() -> list[Operation]:
    """Returns every operation."""
    return [*_unary(), *_with_numbers(), *_binary(), *_along(), *_copies(), *_index()]
