"""Operations that write memory that they read through another operand run in eager, which raises or shows its loop
order.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import native
from harness import check
from torch import Tensor

X = torch.arange(12.0)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[2:].copy_(x[:-2]),
        lambda x: x[2:].add_(x[:-2]),
        lambda x: x.view(3, 4).add_(x.view(3, 4)[0]),
        lambda x: x.index_put_((torch.tensor([1, 2, 0]),), x[:3]),
        lambda x: torch.cat([x[6:], x[:6]], out=x),
        lambda x: torch.where(x > 3, x[:1], x, out=x),
        lambda x: x.view(torch.int32)[1:].copy_(x[:-1]),
    ],
    ids=["copy", "add", "row", "index_put", "cat", "where", "dtypes"],
)
def test_eager_raises(fn: Callable[[Tensor], Any]) -> None:
    check(fn, X, expect="overlap")


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[2::2].copy_(x[:-2:2]),
        lambda x: x[2::2].add_(x[:-2:2]),
        lambda x: x.view(3, 4)[:, :3].add_(x.view(3, 4)[:, :3].t()),
        lambda x: x.view(3, 4)[:, 1:].copy_(x.view(3, 4)[:, :-1]),
        lambda x: torch.sum(x, 0, out=x[0]),
        lambda x: torch.cumsum(x, 0, out=x),
        lambda x: torch._foreach_add_([x[:4], x[2:6]], 1.0),
    ],
    ids=["copy", "add", "transpose", "columns", "sum", "cumsum", "foreach"],
)
def test_eager_shows_its_order(fn: Callable[[Tensor], Any]) -> None:
    check(fn, X, expect="overlap")


def test_inputs_that_overlap() -> None:
    check(lambda x, y: x.add_(y), X[2::2], X[:-2:2], expect="overlap")
    check(lambda x, y: x.add_(y), X, X[0], expect="overlap")


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.add_(x),
        lambda x: x[::2].add_(x[1::2]),
        lambda x: x.view(3, 4)[:, :2].mul_(x.view(3, 4)[:, 2:]),
        lambda x: x.view(3, 4).copy_(x.view(3, 4).flip(1)),
        lambda x: torch.mul(x, x[:], out=x.view(12)),
    ],
    ids=["itself", "interleaved", "halves", "fresh", "same"],
)
def test_no_order_to_see(fn: Callable[[Tensor], Any]) -> None:
    check(fn, X, expect="compiled")


def test_nothing_overlaps_an_empty_tensor() -> None:
    check(lambda x, y: (x.mul_(2), y + 1), X, X[4:4], expect="compiled")


@torch.no_grad()
def test_inputs_that_come_to_overlap() -> None:
    """Such a call is correct, and not a compiler error."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        y.add_(1)
        return x + y

    dynamlir.reset()
    compiled = dynamlir.compile(function)
    mine, others = torch.arange(8.0), torch.arange(8.0)
    compiled(mine[:4].clone(), mine[4:].clone())
    with pytest.warns(dynamlir.PlainRunWarning, match="input-overlap"):
        seen = compiled(mine[:4], mine[2:6])
    assert torch.equal(seen, function(others[:4], others[2:6])) and torch.equal(mine, others)
    assert dynamlir.counters()["fallbacks"] == {"input-overlap": 1}
    assert "report" not in dynamlir.fallbacks()[-1].hint


def test_only_what_overlaps_is_said_to_overlap(tmp_path: Path) -> None:
    """An input that is unfit for another reason is reported with that reason."""
    program = dynamlir.export(lambda x, y: (x.add_(1), x + y)[1], torch.ones(4), torch.ones(4))
    (tmp_path / "text.mlir").write_text(program.mlir)
    graph: Any = dynamlir.load(tmp_path / "text.mlir")
    memory = torch.ones(8)
    for inputs, reason, words in [
        ((memory[:4], memory[2:6]), "input-overlap", "is written and overlaps"),
        ((memory[:4], memory), "input-unfit", "sizes .* expected"),
        ((memory[:4], memory.double()[:4]), "input-unfit", "element type"),
    ]:
        with pytest.raises(native.module().RunError, match=words) as raised:
            graph(*inputs)
        assert native.run_failure(raised.value) == reason
