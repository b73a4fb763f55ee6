"""Double backward of graphs whose random numbers torch drew: torch runs the graph again, without the parts that no
gradient depends on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from both import DOORS
from torch import Tensor


@pytest.fixture(autouse=True)
def drawn_by_torch(quiet: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "eager_random", True)


def index(x: Tensor, at: Tensor, matrix: Tensor) -> Any:
    return F.dropout(x.exp(), 0.3), F.embedding_bag(at - 1, matrix, mode="max").detach()


def solved(x: Tensor, at: Tensor, matrix: Tensor) -> Any:
    """Raises if the matrix is replaced by zeros."""
    square = matrix @ matrix.T
    return F.dropout(x.sin(), 0.3), torch.linalg.inv(square).detach(), torch.linalg.cholesky(square).detach()


def chosen(x: Tensor, at: Tensor, matrix: Tensor) -> Any:
    return F.dropout(x.exp(), 0.3) * 2, matrix.detach()[at - 1], F.one_hot(at - 1, 3)


def written(x: Tensor, at: Tensor, matrix: Tensor) -> Any:
    """A write to a value that gradients depend on is kept."""
    y = F.dropout(x.exp(), 0.3) * x
    y[1:].mul_(x[:-1])
    kept = torch.zeros(4)
    kept.copy_(matrix[0].detach())
    return y.sin(), torch.linalg.inv(matrix @ matrix.T).detach(), kept


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("function", [index, solved, chosen, written])
def test_what_no_gradient_is_made_of(function: Callable[..., Any], door: str) -> None:
    def second(f: Callable[..., Any]) -> Tensor:
        torch.manual_seed(0)
        x, matrix = torch.linspace(0.5, 2, 4).requires_grad_(), torch.randn(3, 4, requires_grad=True)
        result = f(x, torch.tensor([[1, 2, 3]]), matrix)[0]
        (first,) = torch.autograd.grad(result.square().sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch._dynamo.reset()
    torch.testing.assert_close(second(DOORS[door](function)), second(function))
