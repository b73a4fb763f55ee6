"""Writing by index: scatter, index_add, index_copy, index_put, put and operations built from them; running extremes.

Indices repeat, are negative or out of range, tensors are empty or 0-d, and every dtype takes part: generated operations
and those that fall back to eager must both agree with eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import check
from sampled import one_in_product

Case = tuple[Callable[..., Any], tuple[Any, ...]]

DTYPES = [
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.float16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]
ROWS = torch.tensor([3, 0, 3, 1, 0])
"""Rows that repeat, so that the last write, or the order of sums, shows."""
APART = torch.tensor([4, 0, 2])
ELEMENTS = torch.tensor([[0, 2, 2, 1], [2, 1, 0, 1], [1, 1, 1, 1]])
NONE = torch.empty(0, dtype=torch.int64)


def numbers(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Small numbers, many of them equal."""
    made = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed))
    if dtype.is_floating_point:
        return (made / 2).to(dtype)
    return (made > 0) if dtype == torch.bool else made.abs().to(dtype) if dtype == torch.uint8 else made.to(dtype)


WRITES: dict[str, Callable[[torch.dtype], Case]] = {
    "index_add": lambda t: (lambda x, i, s: x.index_add(0, i, s), (numbers(t, 6, 3), ROWS, numbers(t, 5, 3, seed=1))),
    "index_add, columns": lambda t: (
        lambda x, i, s: x.index_add(-1, i, s, alpha=2),
        (numbers(t, 3, 6), ROWS, numbers(t, 3, 5, seed=1)),
    ),
    "index_copy": lambda t: (lambda x, i, s: x.index_copy(0, i, s), (numbers(t, 6, 3), ROWS, numbers(t, 5, 3, seed=1))),
    "index_fill": lambda t: (lambda x, i: x.index_fill(1, i, 1), (numbers(t, 2, 6), ROWS)),
    "scatter": lambda t: (lambda x, i, s: x.scatter(1, i, s), (numbers(t, 3, 5), ELEMENTS, numbers(t, 4, 6, seed=1))),
    "scatter, number": lambda t: (lambda x, i: x.scatter(0, i, 1), (numbers(t, 3, 5), ELEMENTS)),
    "scatter, add": lambda t: (
        lambda x, i, s: x.scatter(0, i, s, reduce="add"),
        (numbers(t, 3, 5), ELEMENTS, numbers(t, 3, 4, seed=1)),
    ),
    "scatter, multiply": lambda t: (
        lambda x, i: x.scatter(0, i, 2, reduce="multiply"),
        (numbers(t, 3, 5), ELEMENTS),
    ),
    "scatter_add": lambda t: (
        lambda x, i, s: x.scatter_add(0, i, s),
        (numbers(t, 3, 5), ELEMENTS, numbers(t, 3, 4, seed=1)),
    ),
    "index_put": lambda t: (
        lambda x, i, s: x.index_put((APART, i), s),
        (numbers(t, 5, 3), torch.tensor([0, -1, 1]), numbers(t, 3, seed=1)),
    ),
    "index_put, accumulate": lambda t: (
        lambda x, i, s: x.index_put((i,), s, accumulate=True),
        (numbers(t, 6, 3), ROWS - 1, numbers(t, 5, 1, seed=1)),
    ),
    "put": lambda t: (lambda x, i, s: x.put(i, s), (numbers(t, 2, 6), ROWS - 6, numbers(t, 5, seed=1))),
    "put, accumulate": lambda t: (
        lambda x, i, s: x.put(i, s, accumulate=True),
        (numbers(t, 2, 6), ROWS - 6, numbers(t, 5, seed=1)),
    ),
    "masked_scatter": lambda t: (
        lambda x, m, s: x.masked_scatter(m, s),
        (numbers(t, 2, 6), numbers(torch.bool, 2, 6), numbers(t, 12, seed=1)),
    ),
    "cummax": lambda t: (lambda x: torch.cummax(x, 0), (numbers(t, 40, 3),)),
    "cummin": lambda t: (lambda x: torch.cummin(x, 0), (numbers(t, 40, 3),)),
}
for kind in ("sum", "prod", "mean", "amax", "amin"):
    for include in (True, False):
        WRITES[f"scatter_reduce {kind}, {include}"] = lambda t, kind=kind, include=include: (
            lambda x, i, s: x.scatter_reduce(1, i, s, kind, include_self=include),
            (numbers(t, 3, 5), ELEMENTS, numbers(t, 3, 4, seed=1)),
        )
        if kind != "sum":
            WRITES[f"index_reduce {kind}, {include}"] = lambda t, kind=kind, include=include: (
                lambda x, i, s: x.index_reduce(0, i, s, kind, include_self=include),
                (numbers(t, 6, 3), ROWS, numbers(t, 5, 3, seed=1)),
            )


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize(("name", "dtype"), one_in_product(3, WRITES, DTYPES))
def test_dtypes(name: str, dtype: torch.dtype) -> None:
    fn, args = WRITES[name](dtype)
    check(fn, *args)


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", WRITES)
def test_float32_is_generated(name: str) -> None:
    fn, args = WRITES[name](torch.float32)
    (report,) = check(fn, *args, expect="compiled")
    assert not report.externs


X = torch.arange(12, dtype=torch.float32).reshape(3, 4)
CASES: dict[str, Case] = {
    "the source is the base": (lambda x, i: x.scatter(0, i, x), (X, torch.tensor([[2, 0, 1, 1], [0, 0, 0, 2]]))),
    "the base is used afterwards": (lambda x, i: x.relu().index_add(0, i, x[:2]) + x.relu(), (X, torch.tensor([2, 2]))),
    "one write after another": (
        lambda x, i: x.exp().index_add(0, i, x).index_copy(0, i, x[:1].expand(3, 4)) * 2,
        (X, torch.tensor([1, 1, 0])),
    ),
    "into a transposed base": (lambda x, i: x.t().index_add(0, i, x.t()), (X, torch.tensor([1, 1, 0, 3]))),
    "into a computed transposed base": (
        lambda x, i: x.relu().t().index_add(0, i, x.t()),
        (X, torch.tensor([1, 1, 0, 3])),
    ),
    "the result is transposed": (lambda x, i: x.relu().index_add(0, i, x).t(), (X, torch.tensor([2, 2, 0]))),
    "expanded index": (lambda x, i: x.scatter_add(0, i[:, None].expand(3, 4), x), (X, torch.tensor([2, 2, 0]))),
    "expanded base": (lambda x, i: x[:1].expand(3, 4).index_add(0, i, x), (X, torch.tensor([2, 2, 0]))),
    "reversed source": (lambda x, i: x.index_copy(0, i, x.flip(0, 1)), (X, torch.tensor([2, 1, 0]))),
    "strided source": (lambda x, i, s: x.index_add(0, i, s[:, ::2]), (X, torch.tensor([1, 1]), torch.randn(2, 8))),
    "an index that is computed": (lambda x, i: x.index_add(0, i % 3, x), (X, torch.tensor([5, 2, 4]))),
    "int32 index": (lambda x, i: x.index_add(0, i, x), (X, torch.tensor([1, 1, 0], dtype=torch.int32))),
    "0-d index_add": (lambda x, i, s: x.index_add(0, i, s), (torch.tensor(1.0), torch.tensor([0]), torch.tensor(2.0))),
    "0-d index_copy": (
        lambda x, i, s: x.index_copy(0, i, s),
        (torch.tensor(1.0), torch.tensor(0), torch.tensor([2.0])),
    ),
    "0-d scatter": (lambda x, i, s: x.scatter(0, i, s), (torch.tensor(1.0), torch.tensor(0), torch.tensor(2.0))),
    "0-d put": (lambda x, i, s: x.put(i, s), (torch.tensor(1.0), torch.tensor(-1), torch.tensor(2.0))),
    "0-d index_put": (lambda x, i, s: x.index_put((i,), s), (X, torch.tensor(-1), torch.tensor(2.0))),
    "0-d cummax": (lambda x: torch.cummax(x, 0), (torch.tensor(1.0),)),
    "no index": (lambda x, i, s: x.index_add(0, i, s), (X, NONE, torch.empty(0, 4))),
    "no scatter": (lambda x, i, s: x.scatter(0, i, s), (X, torch.empty(0, 4, dtype=torch.int64), X)),
    "no reduction": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "mean", include_self=False),
        (X, torch.empty(0, 4, dtype=torch.int64), X),
    ),
    "no columns": (lambda x, i, s: x.index_copy(0, i, s), (torch.empty(3, 0), torch.tensor([1]), torch.empty(1, 0))),
    "empty put": (lambda x, i, s: x.put(i, s), (torch.empty(0), NONE, torch.empty(0))),
    "empty cummax": (lambda x: torch.cummax(x, 0), (torch.empty(0, 3),)),
    "a place in two dimensions": (
        lambda x, i, j, s: torch.ops.aten.index_put(x, (i, None, j), s, True),
        (torch.zeros(3, 2, 4), torch.tensor([[0], [2]]), torch.tensor([1, -1, 1]), torch.randn(2, 3, 2)),
    ),
    "one value for all": (lambda x, i: x.index_put((i,), torch.tensor(7.0)), (X, torch.tensor([0, -1]))),
    "mask": (lambda x, m, s: x.index_put((m,), s), (X, X > 5, torch.tensor(7.0))),
    "mask of rows": (lambda x, m, s: x.index_put((m,), s), (X, X[:, 0] > 0, torch.randn(4))),
    "mask of rows, accumulate": (lambda x, m, s: x.index_put((m,), s, True), (X, X[:, 0] > 0, torch.randn(1, 4))),
    "mask of columns": (lambda x, m: torch.ops.aten.index_put(x, (None, m), x[:, :1]), (X, X[0] > 1)),
    "mask with a value for each": (lambda x, m, s: x.index_put((m,), s), (X, X > 5, torch.randn(6))),
    "mask of bytes": (lambda x, m, s: x.index_put((m,), s), (X, (X > 5).byte(), torch.tensor(7.0))),
    "in place": (lambda x, i: x.index_add_(0, i, x + 1), (X, torch.tensor([1, 1, 0]))),
    "in place, through a view": (lambda x, i: x[:, 1:3].scatter_(1, i, 9.0), (X, torch.tensor([[1], [0], [1]]))),
    "assignment": (lambda x, i: x.__setitem__(i, 5.0), (X, torch.tensor([-1, 0]))),
    "NaN in a maximum": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
        (
            torch.tensor([1.0, float("nan"), 2.0]),
            torch.tensor([0, 1, 2, 2]),
            torch.tensor([float("nan"), 1.0, 3.0, 1.0]),
        ),
    ),
    "infinities": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amin", include_self=False),
        (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1]), torch.tensor([float("inf"), float("-inf")])),
    ),
    "running NaN": (
        lambda x: torch.cummax(x, 0),
        (torch.tensor([0.0, 2.0, float("nan"), 5.0, float("nan"), 1.0])[:, None],),
    ),
    "running -NaN": (
        lambda x: torch.cummin(x, 0),
        (-torch.tensor([0.0, 2.0, float("nan"), 5.0, float("nan"), 1.0])[:, None],),
    ),
    "running zeros": (lambda x: torch.cummax(x, 0)[0].signbit(), (torch.tensor([[-0.0, 0.0, -0.0, -1.0]]).T,)),
    "running extremes": (
        lambda x: (torch.cummax(x, 0), torch.cummin(x, 0)),
        (torch.tensor([[-3.0, float("-inf"), 2.0, 2.0, float("inf"), -1e-42, 1e-42, float("inf")]]).T,),
    ),
    "running int extremes": (
        lambda x: torch.cummin(x, 0),
        (torch.tensor([[2**31 - 1], [-(2**31)], [-(2**31)]], dtype=torch.int32),),
    ),
    "max_unpool2d": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
        (torch.randn(2, 3, 6, 8),),
    ),
    "max_unpool2d of overlapping windows": (
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 3, stride=1, return_indices=True), 3, stride=1),
        (torch.randn(2, 3, 6, 8),),
    ),
    "histogram": (
        lambda x: torch.histc(x, 7, -1, 1),
        (torch.tensor([-1.0, 1.0, 0.999, -1.1, 2.0, float("nan"), 0.0]),),
    ),
    "histogram, own bounds": (lambda x: torch.histc(x, 5), (torch.randn(1000),)),
    "histogram of equals": (lambda x: torch.histc(x, 4), (torch.full((9,), 2.0),)),
    "histogram of nothing": (lambda x: torch.histc(x, 4), (torch.empty(0),)),
    "histogram, double": (lambda x: torch.histc(x, 9, -2, 2), (torch.randn(500, dtype=torch.float64),)),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager(name: str) -> None:
    fn, args = CASES[name]
    check(fn, *args)


OUT_OF_RANGE: dict[str, Case] = {
    "index_add": (lambda x, i: x.index_add(0, i, x), (X, torch.tensor([0, 1, 3]))),
    "index_add below": (lambda x, i: x.index_add(0, i, x), (X, torch.tensor([0, 1, -1]))),
    "index_copy": (lambda x, i: x.index_copy(0, i, x), (X, torch.tensor([0, 1, 1 << 40]))),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1), (X, torch.tensor([-4]))),
    "scatter": (lambda x, i: x.scatter(1, i, x), (X, torch.tensor([[0, 4]]))),
    "scatter below": (lambda x, i: x.scatter(1, i, 1.0), (X, torch.tensor([[0, -1]]))),
    "scatter_add": (lambda x, i: x.scatter_add(0, i, x), (X, torch.tensor([[3]]))),
    "scatter_add, expanded": (lambda x, i: x.scatter_add(0, i.expand(3, 4), x), (X, torch.tensor([[3]]))),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i, x, "mean"), (X, torch.tensor([[-1]]))),
    "index_put": (lambda x, i: x.index_put((i,), x), (X, torch.tensor([0, 1, 3]))),
    "index_put below": (lambda x, i: x.index_put((i,), x), (X, torch.tensor([0, 1, -4]))),
    "put": (lambda x, i: x.put(i, torch.ones(1)), (X, torch.tensor([12]))),
    "put into nothing": (lambda x, i: x.put(i, torch.ones(1)), (torch.empty(0), torch.tensor([0]))),
    "max_unpool2d": (lambda x, i: F.max_unpool2d(x, i, 2), (X.reshape(1, 1, 3, 4), torch.full((1, 1, 3, 4), 48))),
    "masked_scatter": (lambda x, m: x.masked_scatter(m, x[:1]), (X, X >= 0)),
    "histogram": (lambda x: torch.histc(x, 4), (torch.tensor([1.0, float("inf")]),)),
    "histogram of NaN": (lambda x: torch.histc(x, 4), (torch.tensor([1.0, float("nan")]),)),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_out_of_range_raises_as_eager_does(name: str) -> None:
    fn, args = OUT_OF_RANGE[name]
    check(fn, *args, expect="run-error")


def test_nothing_is_written_before_a_check() -> None:
    step: Callable[..., Any] = lambda x, i, s: x.add_(1).index_add_(0, i, s)  # noqa: E731
    check(step, X, torch.tensor([0, 1, 3]), torch.ones(3, 4), expect="run-error")


LARGE = torch.Generator().manual_seed(0)
BLOCKS: dict[str, Case] = {
    "scatter along rows": (lambda x, i, s: x.scatter(1, i, s), (300, 200), 1),
    "scatter along columns": (lambda x, i, s: x.scatter(0, i, s), (300, 200), 0),
    "scatter_add along columns": (lambda x, i, s: x.scatter_add(0, i, s), (4000, 37), 0),
    "scatter_add in the middle": (lambda x, i, s: x.scatter_add(1, i, s), (33, 50, 41), 1),
    "scatter_add without end": (lambda x, i, s: x.scatter_add(0, i, s), (100_000,), 0),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_large_writes_keep_their_order(name: str) -> None:
    """They are distributed over threads, but each place is written in order, so sums are equal to the bit."""
    fn, shape, dim = BLOCKS[name]
    index = torch.randint(shape[dim], shape, generator=LARGE)
    x, source = torch.randn(shape, generator=LARGE), torch.randn(shape, generator=LARGE)
    with torch.no_grad():
        ours = torch.compile(fn, backend="dynamlir")(x, index, source)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.equal(ours, fn(x, index, source))
    torch.set_num_threads(threads)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_volumes(mode: str, padding: str, aligned: bool, dtype: torch.dtype) -> None:
    volume, grid = torch.randn(2, 3, 4, 5, 6).to(dtype), (torch.rand(2, 3, 2, 4, 3) * 3 - 1.5).to(dtype)
    # A NaN lies nowhere. With reflection, eager's place depends on the conversion of a NaN to an integer.
    if padding == "zeros":
        grid[0, 0, 0, 0] = float("nan")
        grid[0, 0, 0, 1] = float("inf")
    check(lambda x, g: F.grid_sample(x, g, mode, padding, align_corners=aligned), volume, grid)


@pytest.mark.parametrize("size", [(6, 8), (3, 2), (12, 16), (7, 5), (1, 1), (2, 30)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.uint8])
def test_smooth_resampling(size: tuple[int, int], dtype: torch.dtype) -> None:
    x = torch.rand(2, 3, 9, 8).mul(200).to(dtype)
    check(lambda x: F.interpolate(x, size=size, mode="bilinear", antialias=True), x)
