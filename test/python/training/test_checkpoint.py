"""`torch.utils.checkpoint` through both doors: the same gradients, with activations recomputed in backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.utils.checkpoint
from both import each_door
from dynamlir import reasons, reports
from torch import Tensor
from torch.utils.checkpoint import checkpoint

DOORS = each_door(fullgraph=True)


@DOORS
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients(door: Any, reentrant: bool) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Linear(8, 4))

    def function(x: Tensor) -> Tensor:
        y = torch.utils.checkpoint.checkpoint(layers, x.sin(), use_reentrant=reentrant)
        return torch.utils.checkpoint.checkpoint(layers, y, use_reentrant=reentrant).tanh()

    compiled = door(function)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(2):
        # Eager's reentrant variant does not support torch.autograd.grad.
        found, expected = compiled(x), layers(layers(x.sin())).tanh()
        torch.testing.assert_close(found, expected)
        wanted = (x, *layers.parameters())
        torch.testing.assert_close(
            torch.autograd.grad(found.square().sum(), wanted), torch.autograd.grad(expected.square().sum(), wanted)
        )
    assert not reasons.events()


@DOORS
def test_numbers_that_are_drawn_are_drawn_once(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(lambda x: torch.nn.functional.dropout(x * x), x, use_reentrant=False)

    compiled = door(function)
    x = torch.rand(1000, requires_grad=True) + 1
    y = compiled(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(gradient, torch.where(y != 0, 4 * x, 0).detach())
    assert not reasons.events()


def saved(door: Any, function: Callable[..., Any], *inputs: Tensor) -> int:
    """The number of bytes saved for backward."""
    torch._dynamo.reset()
    dynamlir.reset()
    reports.reset()
    door(function)(*inputs).sum().backward()
    made = dynamlir.last_compile()
    assert made is not None
    return sum(made.saved)


@DOORS
@pytest.mark.parametrize("reentrant", [False, True])
def test_nothing_within_is_saved(door: Any, reentrant: bool) -> None:
    torch.manual_seed(1)
    layers = [
        torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.Tanh(), torch.nn.Linear(128, 32), torch.nn.Tanh())
        for _ in range(3)
    ]

    def plain(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x)
        return x

    def checkpointed(x: Tensor) -> Tensor:
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=reentrant)
        return x

    x = torch.randn(64, 32, requires_grad=True)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    found = torch.autograd.grad(door(checkpointed)(x).square().sum(), [x, *parameters])
    expected = torch.autograd.grad(plain(x).square().sum(), [x, *parameters])
    torch.testing.assert_close(found, expected)
    # The results of the first activations, 64 · 128 numbers each, are not kept; their biases are, to recompute them.
    kept, all_of_it = saved(door, checkpointed, x), saved(door, plain, x)
    assert kept == all_of_it - 3 * (64 * 128 - 128) * 4
    assert not reasons.events()


@DOORS
def test_nested_checkpoints_and_keyword_arguments(door: Any) -> None:
    def inner(x: Tensor, *, scale: float) -> Tensor:
        return (x * scale).exp().sin()

    def outer(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(inner, x @ w, use_reentrant=False, scale=0.5).cos() @ w

    def function(x: Tensor, w: Tensor) -> Tensor:
        return checkpoint(outer, x, w, use_reentrant=False, preserve_rng_state=True) * 2

    x, w = (torch.randn(6, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))
    for _ in range(2):
        found = torch.autograd.grad(door(function)(x, w).square().sum(), (x, w))
        torch.testing.assert_close(found, torch.autograd.grad(function(x, w).square().sum(), (x, w)))
    assert not reasons.events()


@DOORS
def test_differentiated_twice(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return checkpoint(lambda x: x.sin() * x.exp(), x, use_reentrant=False)

    x = torch.randn(6, dtype=torch.float64, requires_grad=True)

    def second(function: Callable[..., Any]) -> Tensor:
        (gradient,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        return torch.autograd.grad(gradient.square().sum(), x)[0]

    torch.testing.assert_close(second(door(function)), second(lambda x: x.sin() * x.exp()))
    assert not reasons.events()


def test_without_gradients() -> None:
    compiled = dynamlir.compile(lambda x: checkpoint(torch.sin, x, use_reentrant=True))
    x = torch.randn(3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), x.sin())
    assert not reasons.events()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"use_reentrant": False, "context_fn": torch.utils.checkpoint.noop_context_fn}, "autograd"),
        ({"use_reentrant": False, "debug": True}, "autograd"),
        ({}, "print"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_runs_plain(options: dict[str, Any], reason: str) -> None:
    compiled = dynamlir.compile(lambda x: checkpoint(torch.sin, x, **options) * 2)
    x = torch.randn(3, requires_grad=True)
    compiled(x).sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())
    assert {event.reason for event in reasons.events()} == {reason}


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_reentrant_without_arguments_that_want_gradients() -> None:
    w = torch.randn(3, requires_grad=True)
    compiled = dynamlir.compile(lambda x: checkpoint(lambda x: x * w, x, use_reentrant=True))
    assert not compiled(torch.randn(3)).requires_grad
    assert {event.reason for event in reasons.events()} == {"autograd"}
