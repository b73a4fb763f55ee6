"""Transforms of `torch.func` over results of other transforms, as in eager: reverse mode over Jacobians, and gradients
that leave through them to the arguments of the compiled function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

GENERATOR = torch.Generator().manual_seed(0)
X, Y = (torch.randn(3, dtype=torch.float64, generator=GENERATOR) for _ in range(2))
W = torch.randn(3, 3, dtype=torch.float64, generator=GENERATOR)
EYE = torch.eye(3, dtype=torch.float64)


def energy(x: Tensor) -> Tensor:
    return (x.exp() * x.sum()).sum()


FIELDS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": lambda x: torch.tanh(x) * x.sum(),
    "sigmoid": lambda x: torch.sigmoid(x * x),
    "softplus": lambda x: torch.nn.functional.softplus(W @ x),
    "relu": lambda x: torch.relu(x) ** 2,
    "gelu": lambda x: torch.nn.functional.gelu(x) * x,
    "silu": lambda x: torch.nn.functional.silu(x + 1),
    "softmax": lambda x: torch.softmax(x, 0),
    "norm": lambda x: torch.nn.functional.layer_norm(x, (3,)) * x,
}

ORDERS: dict[str, Callable[[Callable[[Tensor], Tensor], Tensor], Any]] = {
    "jacrev of jacrev": lambda f, x: jacrev(jacrev(f))(x),
    "jacrev of jacfwd": lambda f, x: jacrev(jacfwd(f))(x),
    "jacfwd of jacrev": lambda f, x: jacfwd(jacrev(f))(x),
    "grad of a norm": lambda f, x: grad(lambda x: jacrev(f)(x).square().sum())(x),
    "vjp": lambda f, x: vjp(jacrev(f), x)[1](W)[0],
    "rows": lambda f, x: grad(lambda x: vmap(vjp(f, x)[1])(EYE)[0].square().sum())(x),
    "jvp": lambda f, x: jvp(jacrev(f), (x,), (Y,))[1],
    "vmap": lambda f, x: vmap(lambda row: grad(lambda x: jacrev(f)(x).square().sum())(row))(torch.stack([x, Y])),
}


def compare(function: Callable[..., Any], *args: Any) -> None:
    found, expected = dynamlir.compile(function)(*args), function(*args)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order: str, quiet: None) -> None:
    compare(lambda x: ORDERS[order](FIELDS["tanh"], x), X)


@pytest.mark.parametrize("field", FIELDS)
def test_gradients_that_leave_through_a_jacobian(field: str, quiet: None) -> None:
    """The gradients of the tangents are batches, which formulas of activations broadcast."""

    def norm(x: Tensor) -> Tensor:
        return jacrev(FIELDS[field])(x).square().sum()

    compare(lambda x: torch.autograd.grad(norm(x), x)[0], X.clone().requires_grad_())
    x = X.clone().requires_grad_()
    found, expected = (torch.autograd.grad(f(x), x)[0] for f in (dynamlir.compile(norm), norm))
    torch.testing.assert_close(found, expected)


def test_third_derivatives(quiet: None) -> None:
    compare(lambda x: jacrev(jacrev(jacrev(energy)))(x), X)
    compare(lambda x: jacrev(hessian(energy))(x), X)


def test_gradients_of_what_is_closed_over(quiet: None) -> None:
    def f(x: Tensor, w: Tensor) -> Tensor:
        return jacrev(lambda x: torch.tanh(w @ x))(x).square().sum() + jacrev(lambda v: v * w.sum())(x).sum()

    x, w = X.clone().requires_grad_(), W.clone().requires_grad_()
    found, expected = (torch.autograd.grad(each(x, w), (x, w)) for each in (dynamlir.compile(f), f))
    torch.testing.assert_close(found, expected)


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


def raising(x: Tensor) -> Tensor:
    raise KeyError("mine")


def caught(x: Tensor) -> Tensor:
    """A transform that is left by an exception has ended."""
    try:
        grad(raising)(x)
    except KeyError:
        x = x * 1
        x.add_(1)
    return grad(energy)(x)


def outside(x: Tensor) -> Tensor:
    kept = torch.zeros(3, dtype=torch.float64)
    return grad(lambda x: kept.add_(x).sum())(x)


REFUSED: dict[str, Callable[[Tensor], Any]] = {
    "twice": lambda x: grad(lambda x, y: (x * y).sum(), argnums=(1, -1))(x, x),
    "no such argument": lambda x: grad(energy, argnums=1)(x),
    "no arguments": lambda x: grad(energy, argnums=())(x),
    "a float": lambda x: grad(lambda x, y: (x * y).sum(), argnums=1)(x, 2.0),
    "aux": lambda x: grad(lambda x: (x.sum(), {"a": "text"}), has_aux=True)(x),
    "aux of vjp": lambda x: vjp(lambda x: (x * 2, 3), x, has_aux=True)[1],
    "nothing": lambda x: vjp(lambda x: None, x)[0],
    "whole numbers": lambda x: vjp(lambda x: (x * 2).long(), x)[0],
    "a write to what is outside": outside,
    "a write to an argument that is closed over": lambda x: grad(lambda y: x.mul_(y).sum())(x),
    "requires_grad_": lambda x: grad(lambda x: x.requires_grad_().sum())(x),
    "requires_grad_ of what is made": lambda x: grad(lambda x: (x * torch.ones(3).requires_grad_()).sum())(x),
    "requires_grad_ within vmap": lambda x: vmap(lambda x: x.requires_grad_() * 2)(x),
    "a Function without setup_context": lambda x: grad(lambda x: Old.apply(x).sum())(x),
    "that within a Jacobian": lambda x: jacrev(Old.apply)(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str, quiet: None) -> None:
    function = REFUSED[name]
    with pytest.raises(Exception) as expected:
        function(X.clone())
    compiled = dynamlir.compile(function)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as found:
            compiled(X.clone())
        assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("within", [lambda f: f, torch.func.jacfwd, torch.vmap], ids=("grad", "jacfwd", "vmap"))
def test_hooks_for_saved_tensors_are_refused(within: Callable[..., Any], quiet: None) -> None:
    def function(x: Tensor) -> Any:
        return within(grad(lambda x: energy(x).sum()))(x)

    def with_hooks(x: Tensor) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return function(x)

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), function(X))
    with torch.autograd.graph.save_on_cpu(), pytest.raises(RuntimeError, match="saved tensor hooks"):
        compiled(X)
    torch.testing.assert_close(compiled(X), function(X))
    with pytest.raises(RuntimeError, match="saved tensor hooks"):
        dynamlir.compile(with_hooks)(X)


ALLOWED: dict[str, Callable[[Tensor], Any]] = {
    "an exception": caught,
    "a write to what is made within": lambda x: grad(lambda x: torch.zeros(3, dtype=x.dtype).add_(x).exp().sum())(x),
    "a write to what is made before, after it": lambda x: (grad(energy)(x), x.clone().mul_(2)),
    "a graph break": lambda x: grad(lambda x: (print(end=""), energy(x))[1])(x),
    "a graph break in a Jacobian": lambda x: jacrev(lambda x: (print(end=""), x.exp())[1])(x),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_not_refused(name: str, quiet: None) -> None:
    compare(ALLOWED[name], X.clone())


def test_a_graph_break_between_a_jacobian_and_what_uses_it(quiet: None) -> None:
    """If a piece ended within the Jacobian, it would return the Jacobian's leaf and what is computed from it as
    siblings.
    """

    def f(x: Tensor, y: Tensor) -> Tensor:
        u, v = y.sin(), x * 2
        jacobian = jacrev(lambda a: a.sin() * a.sum())(u).sum(0)
        try:
            torch.autograd.grad(jacobian.sum(), v, retain_graph=True)
        except RuntimeError:
            return jacobian * v
        return v

    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    found, expected = (torch.autograd.grad(each(x, y).sum(), (x, y)) for each in (dynamlir.compile(f), f))
    torch.testing.assert_close(found, expected)
