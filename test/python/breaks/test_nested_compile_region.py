"""Functions marked by `torch.compiler.nested_compile_region` become part of the calling graph, through both doors."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from both import check_both, each_door
from torch import nn

region = torch.compiler.nested_compile_region
X = torch.linspace(-2, 2, 12).reshape(3, 4)
HALF = torch.full((4,), 0.5)


@region
def gated(x, by):
    return {"gate": torch.sigmoid(x) * by, "rest": [x - by, x.sum(-1)]}


@region
def within(x):
    return squared(x) + squared(x + 1)


@region
def squared(x):
    return x.square() * HALF


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

    @region
    def forward(self, x):
        return x + self.norm(self.linear(x)).tanh()


def picks(x):
    made = gated(x, by=3.0)
    return made["gate"] + made["rest"][0], made["rest"][1]


@pytest.mark.parametrize("function", [picks, within, lambda x: squared(x.t()[:4]) if x.shape[0] == 4 else squared(x)])
def test_functions(function):
    check_both(function, X)
    check_both(function, X.clone().requires_grad_(), gradients=True)


def test_modules():
    """The second door's graph calls modules by their names; equal layers share their kernels."""
    check_both(nn.Sequential(*[Layer() for _ in range(3)]), X, gradients=True)


@each_door()
def test_layers_share_kernels(door):
    with torch.no_grad():
        door(nn.Sequential(Layer()))(X)
        kernels = dynamlir.counters()["kernels"]
        door(nn.Sequential(*[Layer() for _ in range(4)]))(X)
    assert dynamlir.counters()["kernels"] <= 2 * kernels + 2 and dynamlir.counters()["graphs"] == 2
    assert not dynamlir.fallbacks()


@each_door()
def test_sizes_vary_within(door):
    compiled = door(picks)
    for rows in (3, 5, 7):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x), picks(x))
    assert not dynamlir.fallbacks() and dynamlir.counters()["graphs"] == 2


def test_a_break_within_is_like_others():
    @region
    def reads(x):
        return x * x.sum().tolist()

    compiled = dynamlir.compile(lambda x: reads(x + 1) - 1)
    torch.testing.assert_close(compiled(X), (X + 1) * (X + 1).sum() - 1)
    assert set(dynamlir.counters()["fallbacks"]) == {"data-dependent"}


def test_they_are_in_exported_programs():
    program = dynamlir.export(within, X)
    torch.testing.assert_close(program(X), within(X))
    assert dynamlir.explain(picks)(X).graph_break_count == 0
