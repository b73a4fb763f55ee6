"""`torch.func.grad`, `grad_and_value` and `vjp` inside compiled functions: parts of the graph, through both doors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import each_door
from dynamlir import reasons
from torch import Tensor
from torch.func import functional_call, grad, grad_and_value, vjp
from torch.utils import _pytree as pytree

DOORS = each_door(fullgraph=True)


def outcome(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> list[Any]:
    """The results of a function, those of them that require a gradient, and these gradients."""
    leaves = pytree.tree_leaves(function(*inputs))
    found: list[Any] = [(leaf, leaf.requires_grad) for leaf in leaves]
    results = [leaf for leaf in leaves if leaf.requires_grad]
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    if results and wanted:
        loss: Any = sum((result * (result + 1)).sum() for result in results)
        found += torch.autograd.grad(loss, wanted, allow_unused=True)
    return found


def check(door: Any, function: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """Checks a function with and without gradients of its results."""
    for requires_grad in (False, True):
        inputs = tuple(torch.randn(*shape, dtype=torch.float64, requires_grad=requires_grad) for shape in shapes)
        compiled = door(function)
        for _ in range(2):
            torch.testing.assert_close(outcome(compiled, inputs), outcome(function, inputs))
    assert not reasons.events()


@DOORS
def test_grad(door: Any) -> None:
    check(door, lambda x: grad(lambda y: (y.sin() * y).sum())(x), (3, 4))
    check(door, lambda x, w: grad(lambda y: (y @ w).tanh().sum())(x.sin()) * x, (3, 4), (4, 2))


@DOORS
def test_arguments_by_number_and_aux(door: Any) -> None:
    def loss(x: Tensor, w: Tensor, *, scale: float) -> tuple[Tensor, Tensor]:
        y = x @ w * scale
        return y.square().sum(), y

    check(door, lambda x, w: grad(loss, argnums=(0, 1), has_aux=True)(x, w, scale=2.0), (3, 4), (4, 2))
    check(door, lambda x, w: grad(loss, argnums=1, has_aux=True)(x, w, scale=2.0), (3, 4), (4, 2))


@DOORS
def test_grad_and_value(door: Any) -> None:
    def function(x: Tensor) -> Any:
        gradient, value = grad_and_value(lambda y: (y.exp() * y).sum())(x)
        return gradient * value, value

    check(door, function, (3,))


@DOORS
def test_nested(door: Any) -> None:
    check(door, lambda x: grad(lambda y: grad(lambda z: (z**3).sum())(y).sum())(x), (4,))
    # The variable of the inner one is a constant of the outer one, and the other way round.
    check(door, lambda x: grad(lambda y: (y * grad(lambda z: (z * y * z).sum())(x)).sum())(x), (4,))


@DOORS
def test_what_is_detached_before_stays_detached(door: Any) -> None:
    check(door, lambda x: grad(lambda y: (y * y * x).sum())(x.detach()), (3,))
    check(door, lambda x: grad(lambda y: (y * y * x).sum())((x * 2).detach()), (3,))
    check(door, lambda x: grad(lambda y, z: (y * z * x).sum(), argnums=(0, 1))(x.data, x)[0], (3,))
    check(door, lambda x: vjp(lambda y: y * y * x, x.detach())[1](x.cos())[0], (3,))


@DOORS
def test_vjp(door: Any) -> None:
    def function(x: Tensor, w: Tensor) -> Any:
        (y, z), backward = vjp(lambda x, w: (x @ w, x.cos()), x, w)
        return y, backward((y.sin(), z))

    check(door, function, (3, 4), (4, 2))


@DOORS
def test_what_does_not_depend_on_it_is_zero(door: Any) -> None:
    check(door, lambda x, w: grad(lambda y: w.sum() + 0 * y.detach().sum())(x), (3,), (2,))


@pytest.mark.whole
@DOORS
def test_weights_of_a_module(door: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def function(x: Tensor) -> Any:
        return grad(lambda weights: functional_call(model, weights, (x,)).square().sum())(weights)

    x = torch.randn(5, 4, dtype=torch.float64)
    compiled = door(function)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), function(x))
    assert not reasons.events()


@DOORS
def test_under_no_grad(door: Any) -> None:
    def function(x: Tensor) -> Any:
        return grad(lambda y: (y.sin() * y).sum())(x)

    compiled = door(function)
    x = torch.randn(3, requires_grad=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))
        assert not compiled(x).requires_grad
    assert not reasons.events()


@DOORS
def test_functions_of_users_within(door: Any) -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 3 * ctx.saved_tensors[0]

    def function(x: Tensor) -> Any:
        return grad(lambda y: Square.apply(y.sin()).sum())(x)

    compiled = door(function)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), function(x))


def test_words_of_errors() -> None:
    compiled = dynamlir.compile(lambda x: grad(lambda y: y * 2)(x))
    with pytest.raises(RuntimeError, match="to return a scalar Tensor, got tensor with 1 dims"):
        compiled(torch.randn(3))


def test_other_transforms_are_graphs() -> None:
    for function in (
        torch.func.jacrev(torch.sin),
        torch.func.vmap(torch.sin),
        torch.func.hessian(lambda x: x.sin().sum()),
    ):
        reasons.reset()
        x = torch.randn(3)
        torch.testing.assert_close(dynamlir.compile(lambda x, function=function: function(x))(x), function(x))
        assert not reasons.events()
