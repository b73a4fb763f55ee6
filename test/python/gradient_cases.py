"""The cases of `test_autodiff`: functions of tensors, one or several for each known derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

aten = torch.ops.aten
F64 = torch.float64


class Case(NamedTuple):
    """A function, and its inputs: shapes of float tensors that require a gradient, or tensors as they are."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[Any, ...]


def positive(*shape: int) -> Callable[[torch.dtype], Tensor]:
    return lambda dtype: torch.rand(shape, dtype=F64).add(0.5).to(dtype).requires_grad_()


def spread(*shape: int) -> Callable[[torch.dtype], Tensor]:
    """Numbers between -1 and 1, none of them close to -1, 0 or 1."""
    return lambda dtype: torch.rand(shape, dtype=F64).sub(0.5).mul(1.8).to(dtype).requires_grad_()


def columns(*shape: int) -> Callable[[torch.dtype], Tensor]:
    """A matrix in column-major order."""
    return lambda dtype: torch.randn(shape[::-1], dtype=F64).to(dtype).t().requires_grad_()


def plain(*shape: int) -> Callable[[torch.dtype], Tensor]:
    """A float tensor that requires no gradient."""
    return lambda dtype: torch.randn(shape, dtype=F64).to(dtype)


def ints(limit: int, *shape: int) -> Tensor:
    with _disable_current_modes():
        return torch.randint(limit, shape, generator=torch.Generator().manual_seed(3))


def made(inputs: tuple[Any, ...], dtype: torch.dtype) -> list[Any]:
    """The inputs of a case, in this type unless the case states another."""
    torch.manual_seed(5)
    found: list[Any] = []
    for each in inputs:
        if isinstance(each, tuple):
            found.append(torch.randn(each, dtype=F64).to(dtype).requires_grad_())
        elif isinstance(each, Tensor):
            found.append(each.clone())
        else:
            found.append(each(dtype) if callable(each) else each)
    return found


MASK = torch.tensor([[True, False, True], [False, True, True]])
MATRIX = (2, 3)
UNARY = [
    "neg",
    "abs",
    "exp",
    "exp2",
    "expm1",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asinh",
    "atan",
    "erf",
    "erfc",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sign",
    "sgn",
    "tanh",
    "sigmoid",
]
POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "lgamma"]
BETWEEN = ["asin", "acos", "atanh"]


def in_place_row(x: Tensor) -> Tensor:
    y = x * 2
    y[0].mul_(x[1])
    return y


def into_zeros(x: Tensor) -> Tensor:
    y = torch.zeros(2, 3, dtype=F64)
    y[:, 1] = x[:, 0]
    return y * x


def every_second(x: Tensor) -> Tensor:
    y = x * 2
    y[:, ::2].copy_(x[:, 1::2])
    return y * y


def unrecorded(x: Tensor) -> Tensor:
    y = x * 2
    with torch.no_grad():
        y.mul_(3)
    return y * x


def unrecorded_row(x: Tensor) -> Tensor:
    y = x * 2
    with torch.no_grad():
        y[0] = 3.0
    return y * x


def unrecorded_copy(x: Tensor) -> Tensor:
    y = x * 2
    with torch.no_grad():
        y.copy_(x * 5)
    return y * x


def detached_written(x: Tensor) -> Tensor:
    y = x * 2
    d = y.detach()
    y.add_(1)
    return d * x + y


def detached_is_written(x: Tensor) -> Tensor:
    y = x * 2
    y.detach().add_(1)
    return y * x


def detached_zeros(x: Tensor) -> Tensor:
    z = x.new_zeros(2, 3)
    y = z.detach()
    y.add_(x)
    return y * x + z


def unrecorded_view(x: Tensor) -> Tensor:
    y = x * 2
    with torch.no_grad():
        v = y.view(2, 3)
    return v * x + y


def unrecorded_part(x: Tensor) -> Tensor:
    with torch.no_grad():
        factor = x.exp()
    return factor * x


CASES = [
    *(Case(name, getattr(torch, name), (MATRIX,)) for name in UNARY),
    *(Case(name, getattr(torch, name), (positive(2, 3),)) for name in POSITIVE),
    *(Case(name, getattr(torch, name), (spread(2, 3),)) for name in BETWEEN),
    Case("acosh", lambda x: torch.acosh(x + 1), (positive(2, 3),)),
    # Sums and products, broadcast and promoted.
    Case("add", lambda x, y: x + y, (MATRIX, MATRIX)),
    Case("add broadcast", lambda x, y: torch.add(x, y, alpha=3), (MATRIX, (3,))),
    Case("add both broadcast", lambda x, y: x + y, ((2, 1), (4, 1, 3))),
    Case("add number", lambda x: aten.add.Scalar(x, 2.5), (MATRIX,)),
    Case("add double", lambda x: x + x, (MATRIX,)),
    Case("add promoted", lambda x, y: x + y.float(), (MATRIX, MATRIX)),
    Case("sub", lambda x, y: torch.sub(x, y, alpha=0.5), (MATRIX, (2, 1))),
    Case("sub number", lambda x: aten.sub.Scalar(x, 2.5), (MATRIX,)),
    Case("rsub", lambda x, y: torch.rsub(x, y, alpha=2), (MATRIX, (3,))),
    Case("rsub number", lambda x: aten.rsub.Scalar(x, 2.5, 3), (MATRIX,)),
    Case("rsub number, python", lambda x: 2 - x, (MATRIX,)),
    Case("mul", lambda x, y: x * y, (MATRIX, (3,))),
    Case("mul square", lambda x: x * x, (MATRIX,)),
    Case("mul scalar tensor", lambda x, y: x * y, (MATRIX, ())),
    Case("mul ints", lambda x, y: x * y, (MATRIX, ints(5, 2, 3))),
    Case("mul number", lambda x: x * 3, (MATRIX,)),
    Case("mul.Scalar", lambda x: aten.mul.Scalar(x, 3.5), (MATRIX,)),
    Case("div", lambda x, y: x / y, (MATRIX, positive(3))),
    Case("div number", lambda x: x / 3, (MATRIX,)),
    Case("div.Scalar", lambda x: aten.div.Scalar(x, 3), (MATRIX,)),
    Case("div trunc", lambda x, y: torch.div(x, y, rounding_mode="trunc"), (MATRIX, positive(2, 3))),
    Case("div floor number", lambda x: aten.div.Scalar_mode(x, 0.3, rounding_mode="floor"), (MATRIX,)),
    Case(
        "div no mode",
        lambda x, y: torch.div(x, y, rounding_mode=None) + aten.div.Tensor_mode(x, y, rounding_mode=None),
        (MATRIX, positive(2, 3)),
    ),
    Case("pow 2", lambda x: x**2, (MATRIX,)),
    Case("pow 0", lambda x: x**0, (MATRIX,)),
    Case("pow 1", lambda x: x**1, (MATRIX,)),
    Case("pow -1.5", lambda x: x**-1.5, (positive(2, 3),)),
    Case("pow tensors", lambda x, y: x**y, (positive(2, 3), (3,))),
    Case(
        "pow tensors at 0",
        lambda x, y: x**y,
        (torch.zeros(2, dtype=F64).requires_grad_(), torch.tensor([0.0, 2.0], dtype=F64).requires_grad_()),
    ),
    Case("pow of a number", lambda x: 2.5**x, (MATRIX,)),
    Case("pow of 0", lambda x: 0.0**x, (positive(3),)),
    Case("addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), (MATRIX, (3,), (2, 1))),
    Case("addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=0.5), (MATRIX, (3,), positive(2, 1))),
    Case("lerp", lambda x, y: torch.lerp(x, y, 0.3), (MATRIX, (3,))),
    # Selection.
    Case("where", lambda x, y: torch.where(MASK, x, y), (MATRIX, (3,))),
    Case("where number", lambda x: torch.where(MASK, x, 2.0) + torch.where(MASK, 2.0, x), (MATRIX,)),
    Case("masked_fill", lambda x: x.masked_fill(MASK, 3.0), (MATRIX,)),
    Case("masked_fill tensor", lambda x, y: aten.masked_fill.Tensor(x, MASK, y), (MATRIX, ())),
    Case("maximum", torch.maximum, (MATRIX, (3,))),
    Case("minimum", torch.minimum, (MATRIX, (3,))),
    Case("maximum tie", lambda x: torch.maximum(x, x.clone() * 1), (MATRIX,)),
    Case("tril", torch.tril, ((3, 3),)),
    Case("triu", lambda x: torch.triu(x, 1), ((3, 4),)),
    # Activations.
    Case("relu", torch.relu, (MATRIX,)),
    Case("threshold", lambda x: F.threshold(x, 0.1, 5.0), (MATRIX,)),
    Case("silu", F.silu, (MATRIX,)),
    Case("gelu", F.gelu, (MATRIX,)),
    Case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), (MATRIX,)),
    Case("hardswish", lambda x: F.hardswish(x * 3), (MATRIX,)),
    Case("hardsigmoid", lambda x: F.hardsigmoid(x * 3), (MATRIX,)),
    Case("hardtanh", F.hardtanh, (MATRIX,)),
    Case("relu6", F.relu6, (MATRIX,)),
    Case("leaky_relu", lambda x: F.leaky_relu(x, 0.2), (MATRIX,)),
    Case("softplus", F.softplus, (MATRIX,)),
    Case("elu", F.elu, (MATRIX,)),
    Case("log_sigmoid", F.logsigmoid, (MATRIX,)),
    Case("softmax", lambda x: x.softmax(1), (MATRIX,)),
    Case("softmax first", lambda x: x.softmax(0), (MATRIX,)),
    Case("log_softmax", lambda x: x.log_softmax(-1), (MATRIX,)),
    # Reductions.
    Case("sum", torch.sum, (MATRIX,)),
    Case("sum dims", lambda x: x.sum((0, 2)), ((2, 3, 4),)),
    Case("sum keep", lambda x: x.sum(-1, keepdim=True), (MATRIX,)),
    Case("sum dtype", lambda x: x.float().sum(0, dtype=F64), (MATRIX,)),
    Case("sum 0-d", lambda x: x.sum(), ((),)),
    Case("mean", torch.mean, (MATRIX,)),
    Case("mean dim", lambda x: x.mean(0), (MATRIX,)),
    Case("mean keep", lambda x: x.mean((0, 2), keepdim=True), ((2, 3, 4),)),
    Case("var", lambda x: x.var(1), (MATRIX,)),
    Case("var correction", lambda x: x.var((0, 2), correction=0, keepdim=True), ((2, 3, 4),)),
    Case("var all", torch.var, (MATRIX,)),
    Case("std", lambda x: x.std(1), (MATRIX,)),
    Case("var_mean", lambda x: torch.var_mean(x, 1), (MATRIX,)),
    Case("mean of var_mean", lambda x: torch.var_mean(x, 1)[1], (MATRIX,)),
    Case("amax", lambda x: x.amax(1), (MATRIX,)),
    Case("amax tie", lambda x: x.amax(0), (torch.tensor([[1.0, 2.0], [1.0, 3.0]], dtype=F64).requires_grad_(),)),
    Case("amin", lambda x: x.amin((0, 1), keepdim=True), (MATRIX,)),
    Case("max", torch.max, (MATRIX,)),
    Case("median", torch.median, (MATRIX,)),
    Case("nanmedian", torch.nanmedian, (MATRIX,)),
    Case("min tie", torch.min, (torch.tensor([1.0, 1.0, 2.0], dtype=F64).requires_grad_(),)),
    Case("max dim", lambda x: x.max(1), (MATRIX,)),
    Case("min dim", lambda x: x.min(0, keepdim=True), (MATRIX,)),
    Case("cumsum", lambda x: x.cumsum(1), (MATRIX,)),
    Case("logsumexp", lambda x: x.logsumexp(1), (MATRIX,)),
    Case("norm", lambda x: torch.linalg.vector_norm(x, dim=1), (MATRIX,)),
    Case("norm at 0", lambda x: torch.linalg.vector_norm(x), (torch.zeros(3, dtype=F64).requires_grad_(),)),
    # Views and copies.
    Case("view", lambda x: x.view(3, 2) * 2, (MATRIX,)),
    Case("reshape of a transposed", lambda x: x.t().reshape(6) * 2, (MATRIX,)),
    Case("_reshape_alias", lambda x: aten._reshape_alias.default(x, [6], [1]) * 2, (MATRIX,)),
    Case("_unsafe_view", lambda x: aten._unsafe_view.default(x, [3, 2]) * 2, (MATRIX,)),
    Case("unsqueeze, squeeze", lambda x: x.unsqueeze(1).squeeze(1).unsqueeze(0).squeeze() * 2, (MATRIX,)),
    Case("squeeze dims", lambda x: aten.squeeze.dims(x.unsqueeze(0).unsqueeze(2), [0, 2]) * 2, (MATRIX,)),
    Case("t", lambda x: x.t() * 2, (MATRIX,)),
    Case("t of a vector", lambda x: x.t() * 2, ((3,),)),
    Case("transpose", lambda x: x.transpose(0, -1) * x.permute(2, 1, 0), ((2, 3, 4),)),
    Case("permute", lambda x: x.permute(2, 0, 1).exp(), ((2, 3, 4),)),
    Case("expand", lambda x: x.expand(4, 2, 3) * 2, ((2, 1),)),
    Case("slice", lambda x: x[:, 1:3] * 2, ((2, 4),)),
    Case("slice steps", lambda x: x[:, 1::2] * 2, ((2, 5),)),
    Case("slice from the end", lambda x: x[:, -2:] * 2, ((2, 5),)),
    Case("slice of nothing", lambda x: x[:, 4:] * 2, ((2, 3),)),
    Case("select", lambda x: x[1] * x[:, -1], ((3, 3),)),
    Case("diagonal", lambda x: x.diagonal(1) * 2 + x.diagonal(-1) * 3, ((3, 3),)),
    Case("diagonal of many", lambda x: x.diagonal(0, 0, 2) * 2, ((3, 2, 3),)),
    Case("flip", lambda x: x.flip(0, -1) * x, (MATRIX,)),
    Case("split", lambda x: [part * (i + 1) for i, part in enumerate(x.split(2, 1))], ((2, 5),)),
    Case("split, one used", lambda x: x.split(2, 1)[1] * 2, ((2, 5),)),
    Case("split_with_sizes", lambda x: torch.mul(*x.split([2, 2], 1)), ((2, 4),)),
    Case(
        "unsafe_split",
        lambda x: torch.mul(*x.unsafe_split(2, 1)) + torch.mul(*x.unsafe_split_with_sizes([2, 2], 1)),
        ((2, 4),),
    ),
    Case("unbind", lambda x: torch.mul(*x.unbind(1)), ((3, 2),)),
    Case("unbind, one used", lambda x: x.unbind(1)[0] * 2, ((3, 2),)),
    Case("alias", lambda x: aten.alias.default(x) * 2, (MATRIX,)),
    Case("clone", lambda x: x.t().clone() * 2, (MATRIX,)),
    Case("lift_fresh", lambda x: aten.lift_fresh.default(x * 2) * 3 + aten.lift_fresh_copy.default(x), (MATRIX,)),
    Case("to f32", lambda x: x.to(torch.float32).exp().to(F64), (MATRIX,)),
    Case("channels last", lambda x: x.to(memory_format=torch.channels_last) * 2, ((2, 3, 4, 5),)),
    # Concatenation.
    Case("cat", lambda x, y: torch.cat([x, y, x], 1) * 2, (MATRIX, (2, 2))),
    Case("cat promoted", lambda x, y: torch.cat([x, y.float()], 0) * 2, (MATRIX, MATRIX)),
    Case("cat nothing", lambda x, y: torch.cat([x, y], 0) * 2, (MATRIX, (0,))),
    Case("stack", lambda x, y: torch.stack([x, y], 1) * 2, (MATRIX, MATRIX)),
    Case("pad", lambda x: F.pad(x, (1, 2, 0, 1)) * 2, (MATRIX,)),
    *(
        Case(name, lambda x, make=make: make(x) + x, (MATRIX,))
        for name, make in {
            "zeros_like": torch.zeros_like,
            "ones_like": torch.ones_like,
            "full_like": lambda x: torch.full_like(x, 2.0),
            "rand_like": torch.rand_like,
            "randn_like": torch.randn_like,
            "empty_like": lambda x: torch.empty_like(x).fill_(1.0),
            "new_zeros": lambda x: x.new_zeros(2, 3),
            "new_ones": lambda x: x.new_ones(2, 3),
            "new_full": lambda x: x.new_full((2, 3), 2.0),
            "new_empty": lambda x: x.new_empty(2, 3).fill_(1.0),
            "new_empty_strided": lambda x: x.new_empty_strided((2, 3), (1, 2)).fill_(1.0),
        }.items()
    ),
    # Products.
    Case("mm", torch.mm, (MATRIX, (3, 4))),
    Case("mm, columns", lambda x, y: x.t().mm(y.t()), ((3, 2), (4, 3))),
    Case("addmm", lambda b, x, y: torch.addmm(b, x, y, beta=0.5, alpha=2), ((4,), MATRIX, (3, 4))),
    Case("bmm", torch.bmm, ((2, 3, 4), (2, 4, 5))),
    Case("baddbmm", lambda b, x, y: torch.baddbmm(b, x, y, beta=0.5, alpha=2), ((3, 5), (2, 3, 4), (2, 4, 5))),
    Case("linear", lambda x, w, b: F.linear(x, w, b), ((2, 3, 4), (5, 4), (5,))),
    Case("mv", torch.mv, (MATRIX, (3,))),
    Case("dot", torch.dot, ((3,), (3,))),
    Case("matmul", torch.matmul, ((2, 3, 4), (4, 5))),
    Case(
        "attention", lambda q, k, v: F.scaled_dot_product_attention(q, k, v), ((1, 2, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8))
    ),
    Case(
        "attention causal", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), ((1, 2, 5, 8),) * 3
    ),
    Case(
        "attention masked",
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        (*((1, 2, 5, 8),) * 3, plain(5, 5)),
    ),
    # Normalizations.
    Case("layer_norm", lambda x, w, b: F.layer_norm(x, (4,), w, b), ((2, 3, 4), (4,), (4,))),
    Case("layer_norm, plain", lambda x: F.layer_norm(x, (3, 4)), ((2, 3, 4),)),
    Case("layer_norm, weight alone", lambda x, w: F.layer_norm(x, (4,), w), (plain(2, 4), (4,))),
    Case("group_norm", lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))),
    Case("batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), ((3, 2, 4), (2,), (2,))),
    Case(
        "batch_norm, statistics",
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b, training=True),
        ((3, 2, 4), (2,), (2,), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)),
    ),
    Case(
        "batch_norm, inference",
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
        ((3, 2, 4), (2,), (2,), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)),
    ),
    Case(
        "_native_batch_norm_legit_functional",
        lambda x, w, b, m, v: aten._native_batch_norm_legit_functional(x, w, b, m, v, True, 0.1, 1e-5)[0],
        ((3, 2, 4), (2,), (2,), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)),
    ),
    Case(
        "_native_batch_norm_legit",
        lambda x, w, b, m, v: aten._native_batch_norm_legit(x, w, b, m, v, False, 0.1, 1e-5)[0],
        ((3, 2, 4), (2,), (2,), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)),
    ),
    Case(
        "_native_batch_norm_legit_no_training",
        lambda x, w, b, m, v: aten._native_batch_norm_legit_no_training(x, w, b, m, v, 0.1, 1e-5)[0],
        ((3, 2, 4), (2,), (2,), torch.zeros(2, dtype=F64), torch.ones(2, dtype=F64)),
    ),
    Case(
        "_native_batch_norm_legit.no_stats",
        lambda x, w, b: aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)[0],
        ((3, 2, 4), (2,), (2,)),
    ),
    # Convolutions and pooling.
    Case("conv2d", lambda x, w, b: F.conv2d(x, w, b, stride=2, padding=1), ((2, 3, 7, 6), (4, 3, 3, 3), (4,))),
    Case("conv2d, groups", lambda x, w: F.conv2d(x, w, groups=2), ((2, 4, 5, 5), (4, 2, 3, 3))),
    Case("conv2d, weight alone", lambda x, w: F.conv2d(x, w), (plain(2, 3, 5, 5), (4, 3, 3, 3))),
    Case("conv1d", lambda x, w, b: F.conv1d(x, w, b), ((2, 3, 7), (4, 3, 3), (4,))),
    Case(
        "conv transposed",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, output_padding=1),
        ((2, 3, 4, 4), (3, 4, 3, 3), (4,)),
    ),
    Case("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), ((2, 3, 7, 7),)),
    Case("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), ((2, 3, 7, 7),)),
    Case("adaptive_avg_pool2d", lambda x: F.adaptive_avg_pool2d(x, (2, 3)), ((2, 3, 7, 7),)),
    Case("adaptive_avg_pool2d of all", lambda x: F.adaptive_avg_pool2d(x, 1), ((2, 3, 7, 7),)),
    # Losses and dropout.
    Case("nll_loss", lambda x: F.nll_loss(x, ints(3, 2)), (MATRIX,)),
    Case("nll_loss sum, weights", lambda x, w: F.nll_loss(x, ints(3, 2), w, reduction="sum"), (MATRIX, plain(3))),
    Case(
        "nll_loss none, ignored",
        lambda x: F.nll_loss(x, torch.tensor([0, 2]), reduction="none", ignore_index=2),
        (MATRIX,),
    ),
    Case("nll_loss2d", lambda x: F.nll_loss(x, ints(3, 2, 4, 4)), ((2, 3, 4, 4),)),
    Case("cross_entropy", lambda x: F.cross_entropy(x, ints(3, 4)), ((4, 3),)),
    Case("mse_loss", F.mse_loss, (MATRIX, MATRIX)),
    Case("mse_loss sum", lambda x, y: F.mse_loss(x, y, reduction="sum"), (MATRIX, MATRIX)),
    Case("mse_loss none", lambda x, y: F.mse_loss(x, y, reduction="none"), (MATRIX, plain(2, 3))),
    Case("smooth_l1_loss", lambda x, y: F.smooth_l1_loss(x, y, beta=0.7), (MATRIX, MATRIX)),
    Case("huber_loss", lambda x, y: F.huber_loss(x, y, reduction="sum", delta=0.7), (MATRIX, MATRIX)),
    Case("binary_cross_entropy", lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()), (MATRIX, plain(2, 3))),
    Case("native_dropout", lambda x: torch.native_dropout(x, 0.5, True)[0], ((4, 8),)),
    Case("native_dropout of all", lambda x: torch.native_dropout(x, 1.0, True)[0], ((4, 8),)),
    Case("dropout", lambda x: F.dropout(x, 0.5), ((4, 8),)),
    Case("rrelu", lambda x: F.rrelu(x, training=True), ((4, 8),)),
    Case("rrelu in inference", lambda x: F.rrelu(x), ((4, 8),)),
    # Indexing.
    Case("embedding", lambda w: F.embedding(ints(5, 2, 3), w), ((5, 4),)),
    Case("embedding, padding", lambda w: F.embedding(ints(5, 2, 3), w, padding_idx=2), ((5, 4),)),
    Case("index_select", lambda x: x.index_select(1, ints(3, 4)), (MATRIX,)),
    Case("index", lambda x: x[:, ints(3, 4)] * x[ints(2, 4), 1], (MATRIX,)),
    Case("gather", lambda x: x.gather(1, ints(3, 2, 5)), (MATRIX,)),
    Case("scatter_add", lambda x, y: x.scatter_add(1, ints(3, 2, 5), y), (MATRIX, (2, 5))),
    Case("index_add", lambda x, y: x.index_add(1, ints(3, 5), y, alpha=2), (MATRIX, (2, 5))),
    Case("masked_scatter", lambda x, y: x.masked_scatter(MASK, y), (MATRIX, plain(6))),
    # Writes: with grad mode on, with the gradient of the written value; with it off, with that of the old value.
    Case("in place", lambda x: (x * 2).mul_(x).add_(1), (MATRIX,)),
    Case("relu_", lambda x: F.relu(x * 2, inplace=True), (MATRIX,)),
    Case("a row in place", in_place_row, ((3, 3),)),
    Case("into zeros", into_zeros, (MATRIX,)),
    Case("every second written", every_second, ((2, 6),)),
    Case("unrecorded write", unrecorded, (MATRIX,)),
    Case("unrecorded write of a row", unrecorded_row, (MATRIX,)),
    Case("unrecorded copy", unrecorded_copy, (MATRIX,)),
    Case("detached, then written", detached_written, (MATRIX,)),
    Case("detached is written", detached_is_written, (MATRIX,)),
    Case("detached zeros", detached_zeros, (MATRIX,)),
    Case("unrecorded view", unrecorded_view, (MATRIX,)),
    Case("unrecorded part", unrecorded_part, (MATRIX,)),
    # Combinations.
    Case("detach", lambda x: x.detach() * x, (MATRIX,)),
    Case("shared", lambda x: (x.exp(), x.exp() * x), (MATRIX,)),
    Case("an argument returned", lambda x: (x * 2, x), (MATRIX,)),
    Case("one of two", lambda x, y: (x * 2, y.detach() * 3), (MATRIX, MATRIX)),
    Case("a view returned", lambda x: (x * 2)[0], (MATRIX,)),
    Case(
        "mlp",
        lambda x, v, b, w: F.linear(F.gelu(F.linear(x, v, b)), w).square().mean(),
        (plain(5, 4), (6, 4), (6,), (3, 6)),
    ),
]

# Composites are decomposed above the recorder, but other texts may contain them whole.
COMPOSITES: list[tuple[Any, tuple[Any, ...]]] = [
    (aten.linear.default, ((2, 3, 4), (5, 4), (5,))),
    (aten.linear.default, ((3, 4), (5, 4))),
    (aten.reshape.default, (columns(2, 3), [3, 2])),
    (aten.where.ScalarOther, (MASK, MATRIX, 2.0)),
    (aten.where.ScalarSelf, (MASK, 2.0, MATRIX)),
]
