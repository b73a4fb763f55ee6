"""Modules that create their parameters in their first call: that call runs plain, and later calls are one graph."""

from __future__ import annotations

import warnings

import dynamlir
import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.unused = nn.LazyConv1d(3, 2), nn.LazyBatchNorm1d(), nn.LazyLinear(2)
        self.rare = nn.LazyLinear(4)

    def forward(self, x, rare=False):
        x = self.norm(self.first(x)).relu()
        return self.rare(x) if rare else x


@pytest.mark.parametrize("fullgraph", [False, True])
def test_the_second_call_is_one_graph(fullgraph):
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))
    compiled = dynamlir.compile(model, fullgraph=fullgraph)
    x = torch.randn(4, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [compiled(x) for _ in range(3)]
    assert all(torch.allclose(result, model(x)) for result in results)
    assert dynamlir.counters()["graphs"] == 1 and not dynamlir.fallbacks()
    assert type(model[0]) is nn.Linear


def test_modules_that_are_not_called_stay_as_they_are():
    model = Net().eval()
    compiled = dynamlir.compile(model)
    x = torch.randn(2, 2, 5)
    for _ in range(3):
        compiled(x)
    assert dynamlir.counters()["graphs"] == 1
    assert torch.allclose(compiled(x, rare=True), model(x, rare=True), atol=1e-6)
    assert type(model.unused) is nn.LazyLinear and type(model.rare) is nn.Linear
    assert torch.allclose(compiled(x, rare=True), model(x, rare=True), atol=1e-6)
