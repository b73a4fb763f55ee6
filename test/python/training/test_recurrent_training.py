"""Recurrent layers that torch computes step by step train as in eager: each step writes to the parts of a product,
which share memory but are not views to autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor, nn

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "GRU": lambda: nn.GRU(5, 6),
    "both directions": lambda: nn.GRU(5, 6, num_layers=2, bidirectional=True),
    "RNN": lambda: nn.RNN(5, 6, nonlinearity="relu"),
    "GRUCell": lambda: nn.GRUCell(5, 6),
    "LSTMCell": lambda: nn.LSTMCell(5, 6),
    "RNNCell": lambda: nn.RNNCell(5, 6),
}


def first(result: Any) -> Tensor:
    return result if isinstance(result, Tensor) else first(result[0])


def gradients(layer: nn.Module, function: Callable[..., Any], x: Tensor) -> list[Tensor]:
    x = x.clone().requires_grad_()
    return list(torch.autograd.grad(first(function(x)).square().sum(), [x, *layer.parameters()]))


@pytest.mark.parametrize("name", LAYERS)
def test_training(name: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[name]()
    x = torch.randn(4, 5) if name.endswith("Cell") else torch.randn(3, 4, 5)
    compiled = dynamlir.compile(layer, fullgraph=True)
    with dynamlir.config.patch(on_plain="error"):
        torch.testing.assert_close(gradients(layer, compiled, x), gradients(layer, layer, x))
