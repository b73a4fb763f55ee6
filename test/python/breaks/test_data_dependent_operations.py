"""Operations on an unbacked number of rows: eager's results for no, one and many rows, captured or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from data_dependent_programs import same
from dynamlir import reports

pytestmark = [pytest.mark.usefixtures("quiet")]

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
"""The programs that are one graph for all numbers of rows."""

RAISING: dict[str, Program] = {
    "the largest": lambda y: y.max(),
    "the largest of columns": lambda y: y.max(0),
    "where it is": lambda y: y.argmax(0),
    "the first row": lambda y: y[0] * 2,
    "the last row": lambda y: y[-1] + 1,
    "a row": lambda y: y.narrow(0, 0, 1),
    "the best row": lambda y: y.topk(1, 0),
}
"""The programs that raise if there are no rows: this case falls back to eager."""

BREAKING: dict[str, Program] = {
    "squeezed": lambda y: y.squeeze() * 2,
    "slices": lambda y: (y[1:] * 2, y[:2] + 1),
    "a copy only of some": lambda y: y.permute(1, 0).contiguous() + 1,
    "each row": lambda y: [row + 1 for row in y],
    "a branch": lambda y: y * 2 if y.shape[0] > 1 else y + 1,
    "by how much there is": lambda y: torch.cdist(y, y),
    "a guess": lambda y: y.reshape(5, -1),
}
"""The programs that differ between numbers of rows."""


def rows(x: torch.Tensor, w: torch.Tensor | None = None) -> torch.Tensor:
    """Rows of a matrix, one for each element above zero."""
    matrix = torch.arange(40.0).reshape(8, 5) / 1.5 if w is None else w * 1.5
    return matrix[x > 0]


def mask(count: int) -> torch.Tensor:
    return torch.tensor([1.0] * count + [0.0] * (8 - count))


@pytest.mark.parametrize("name", WHOLE)
def test_operations(name: str) -> None:
    compiled = dynamlir.compile(lambda x: WHOLE[name](rows(x)), dynamic=True, fullgraph=True)
    reports.reset()
    for count in COUNTS:
        same(compiled(mask(count)), WHOLE[name](rows(mask(count))))
    assert len(compiled._cache) == 1
    assert "calls_repeated_eagerly" not in reports.counters()


@pytest.mark.parametrize("name", RAISING)
def test_what_raises_without_rows(name: str) -> None:
    compiled = dynamlir.compile(lambda x: RAISING[name](rows(x)), dynamic=True, fullgraph=True)
    reports.reset()
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
    assert reports.counters()["calls_repeated_eagerly"] == 1


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


class Experts(torch.nn.Module):
    """Routes each row to one of several networks; the number of rows for each is data-dependent."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(6, 3)
        self.experts = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 6)) for _ in range(3)
        )
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls.add_(1)
        chosen = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            index = (chosen == at).nonzero().squeeze(1)
            out = out.index_add(0, index, expert(x[index]))
        return out


def best_boxes(boxes: torch.Tensor, scores: torch.Tensor) -> Any:
    """The boxes that are not covered by a better one."""
    keep = scores > 0.5
    order = scores[keep].argsort(descending=True)
    b, s = boxes[keep][order], scores[keep][order]
    area = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    low = torch.maximum(b[:, None, :2], b[None, :, :2])
    high = torch.minimum(b[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    shared = both / (area[:, None] + area[None] - both)
    chosen = (shared.triu(diagonal=1) < 0.4).all(0)
    return b[chosen], s[chosen]


def test_experts_that_rows_choose() -> None:
    torch.manual_seed(0)
    model = Experts()
    compiled = dynamlir.compile(model, dynamic=True, fullgraph=True)
    for count in (16, 5, 2, 9):
        x = torch.randn(count, 6)
        gradients = []
        for run in (compiled, model):
            model.zero_grad()
            out = run(x)
            (out * out).sum().backward()
            gradients.append([out, *(parameter.grad for parameter in model.parameters())])
        for found, wanted in zip(*gradients):
            assert (found is None) == (wanted is None)
            if wanted is not None:
                torch.testing.assert_close(found, wanted)
    assert model.calls == 8


def test_boxes() -> None:
    compiled = dynamlir.compile(best_boxes, dynamic=True, fullgraph=True)
    for shift in (0.0, 0.3, 0.9, 2.0, 0.6):
        torch.manual_seed(3)
        boxes, scores = torch.rand(12, 4).sort(1)[0], torch.rand(12) + 0.5 - shift / 2
        same(compiled(boxes, scores), best_boxes(boxes, scores))
    assert len(compiled._cache) == 1


def test_inference_mode_and_autocast() -> None:
    def program(x: torch.Tensor) -> Any:
        y = rows(x)
        return y @ torch.ones(5, 3), y.sum()

    for context in (torch.inference_mode(), torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16)):
        compiled = dynamlir.compile(program, dynamic=True, fullgraph=True)
        with context:
            for count in COUNTS:
                found, wanted = compiled(mask(count)), program(mask(count))
                torch.testing.assert_close(found, wanted)
                assert [each.is_inference() for each in found] == [each.is_inference() for each in wanted]


def test_random_numbers_are_drawn_again_where_a_check_fails() -> None:
    def program(x: torch.Tensor, drawn: list[torch.Tensor]) -> torch.Tensor:
        drawn.append(torch.rand(3))
        n = (x > 0).sum().item()
        torch._check(n != 2)
        return torch.rand(3) * n

    compiled = dynamlir.compile(program, dynamic=True, fullgraph=True, options={"eager_random": True})
    for count in (3, 2, 5):
        seen: list[Any] = []
        for run in (compiled, program):
            torch.manual_seed(count)
            drawn: list[torch.Tensor] = []
            if count == 2:
                with pytest.raises(RuntimeError):
                    run(mask(count), drawn)
                seen.append([*drawn, torch.rand(2)])
            else:
                seen.append([run(mask(count), drawn), *drawn, torch.rand(2)])
        same(seen[0], seen[1])
