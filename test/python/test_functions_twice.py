"""Users' functions whose backward is not differentiated, or not all of it, under ``create_graph=True``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_functions_of_users import DOORS, Once, leaf
from torch import Tensor
from torch.autograd import Function

pytestmark = pytest.mark.native


@DOORS
def test_once_differentiable_where_tangents_are_constant(door: Any) -> None:
    """Then nothing says so in eager either: the gradients have no history."""
    x, w = leaf(3), leaf(3)
    (alone,) = torch.autograd.grad(door(Once.apply)(x).sum(), x, create_graph=True)
    assert not alone.requires_grad
    (gradient,) = torch.autograd.grad(door(lambda x, w: Once.apply(x * w))(x, w).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        torch.autograd.grad(gradient.square().sum(), [x, w])


@DOORS
def test_backward_that_detaches(door: Any) -> None:
    """What is detached has no gradients of its own."""

    class Saved(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * ctx.saved_tensors[0].detach().cos()

    class Tangent(Saved):
        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient.detach() * ctx.saved_tensors[0].cos()

    for function in (Saved, Tangent):
        x, found = leaf(3), []

        def twice(x: Tensor, function: Any = function) -> Tensor:
            return function.apply(x) * 2

        for compiled in (twice, door(twice)):
            (first,) = torch.autograd.grad(compiled(x).square().sum(), x, create_graph=True)
            found.append([first.detach(), *torch.autograd.grad(first.sum(), x)])
        torch.testing.assert_close(found[1], found[0])
