"""Operations on a number of rows that only running tells: as eager for none, one and many of them, captured or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from dynamlir import report
from test_data_dependent_sizes import same

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("quiet")]

COUNTS = (3, 0, 1, 2, 8)
Program = Callable[[torch.Tensor], Any]

WHOLE: dict[str, Program] = {
    "sums": lambda y: (y.sum(), y.sum(0), y.sum(1, keepdim=True) * y),
    "means": lambda y: (y.mean(), y.mean(0), y.var(1)),
    "rows laid out otherwise": lambda y: (y.t() * 2, F.relu(y.t()), y.clone().t()),
    "one dimension": lambda y: (y.reshape(-1) + 1, y.flatten(), y.view(y.shape[0] * 5)),
    "more dimensions": lambda y: (y.unsqueeze(0) * 2, y.expand(3, -1, -1), y.view(-1, 5, 1) + 1),
    "put together": lambda y: (torch.cat([y, y * 2]), torch.stack([y, y]), y.repeat(2, 1)),
    "products": lambda y: (y @ y.t(), y.t() @ y, F.linear(y, torch.ones(3, 5))),
    "norms": lambda y: (torch.softmax(y, 0), F.layer_norm(y, (5,)), torch.logsumexp(y, 1)),
    "in order": lambda y: (y.cumsum(0), y.sort(0), y.flip(0), y.topk(2, 1)),
    "parts of rows": lambda y: (y[:, 0] + 1, y.split(2, 1), y.chunk(2, 1), y.unbind(1), y[:, 1:3]),
    "broadcast": lambda y: (y + torch.arange(5.0), y * torch.ones(1, 1), y + y.sum(0, keepdim=True), y * y[:, :1]),
    "by index": lambda y: (y.gather(1, torch.zeros_like(y).long()), y.index_select(1, torch.tensor([0, 2]))),
    "other types": lambda y: (y.double(), y.bfloat16() * 2, y.long() // 2, y > 1),
    "written": lambda y: (y.mul_(2), y.t().add_(1), y.clone().fill_(3)),
    "made": lambda y: (torch.zeros_like(y), y.new_ones(y.shape), torch.eye(y.shape[0]), torch.arange(y.shape[0]) % 3),
    "questions": lambda y: (y.shape, y.numel() * 2, len(y), y.dim(), y.is_contiguous(), y.stride()),
    "sizes as numbers": lambda y: (y / (y.shape[0] + 1), y * (y.shape[0] // 2), y.sum() * y.shape[0]),
    "twice": lambda y: (y[y[:, 0] > 10] * 2, y[y > 20], torch.unique(y[:, 0]), (y > 9).nonzero()),
    "scattered": lambda y: (y.index_add(0, torch.arange(y.shape[0]), y), y.scatter(1, torch.zeros_like(y).long(), y)),
    "attention": lambda y: F.gelu(torch.softmax(y @ y.t() / 5**0.5, -1) @ y),
    "padded": lambda y: (F.pad(y, (1, 1)), torch.where(y > 9, y, 0.0), y.masked_fill(y > 9, 0.0)),
}
"""Those that are one graph for all."""

RAISING: dict[str, Program] = {
    "the largest": lambda y: y.max(),
    "the largest of columns": lambda y: y.max(0),
    "where it is": lambda y: y.argmax(0),
    "the first row": lambda y: y[0] * 2,
    "the last row": lambda y: y[-1] + 1,
    "a row": lambda y: y.narrow(0, 0, 1),
    "the best row": lambda y: y.topk(1, 0),
}
"""Those that raise where there is nothing: that is left to eager."""

BREAKING: dict[str, Program] = {
    "squeezed": lambda y: y.squeeze() * 2,
    "slices": lambda y: (y[1:] * 2, y[:2] + 1),
    "a copy only of some": lambda y: y.permute(1, 0).contiguous() + 1,
    "each row": lambda y: [row + 1 for row in y],
    "a branch": lambda y: y * 2 if y.shape[0] > 1 else y + 1,
    "by how much there is": lambda y: torch.cdist(y, y),
    "a guess": lambda y: y.reshape(5, -1),
}
"""Those that are not the same for all."""


def rows(x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    """Rows of a matrix, as many as there are elements above zero."""
    matrix = torch.arange(40.0).reshape(8, 5) / 1.5 if w is None else w * 1.5
    return matrix[x > 0]


def mask(count: int) -> torch.Tensor:
    return torch.tensor([1.0] * count + [0.0] * (8 - count))


@pytest.mark.parametrize("name", WHOLE)
def test_operations(name: str) -> None:
    compiled = dynamlir.compile(lambda x: WHOLE[name](rows(x)), dynamic=True, fullgraph=True)
    report.reset()
    for count in COUNTS:
        same(compiled(mask(count)), WHOLE[name](rows(mask(count))))
    assert len(compiled._cache) == 1
    assert "calls_repeated_eagerly" not in report.counters()


@pytest.mark.parametrize("name", RAISING)
def test_what_raises_without_rows(name: str) -> None:
    compiled = dynamlir.compile(lambda x: RAISING[name](rows(x)), dynamic=True, fullgraph=True)
    report.reset()
    for count in COUNTS:
        if count:
            same(compiled(mask(count)), RAISING[name](rows(mask(count))))
            continue
        with pytest.raises((IndexError, RuntimeError)) as wanted:
            RAISING[name](rows(mask(count)))
        with pytest.raises(type(wanted.value)) as found:
            compiled(mask(count))
        assert str(found.value) == str(wanted.value)
    assert len(compiled._cache) == 1
    assert report.counters()["calls_repeated_eagerly"] == 1


@pytest.mark.parametrize("name", BREAKING)
def test_what_is_not_the_same_for_all(name: str) -> None:
    program = BREAKING[name]
    compiled = dynamlir.compile(lambda x: program(rows(x)), dynamic=True)
    for count in COUNTS:
        if name == "a guess" and not count:
            continue
        same(compiled(mask(count)), program(rows(mask(count))))
    with pytest.raises(dynamlir.Unsupported, match="data-dependent"):
        dynamlir.compile(lambda x: program(rows(x)), dynamic=True, fullgraph=True)(mask(3))


TRAINED = ["sums", "means", "put together", "products", "broadcast", "rows laid out otherwise", "attention"]


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(name: str) -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        results = WHOLE[name](rows(x, w))
        listed = results if isinstance(results, tuple) else (results,)
        return torch.stack([(each * each).sum() for each in listed if each.requires_grad]).sum()

    compiled = dynamlir.compile(loss, dynamic=True, fullgraph=True)
    for count in COUNTS[:4]:
        ours = (torch.arange(40.0, dtype=torch.float64).reshape(8, 5) / 7 + 0.1).requires_grad_()
        theirs = ours.detach().clone().requires_grad_()
        if name == "products":
            ours, theirs = ours.detach().float().requires_grad_(), theirs.detach().float().requires_grad_()
        found, wanted = compiled(mask(count), ours), loss(mask(count), theirs)
        torch.testing.assert_close(found, wanted, equal_nan=True)
        found.backward()
        wanted.backward()
        torch.testing.assert_close(ours.grad, theirs.grad, equal_nan=True)
    assert len(compiled._cache) == 1
