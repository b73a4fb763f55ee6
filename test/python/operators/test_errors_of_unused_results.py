"""Operations whose result is unused: eager runs them, and raises if the operands are invalid: an index out of range, a
divisor of 0, a singular matrix, an element type without a kernel. So such operations are not dropped, and checks that
composites make on tensors but not on fakes are made, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS, check_both
from harness import clone_tree, run
from torch import Tensor

F = torch.nn.functional

FAR = torch.tensor([0, 9])
ZERO = torch.tensor([1, 0])
X = torch.ones(2, 3)

Body = Callable[[Tensor, Tensor], Any]

CONTENTS: dict[str, tuple[Body, Tensor]] = {
    "embedding": (lambda x, i: F.embedding(i, x), FAR),
    "gather": (lambda x, i: x.gather(0, i[None]), FAR),
    "take": (lambda x, i: x.take(i), FAR),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i), FAR),
    "index_select": (lambda x, i: x.index_select(0, i), FAR),
    "scatter": (lambda x, i: x.scatter(1, i[None], 1.0), FAR),
    "scatter_add": (lambda x, i: x.scatter_add(1, i[None], x), FAR),
    "index_add": (lambda x, i: x.index_add(0, i, x), FAR),
    "index_copy": (lambda x, i: x.index_copy(0, i, x), FAR),
    "index_fill": (lambda x, i: x.index_fill(0, i, 2.0), FAR),
    "index_put": (lambda x, i: x.index_put((i,), x), FAR),
    "put": (lambda x, i: x.put(i, x[0, :2]), FAR),
    "cross_entropy": (lambda x, i: F.cross_entropy(x, i), FAR),
    "nll_loss": (lambda x, i: F.nll_loss(x, i), FAR),
    "multi_margin_loss": (lambda x, i: F.multi_margin_loss(x, i), FAR),
    "multilabel_margin_loss": (lambda x, i: F.multilabel_margin_loss(x[0, :2], i), FAR),
    "binary_cross_entropy": (lambda x, i: F.binary_cross_entropy(x * 3, x), FAR),
    "binary_cross_entropy of NaN": (lambda x, i: F.binary_cross_entropy(x * float("nan"), x), FAR),
    "one_hot above": (lambda x, i: F.one_hot(i, 3), FAR),
    "one_hot below": (lambda x, i: F.one_hot(-i, 30), FAR),
    "embedding_bag": (lambda x, i: F.embedding_bag(i[None], x), FAR),
    "max_unpool1d": (lambda x, i: F.max_unpool1d(x[None, :1, :2], i[None, None], 2), FAR),
    "floor division": (lambda x, i: i // i, ZERO),
    "remainder": (lambda x, i: i % i, ZERO),
    "fmod": (lambda x, i: torch.fmod(i, i), ZERO),
    "truncated division": (lambda x, i: torch.div(i, i, rounding_mode="trunc"), ZERO),
    "inverse": (lambda x, i: torch.linalg.inv(x[:, :2] * 0), ZERO),
    "cholesky": (lambda x, i: torch.linalg.cholesky(x[:, :2] - 2), ZERO),
    "solve": (lambda x, i: torch.linalg.solve(x[:, :2] * 0, x), ZERO),
    "multinomial": (lambda x, i: torch.multinomial(-x, 2), ZERO),
    "bernoulli": (lambda x, i: torch.bernoulli(x * 3), ZERO),
    "poisson": (lambda x, i: torch.poisson(-x), ZERO),
    "normal": (lambda x, i: torch.normal(x, -x), ZERO),
    "as_strided beyond its memory": (lambda x, i: x.as_strided((31,), (2,)), ZERO),
}
TYPES: dict[str, Body] = {
    "bitwise or of floats": lambda x, i: x | x,
    "lerp of integers": lambda x, i: torch.lerp(i, i, 0.3),
    "glu of integers": lambda x, i: F.glu(i, -1),
    "softmax of integers": lambda x, i: i.softmax(-1),
    "log_softmax of integers": lambda x, i: i.log_softmax(0),
    "igamma of integers": lambda x, i: torch.igamma(i, i),
    "gelu of integers": lambda x, i: F.gelu(i),
    "silu of bools": lambda x, i: F.silu(i > 0),
}


@pytest.mark.parametrize("name", CONTENTS)
def test_what_contents_make_raise(name: str) -> None:
    body, i = CONTENTS[name]
    for fn in (lambda x, i: (body(x, i), x + 1)[1], body):
        assert run(fn, clone_tree((X, i)), {}).error is not None
        check_both(fn, X, i, expect=None)


@pytest.mark.parametrize("name", TYPES)
def test_what_types_make_raise(name: str) -> None:
    body = TYPES[name]
    for fn in (lambda x, i: (body(x, i), x + 1)[1], body):
        assert run(fn, clone_tree((X, FAR)), {}).error is not None
        check_both(fn, X, FAR, expect=None)


def test_indexing() -> None:
    """Stock torch.compile drops an unused `getitem` before any backend sees it."""

    def unused(x: Tensor, i: Tensor) -> Tensor:
        return (x[i], x + 1)[1]

    check_both(unused, X, FAR, expect=None, doors=("dynamlir.compile",))
    stock = run(torch.compile(unused, backend="eager", dynamic=False), (X, FAR), {})
    ours = run(torch.compile(unused, backend="dynamlir", dynamic=False), (X, FAR), {})
    assert type(stock.error) is type(ours.error)


def test_nothing_else_is_run() -> None:
    """Operations that never raise are still dropped: no kernel and no extern call remains."""

    def fn(x: Tensor) -> Tensor:
        _ = (x.sin() @ x.T, x.sort(), F.softmax(x, -1), x.sum(0), torch.zeros(3), x.view(-1))
        return x + 1

    for door in DOORS.values():
        dynamlir.reset()
        torch._dynamo.reset()
        with torch.no_grad():
            torch.testing.assert_close(door(fn)(X), X + 1)
        made = dynamlir.last_compile()
        assert made is not None and not made.externs and made.kernels == 1


@pytest.mark.parametrize("classes", [-1, 0, 1, 5])
def test_one_hot(classes: int) -> None:
    for i in (torch.arange(5) % 3, torch.tensor(0), torch.zeros(0, dtype=torch.int64), torch.tensor([[4, 0]])):
        check_both(lambda i: F.one_hot(i, classes), i, expect=None)


def test_one_hot_is_compiled() -> None:
    i = torch.arange(6).view(2, 3)
    check_both(lambda i: (F.one_hot(i, 6), F.one_hot(i, num_classes=7) * 2.0, torch.ops.aten.one_hot(i, 8)), i)
    check_both(lambda i: (F.one_hot(i.T, 6), F.one_hot(i[:, ::2], 6).sum(0)), i)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_binary_cross_entropy(reduction: str) -> None:
    x = torch.rand(4, 5)
    x[0, :2] = torch.tensor([0.0, 1.0])

    def fn(x: Tensor, y: Tensor, w: Tensor) -> Any:
        return F.binary_cross_entropy(x, y, reduction=reduction), F.binary_cross_entropy(x, y, w, reduction=reduction)

    check_both(fn, x, torch.rand(4, 5).round(), torch.rand(5))
