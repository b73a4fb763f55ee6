"""Strides and version counters are eager's, also where a graph's fakes do not get them right without help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import check_both
from harness import check
from torch import Tensor

F = torch.nn.functional

# Eager's composites write into fresh memory where Python's factories, and the paths that fakes take, show no write.
VERSIONS: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "max_pool1d squeezes an image without batch": (lambda x: F.max_pool1d(x, 2), torch.randn(3, 4)),
    "max_pool1d of a batch": (lambda x: F.max_pool1d(x, 2), torch.randn(2, 3, 4)),
    "max_pool1d, then a write": (lambda x: F.max_pool1d(x, 2).mul_(2), torch.randn(3, 4)),
    "norm of nothing": (lambda x: torch.linalg.norm(x, 1), torch.randn(5, 0)),
    "integral of nothing": (torch.trapezoid, torch.randn(0, 0)),
    "one_hot": (lambda x: F.one_hot(x, 3), torch.tensor([0, 2])),
    "one_hot of nothing": (lambda x: F.one_hot(x, 3), torch.zeros(0, dtype=torch.long)),
    "factories of Python": (lambda x: (torch.zeros(3), torch.arange(4), torch.ones(2).add_(1), x + 1), torch.randn(2)),
    "factories of the dispatcher": (
        lambda x: (torch.ops.aten.zeros([3]), torch.ops.aten.empty([0]), x + 1),
        torch.randn(2),
    ),
}


@pytest.mark.parametrize("name", VERSIONS)
def test_version(name: str) -> None:
    fn, x = VERSIONS[name]
    check(fn, x, expect="compiled")


@pytest.mark.parametrize("name", [name for name, (_, x) in VERSIONS.items() if x.numel() and x.is_floating_point()])
def test_version_with_a_gradient(name: str) -> None:
    """With a gradient, eager takes other paths."""
    fn, x = VERSIONS[name]
    check_both(fn, x.clone().requires_grad_(), gradients=True)


# Cases in which a dimension of one element, or of none, leaves its stride open.
STRIDES: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "product of nothing": (torch.mul, (torch.randn(0, 1), torch.randn(1))),
    "maximum of nothing": (torch.maximum, (torch.randn(0, 1), torch.randn(1, 1))),
    "choice of nothing": (lambda x, y: torch.where(x > y, x, y), (torch.randn(0, 1), torch.tensor(1.0))),
    "rms_norm of nothing": (lambda x, w: F.rms_norm(x, (1,), w), (torch.randn(0, 1), torch.randn(1))),
    "view of one matrix": (lambda x: x.permute(1, 0, 2).view(1, 3, 4), (torch.randn(3, 1, 4),)),
    "einsum over one batch": (
        lambda x, y: torch.einsum("aij,jk->aik", x, y),
        (torch.randn(1, 3, 4), torch.randn(4, 5)),
    ),
    "chosen sign": (torch.copysign, (torch.randn(4, 2, 3).permute(2, 0, 1), torch.randn(4, 1))),
}


@pytest.mark.parametrize("name", STRIDES)
def test_strides(name: str) -> None:
    fn, operands = STRIDES[name]
    check(fn, *operands, expect="compiled")


# The second represents each step of a decoder: (batch, 1, heads) and the like, from a transposed tensor.
ODD_LAYOUTS = {
    "row of a transposed matrix": ((3, 1), (1, 4)),
    "one step of a sequence": ((4, 1, 6), (6, 24, 1)),
    "one column, permuted": ((3, 4, 1), (4, 1, 12)),
    "one channel last": ((2, 1, 3, 3), (9, 1, 3, 1)),
    "expanded": ((2, 1, 3, 2), (1, 0, 4, 2)),
    "sizes of one, in front": ((1, 1, 2), (1, 2, 1)),
    "nothing, by columns": ((0, 1), (1, 3)),
    "nothing inside": ((1, 0, 3), (0, 3, 1)),
}


@pytest.mark.parametrize("name", ODD_LAYOUTS)
def test_strides_of_dimensions_of_one(name: str) -> None:
    """Eager leaves these strides as its loops compute them, each operation in its own way."""

    def many(x: Tensor, y: Tensor) -> list[Tensor]:
        unary = [x.neg(), x.relu(), F.gelu(x), F.silu(x), x.clone(), x.double(), x.clamp(-1, 1), x.exp().log1p()]
        scalar = [x - 1, 2 * x, x / 3, x > 0, x.pow(2), x.masked_fill(x > 0, 1.0)]
        binary = [x + y, x * x, torch.maximum(x, y), torch.where(x > y, x, y), torch.lerp(x, y, 0.5), x.addcmul(y, y)]
        like = [torch.zeros_like(x), x.flip(0), x.sort(0)[0], x.tril(), x.roll(1, 0)]
        return [*unary, *scalar, *binary, *like]

    sizes, strides = ODD_LAYOUTS[name]
    memory = torch.randn(64)
    check(many, memory.as_strided(sizes, strides), memory[:1].expand(sizes[-1:]), expect="compiled")


# Operands of several layouts, for which fakes written in Python find another layout than eager's loops.
LAST = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
MIXED = {
    "channels last and a number's tensor": (LAST, torch.tensor(0.7)),
    "a number's tensor of another type": (LAST, torch.tensor(2, dtype=torch.int64)),
    "transposed and broadcast": (torch.randn(33, 3, 7).transpose(1, 2), torch.randn(33, 1, 3)),
    "row-major and channels last": (torch.randn(2, 3, 4, 5), LAST),
    "expanded and channels last": (torch.randn(1, 3, 1, 5).expand(2, 3, 4, 5), LAST),
    "sliced and permuted": (torch.randn(2, 4, 5, 6)[..., ::2].permute(0, 3, 1, 2), torch.randn(3, 1, 1)),
    "of nothing": (torch.zeros(3, 0, 4).permute(2, 1, 0), torch.tensor(1.0)),
    "one row": (torch.randn(1, 5).as_strided((1, 5), (1, 1)), torch.randn(5, 1)),
}


@pytest.mark.parametrize("name", MIXED)
def test_strides_of_mixed_layouts(name: str) -> None:
    def many(x: Tensor, y: Tensor) -> list[Tensor]:
        y = y.abs() + 1
        pairs = [(x, y), (y, x)]
        floats = [
            torch.logaddexp,
            torch.logaddexp2,
            torch.heaviside,
            torch.special.xlog1py,
            torch.copysign,
            torch.xlogy,
        ]
        both = [torch.floor_divide, torch.logical_and, torch.logical_or, torch.logical_xor, torch.ldexp]
        same = [fn(*pair) for fn in floats for pair in pairs if pair[0].dtype == pair[1].dtype]
        rounded = [torch.div(*pair, rounding_mode=mode) for mode in ("floor", "trunc") for pair in pairs]
        return [*same, *rounded, *(fn(*pair) for fn in both for pair in pairs)]

    check_both(many, *MIXED[name])


def test_strides_of_results_by_index() -> None:
    def many(x: Tensor, i: Tensor) -> list[Tensor]:
        return [
            x[i],
            x[:, i],
            x[..., i],
            x[i, i],
            x.T[i],
            x[:, None][i],
            x.index_fill(0, i[0], 1),
            x.as_strided((1, 3), (1, 1))[0],
        ]

    for i in (torch.zeros(2, 5, dtype=torch.int64).t(), torch.zeros(2, 5, dtype=torch.int64)[:, ::2]):
        check_both(many, torch.randn(3, 4), i)
        check_both(many, torch.randn(4, 3).t(), i)


def test_copies_that_move_nothing() -> None:
    """`channel_shuffle` copies even if no element moves, except if there are no elements; fakes differ in this."""
    some = (torch.ones(1, 3, 2, 2), LAST, torch.randn(2, 6, 3, 3)[:, ::2], torch.zeros(0, 3, 2, 2), torch.ones(4, 3, 5))
    for x in some:
        expect = "compiled" if x.numel() else None
        for groups in (1, 3):
            check_both(lambda x, groups=groups: torch.nn.functional.channel_shuffle(x, groups), x, expect=expect)
            check_both(
                lambda x, groups=groups: torch.nn.functional.channel_shuffle(x, groups).add_(1), x, expect=expect
            )


def test_own_version_counters() -> None:
    """`.data` shows the memory with a version counter of its own, which outputs of graphs do not have: plain Python."""
    check_both(lambda x: (x.mul_(2), x.data)[1], torch.ones(2), expect="metadata-mutation", doors=("dynamlir.compile",))
    check_both(lambda x: (x + 1).data.mul_(2), torch.ones(2), expect=None)
    check_both(lambda x: (x.detach(), x.detach()[1:]), torch.ones(3))
    check_both(lambda x: torch.nn.functional.one_hot(x, 3), torch.tensor([0, 2]))


def test_types_that_eager_refuses() -> None:
    """If eager has no kernel for a type, the compiled function does not compute a result either."""
    bools = torch.tensor([True, False])
    check_both(lambda x, b: (x - b[0], x + 1)[1], torch.ones(2), bools, expect=None)
    check_both(lambda x, b: (b.argmax(), x + 1)[1], torch.ones(2), bools, expect=None)
    check_both(lambda x, b: (x.index_select(0, b[None].long()), x + 1)[1], torch.ones(2), bools, expect=None)


def test_what_no_integer_is() -> None:
    """Infinite numbers become the smallest integer, whether or not they are known at compile time."""
    x = torch.tensor([float("-inf"), float("inf"), float("nan"), 1e30, -1e30, -1.5, 3e9])

    def many(x: Tensor) -> list[Tensor]:
        known = torch.xlogy(torch.ones(7, dtype=torch.int64), 0)
        kinds = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
        return [value.to(kind) for kind in kinds for value in (x, x.double(), known, torch.full((3,), float("-inf")))]

    check_both(many, x)
    check_both(lambda x, out: torch.cumsum(torch.xlogy(out, 0), 0, out=out), x, torch.ones(7, dtype=torch.int64))


def test_16_bit_steps() -> None:
    """Where eager composes an operation from others, 16-bit results are rounded after each step."""
    x = torch.rand(64, 64, generator=torch.Generator().manual_seed(1))
    for dtype in (torch.bfloat16, torch.float16):
        for fn in (torch.special.entr, lambda x: x.logsumexp(0), lambda x: x.logsumexp(-1, keepdim=True)):
            check_both(lambda x, fn=fn: fn(x), x.to(dtype), calls=1, tolerance=(1e-3, 1e-6))
        grid = x.to(dtype)[:, :32].reshape(1, 32, 32, 2)
        check_both(
            lambda x, g: torch.nn.functional.grid_sample(x, g, align_corners=False), x.to(dtype)[None, None], grid
        )


def test_lazy_clones_share_memory_until_one_is_written() -> None:
    def cloned(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, torch._lazy_clone(x)

    with torch.no_grad():
        x = torch.arange(3.0)
        doubled, lazy = dynamlir.compile(cloned)(x)
        assert torch._C._is_cow_tensor(x) and torch._C._is_cow_tensor(lazy)
        assert torch._C._data_address(x) == torch._C._data_address(lazy)
        lazy.add_(1)
        assert x.tolist() == [0, 1, 2] and lazy.tolist() == [1, 2, 3] and doubled.tolist() == [0, 2, 4]


def test_zeros_in_memory_like_that_of_another_tensor() -> None:
    zeros = torch.ops.aten._new_zeros_with_same_feature_meta

    def function(x: Tensor, like: Tensor) -> Tensor:
        return zeros(x * 2, like, self_num_batch_dims=1)

    whole = torch.arange(12.0)
    compiled = dynamlir.compile(function)
    for like in (whole[:3], whole[1:4], whole[4:7], torch.ones(3), whole.view(3, 4).t(), torch.ones(7).resize_(3)):
        expected, found = function(torch.ones(2, 5), like), compiled(torch.ones(2, 5), like)
        assert torch.equal(found, expected)
        assert found.storage_offset() == expected.storage_offset() and found.stride() == expected.stride()
        assert found.untyped_storage().nbytes() == expected.untyped_storage().nbytes()
