"""Patches of torch between two calls take effect: operators and methods of tensors, functions, defaults, callees."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F

X = torch.ones(2)


# Patches of torch.

PATCHES: dict[str, tuple[Callable[..., Any], Any, str, Any]] = {
    "an operator": (lambda x: x + 1, torch.Tensor, "__add__", lambda a, b: torch.mul(a, 100)),
    "a reflected operator": (lambda x: 1 + x, torch.Tensor, "__radd__", lambda a, b: torch.mul(a, 100)),
    "a comparison": (lambda x: x == 1, torch.Tensor, "__eq__", lambda a, b: torch.mul(a, 100)),
    "a unary operator": (lambda x: -x, torch.Tensor, "__neg__", lambda a: torch.mul(a, 100)),
    "an index": (lambda x: x[0], torch.Tensor, "__getitem__", lambda a, b: torch.mul(a, 100)),
    "an iteration": (
        lambda x: sum(row + 1 for row in x),
        torch.Tensor,
        "__iter__",
        lambda a: iter([a.mul(100)]),
    ),
    "a length": (lambda x: x.relu() * len(x), torch.Tensor, "__len__", lambda a: 100),
    "an operator of a result": (lambda x: x.sin() + 1, torch.Tensor, "__add__", lambda a, b: torch.mul(a, 100)),
    "a method": (lambda x: x.relu(), torch.Tensor, "relu", lambda a: torch.mul(a, 100)),
    "a method of a result": (lambda x: x.sin().relu(), torch.Tensor, "relu", lambda a: torch.mul(a, 100)),
    "an attribute": (lambda x: x.shape[0] * x.sin(), torch.Tensor, "shape", property(lambda a: (100,))),
    "a function": (lambda x: torch.relu(x), torch, "relu", lambda a: torch.mul(a, 100)),
    "a default": (lambda x: F.leaky_relu(-x), F.leaky_relu, "__defaults__", (0.5, False)),
    "the code of a function": (
        lambda x: F.relu(x),
        F.relu,
        "__code__",
        (lambda input, inplace=False: input * 7).__code__,
    ),
    "what a function calls": (lambda x: F.relu(x), torch, "relu", lambda x: torch.mul(x, 100)),
    "what a function finds in its module": (
        lambda x: F.softmax(x, None),
        F,
        "_get_softmax_dim",
        lambda *args: 0,
    ),
    "what a function calls in another module": (
        lambda x: F.max_pool1d(x[None, None], 2),
        torch,
        "max_pool1d",
        lambda x, *args: torch.mul(x, 100),
    ),
    "a method that a function calls": (
        lambda x: F.softmax(x, 0),
        torch.Tensor,
        "softmax",
        lambda x, *args, **named: torch.mul(x, 100),
    ),
    "an operator that a function uses": (
        lambda x: F.normalize(x, dim=0),
        torch.Tensor,
        "__truediv__",
        lambda x, y: torch.mul(x, 100),
    ),
    "a builtin": (lambda x: x * len((1, 2)), builtins, "len", lambda a: 100),
}


@torch.no_grad()
@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_of_torch_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, owner, attribute, value = PATCHES[name]
    given = torch.tensor([3.0, -2.0])
    compiled = dynamlir.compile(function)
    dynamlir.reset()
    before = compiled(given)
    assert torch.equal(before, function(given))
    assert not dynamlir.fallbacks() or name == "what a function finds in its module", dynamlir.fallbacks()
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, value)
        seen, expected = compiled(given), function(given)
    assert torch.equal(seen, expected)
    assert torch.equal(compiled(given), before)


def test_an_unrelated_patch_of_torch_costs_no_recompilation(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = dynamlir.compile(lambda x: F.relu(x + 1).sin())
    for _ in range(3):
        compiled(X)
    monkeypatch.setattr(torch.Tensor, "unrelated", 3, raising=False)
    monkeypatch.setattr(torch, "unrelated", 3, raising=False)
    for _ in range(3):
        compiled(X)
    assert len(compiled._cache) == 1
