"""Gradients of gradients are eager's if a program uses only one of several results of an operation.

Torch's formulas skip the undefined tangents of the other results. With zeros instead they would divide by zero for
matrices that have equal singular values or eigenvalues.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from both import each_door
from torch import Tensor

WEIGHTS = torch.arange(1.0, 5.0)

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "singular values": lambda x: (torch.linalg.svdvals(x) * WEIGHTS).sum(),
    "largest singular value": lambda x: torch.linalg.norm(x, 2),
    "sum of singular values": lambda x: torch.linalg.norm(x, "nuc"),
    "values of svd": lambda x: torch.linalg.svd(x).S.square().sum(),
    "values of eigh": lambda x: (torch.linalg.eigh(x @ x.mT).eigenvalues * WEIGHTS).sum(),
    "eigenvalues": lambda x: torch.linalg.eigvals(x).abs().sum(),
    "vectors of eigh": lambda x: torch.linalg.eigh(x + x.mT).eigenvectors.abs().sum(),
    "deviation": lambda x: torch.std_mean(x, 0)[0].sum(),
    "mean beside a deviation": lambda x: torch.std_mean(x, 0)[1].square().sum(),
}

MATRICES = {
    "of all kinds": torch.tensor([[2.0, -1, 0.5, 0], [0.3, 1, -2, 1], [0, 0.7, 3, 0.1], [1, 0, -0.4, -1.5]]),
    "equal values": torch.eye(4),
    "two equal values": torch.diag(torch.tensor([3.0, 2.0, 2.0, 1.0])),
    "zeros": torch.zeros(4, 4),
}


def gradients(function: Callable[[Tensor], Tensor], matrix: Tensor) -> list[Tensor]:
    """The first gradients, which have a history, and the second ones."""
    x = matrix.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    second = torch.autograd.grad(first.square().sum(), x) if first.requires_grad else ()
    return [first.detach(), *second]


@each_door(dynamic=False)
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_equal_values(name: str, matrix: str, door: Any) -> None:
    function, x = FUNCTIONS[name], MATRICES[matrix]
    seen, expected = gradients(door(function), x), gradients(function, x)
    torch.testing.assert_close(seen, expected, equal_nan=True, rtol=1e-3, atol=1e-4)
    if name == "singular values":
        assert not expected[0].isnan().any()
