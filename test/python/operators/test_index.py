"""Reading by index: embedding, indexing, gather, and the losses and resampling that are built from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from harness import check

Case = tuple[Callable[..., Any], tuple[Any, ...]]

TABLE = torch.arange(60, dtype=torch.float32).reshape(5, 4, 3)
I64 = torch.tensor([[0, 3, 1], [2, 2, 4]])
COLUMN = torch.tensor([[1], [0]])
NONE = torch.empty(0, dtype=torch.int64)

CASES: dict[str, Case] = {
    "embedding": (F.embedding, (I64, torch.randn(5, 7))),
    "embedding, int32": (F.embedding, (I64.int(), torch.randn(5, 7))),
    "embedding, 0-d": (F.embedding, (torch.tensor(3), torch.randn(5, 7))),
    "embedding, padding": (lambda i, w: F.embedding(i, w, padding_idx=2), (I64, torch.randn(5, 7))),
    "embedding, transposed table": (lambda i, w: F.embedding(i, w.t()), (I64, torch.randn(7, 5))),
    "embedding of positions": (lambda w: F.embedding(torch.arange(4), w) * 2, (torch.randn(5, 7),)),
    "embedding, norm": (lambda i, w: F.layer_norm(F.embedding(i, w), (7,)), (I64, torch.randn(5, 7))),
    "embedding of a computed table": (lambda i, w: F.embedding(i, w.relu()) + 1, (I64, torch.randn(5, 7))),
    "embedding, no index": (F.embedding, (NONE, torch.randn(5, 7))),
    "embedding, empty table": (F.embedding, (NONE, torch.randn(0, 7))),
    "one row": (lambda x, i: x[i], (TABLE, torch.tensor(-2))),
    "negatives": (lambda x, i: x[i], (TABLE, I64 - 5)),
    "int32": (lambda x, i: x[i], (TABLE, I64.int() - 3)),
    "two neighbours": (lambda x, i, j: x[i, j], (TABLE, I64, COLUMN)),
    "two neighbours, behind": (lambda x, i, j: x[:, i, j], (TABLE, I64.clamp(max=3), COLUMN)),
    "two apart": (lambda x, i, j: x[i, :, j], (TABLE, I64, COLUMN)),
    "all three": (lambda x, i, j: x[i, j, 0], (TABLE, I64, COLUMN)),
    "the table is an operand too": (lambda x, i: x[i] + x, (torch.randn(5), torch.tensor([4, 3, 2, 1, 0]))),
    "an index that is computed": (lambda x, i: x[(i * 2) % 5] * 3, (TABLE, I64)),
    "no index": (lambda x, i: x[i], (TABLE, NONE)),
    "empty table": (lambda x, i: x[i], (torch.empty(0, 3), NONE)),
    "empty dimension": (lambda x, i: x[i], (torch.empty(3, 0), I64.clamp(max=2))),
    "strided": (lambda x, i: x[::2, 1:][i], (TABLE, I64.clamp(max=2))),
    "reversed": (lambda x, i: x.flip(0)[i], (TABLE, I64)),
    "expanded": (lambda x, i: x.expand(6, 4)[i], (torch.randn(4), I64)),
    "transposed": (lambda x, i: x.permute(2, 0, 1)[i, i], (TABLE, I64.clamp(max=2))),
    "bool mask": (lambda x, m: x[m], (TABLE, TABLE[:, 0, 0] > 20)),
    "bool table": (lambda x, i: x[i], (TABLE > 20, I64)),
    "uint8 table": (lambda x, i: x[i] + 1, (TABLE.byte() + 190, I64)),
    "bf16 table": (lambda x, i: x[i] * 1.5, (TABLE.bfloat16(), I64)),
    "f16 table": (lambda x, i: x[i], (TABLE.half(), I64)),
    "int16 table": (lambda x, i: x[i].sum(-1), (TABLE.short(), I64)),
    "unit dims": (lambda x, i: x[i], (torch.randn(5, 1, 3), torch.tensor([[1], [4]]))),
    "index_select": (lambda x, i: x.index_select(1, i), (TABLE, torch.tensor([3, 0, 0]))),
    "index_select, 0-d": (lambda x, i: x.index_select(0, i), (torch.tensor(3.0), torch.tensor([0]))),
    "gather": (lambda x, i: x.gather(1, i), (TABLE[:, :, 0], I64.clamp(max=3))),
    "gather, 0-d": (lambda x, i: x.gather(0, i), (torch.tensor(3.0), torch.tensor(0))),
    "gather, sparse": (lambda x, i: torch.gather(x, 1, i, sparse_grad=True), (TABLE[:, :, 0], I64.clamp(max=3))),
    "gather the largest": (lambda x: x.gather(1, x.argmax(1, keepdim=True)), (torch.randn(5, 8),)),
    "take": (lambda x, i: x.take(i), (TABLE.transpose(0, 2), I64 * 7 - 20)),
    "take_along_dim": (lambda x: torch.take_along_dim(x, x.argsort(1), 1), (torch.randn(5, 8),)),
    "one_hot": (lambda i: F.one_hot(i, 6) + 1, (I64,)),
    "a mean of what was read": (lambda x, i: x[i].mean(-1, keepdim=True) + x[i], (TABLE, I64)),
    "cross entropy": (F.cross_entropy, (torch.randn(6, 9), torch.tensor([0, 8, 3, -100, 1, 1]))),
    "nothing but ignored": (F.cross_entropy, (torch.randn(2, 9), torch.tensor([-100, -100]))),
    "nll, one sample": (F.nll_loss, (torch.randn(9), torch.tensor(4))),
    "nll, image": (F.nll_loss, (torch.randn(2, 5, 3, 4), torch.randint(5, (2, 3, 4)))),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_eager(name: str) -> None:
    fn, args = CASES[name]
    check(fn, *args)


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(6, 9), (2, 9, 3, 2)])
def test_weighted_loss(reduction: str, shape: tuple[int, ...]) -> None:
    x, weight = torch.randn(shape), torch.rand(9)
    target = torch.randint(9, (shape[0], *shape[2:]))
    check(lambda x, t, w: F.nll_loss(x, t, w, reduction=reduction, ignore_index=3), x, target, weight)


@pytest.mark.parametrize(
    "name", ["embedding", "negative embedding", "index", "index below", "gather", "take", "empty table", "target"]
)
def test_out_of_range_raises_as_eager_does(name: str) -> None:
    cases: dict[str, Case] = {
        "embedding": (F.embedding, (torch.tensor([1, 5]), torch.randn(5, 3))),
        "negative embedding": (F.embedding, (torch.tensor([1, -1]), torch.randn(5, 3))),
        "index": (lambda x, i: x[i] + 1, (torch.randn(5, 3), torch.tensor([0, 5]))),
        "index below": (lambda x, i: x[i] + 1, (torch.randn(5, 3), torch.tensor([0, -6]))),
        "gather": (lambda x, i: x.gather(0, i), (torch.randn(5), torch.tensor([-1]))),
        "take": (lambda x, i: x.take(i), (torch.randn(5), torch.tensor([7]))),
        "empty table": (lambda x, i: x[i], (torch.empty(0, 3), torch.tensor([0]))),
        "target": (F.cross_entropy, (torch.randn(2, 9), torch.tensor([1, 9]))),
    }
    fn, args = cases[name]
    check(fn, *args, expect="run-error")


def test_nothing_is_written_before_a_check() -> None:
    def step(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[i]

    check(step, torch.randn(5), torch.tensor([5]), expect="run-error")


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
@pytest.mark.parametrize("size", [(6, 8), (3, 2), (12, 16), (7, 5), (6, 9), (1, 1)])
def test_resampling(mode: str, size: tuple[int, int]) -> None:
    check(lambda x: F.interpolate(x, size=size, mode=mode) * 2, torch.randn(2, 3, 6, 8))


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@pytest.mark.parametrize("scale", [2.0, 0.5, 1.7, 2.4])
def test_resampling_by_scale(mode: str, scale: float) -> None:
    check(lambda x: F.interpolate(x, scale_factor=scale, mode=mode), torch.randn(2, 3, 5, 7))


@pytest.mark.parametrize(("mode", "dims"), [("linear", 1), ("bilinear", 2), ("trilinear", 3)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_aligned_corners(mode: str, dims: int, dtype: torch.dtype) -> None:
    x = torch.randn((2, 3, *(5, 4, 6)[:dims])).to(dtype)
    check(lambda x: F.interpolate(x, scale_factor=2, mode=mode, align_corners=True), x)
