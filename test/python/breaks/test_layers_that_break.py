"""Layers that partly run as plain Python: each finds its own entry, in any order."""

from __future__ import annotations

import itertools

import dynamlir
import pytest
import torch
from torch import Tensor, nn

pytestmark = [pytest.mark.usefixtures("quiet")]


@torch.compiler.disable
def seen_by_python(value: float) -> float:
    return value


class Layer(nn.Module):
    def __init__(self, factor: float, width: int) -> None:
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.full((width,), factor))

    def scaled(self, x: Tensor) -> Tensor:
        y = x * self.weight
        return y + seen_by_python(self.factor)

    def forward(self, x: Tensor) -> Tensor:
        call = self.scaled
        return call(x).cos()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            [Layer(factor, width) for factor, width in ((0.5, 3), (1.5, 1), (2.5, 3), (0.25, 1))]
        )

    def forward(self, x: Tensor, order: tuple[int, ...]) -> Tensor:
        for at in order:
            x = self.layers[at](x)
        return x


@torch.no_grad()
def test_layers_in_any_order() -> None:
    model = Layers()
    compiled = dynamlir.compile(model)
    orders = [*itertools.permutations(range(3)), (0, 1, 2, 3), (3, 3, 0, 0), (2,), (0, 1, 2, 3)]
    for order in orders:
        x = torch.linspace(-1, 1, 3)
        torch.testing.assert_close(compiled(x, order), model(x, order))


@torch.no_grad()
def test_a_layer_that_is_replaced_and_one_that_changes() -> None:
    model = Layers()
    compiled = dynamlir.compile(model)
    x, order = torch.linspace(-1, 1, 3), (0, 1, 2, 3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, order), model(x, order))
    model.layers[1] = Layer(3.0, 3)
    torch.testing.assert_close(compiled(x, order), model(x, order))
    first = model.layers[0]
    assert isinstance(first, Layer)
    first.factor = 7.0
    for _ in range(2):
        torch.testing.assert_close(compiled(x, order), model(x, order))
    first.scaled = lambda x: x - 1  # type: ignore[method-assign]
    for _ in range(2):
        torch.testing.assert_close(compiled(x, order), model(x, order))


@torch.no_grad()
def test_methods_that_are_told_apart() -> None:
    """A bound method is created anew at each access: its object and its function are compared."""

    def through(call: object, x: Tensor) -> Tensor:
        y = x + 1
        seen_by_python(1.0)
        assert callable(call)
        return call(y) * 2  # type: ignore[no-any-return]

    compiled = dynamlir.compile(through)
    one, other = Layer(0.5, 3), Layer(2.0, 3)
    x = torch.linspace(-1, 1, 3)
    for layer in (one, other, one, one, other):
        for call in (layer.scaled, layer.forward, layer.scaled):
            torch.testing.assert_close(compiled(call, x), through(call, x))
