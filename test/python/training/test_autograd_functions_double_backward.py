"""Double backward (``create_graph=True``) through `torch.autograd.Function` whose backward is differentiated partly or
not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import reasons
from test_autograd_functions import DOORS, Once, leaf, orders
from torch import Tensor
from torch.autograd import Function


@DOORS
def test_once_differentiable_where_tangents_are_constant(door: Any) -> None:
    """Eager does not report this either: the gradients have no history."""
    x, w = leaf(3), leaf(3)
    (alone,) = torch.autograd.grad(door(Once.apply)(x).sum(), x, create_graph=True)
    assert not alone.requires_grad
    (gradient,) = torch.autograd.grad(door(lambda x, w: Once.apply(x * w))(x, w).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="at index 0 appears to not have been used"):
        torch.autograd.grad(gradient.square().sum(), [x, w])


@DOORS
def test_backward_that_detaches(door: Any) -> None:
    """A detached value has no gradients of its own."""

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


class Product(Function):
    """Its gradients are products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        x, y = ctx.saved_tensors
        return Product.apply(gradient, y), Product.apply(gradient, x)


class Sine(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * Cosine.apply(*ctx.saved_tensors)


class Cosine(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.cos()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -gradient * Sine.apply(*ctx.saved_tensors)


@pytest.mark.parametrize(
    "function",
    [lambda x, y: Product.apply(x, y) + 1, lambda x, y: Sine.apply(x * y) * 2, lambda x, y: Cosine.apply(x) + y],
    ids=["itself", "one another", "the other"],
)
def test_one_whose_backward_applies_it_has_any_order(function: Callable[..., Any]) -> None:
    inputs = leaf(3), leaf(3)
    found = orders(dynamlir.compile(function), inputs, 3)
    torch.testing.assert_close(found, orders(function, inputs, 3))
    assert "autograd" in {event.reason for event in reasons.events()}


class Partly(Function):
    """Switches the grad mode in its backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            factor = x.cos()
        return gradient * factor * (x * 0 + 1)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("function", [Partly.apply, lambda x: Sine.apply(x * 2), lambda x: Product.apply(x, x.exp())])
def test_what_dynamo_does_not_show_is_no_constant(function: Callable[..., Any], several: bool) -> None:
    """A backward pass through it with respect to the inputs only is refused as well."""
    compiled = torch.compile(lambda x: (function(x).exp(), x.cos() if several else None), backend="dynamlir")
    x = leaf(3)
    result = compiled(x)[0]
    (first,) = torch.autograd.grad(result.square().sum(), x, create_graph=True)
    torch.testing.assert_close(first, torch.autograd.grad(function(x).exp().square().sum(), x)[0])
    with pytest.raises(RuntimeError, match="does not show how its backward is differentiated"):
        torch.autograd.grad(first.sum(), x)


NODES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "beside": lambda x, w: (Once.apply(x * w), x.cos()),
    "before": lambda x, w: (Once.apply(x * w).exp(), (x * w).cos()),
    "linear": lambda x, w: ((Once.apply(x) * 2).sum(), x * w, Once.apply(w).exp() * x),
    "by a weight": lambda x, w: (Once.apply(x) * w, (w * 2).tanh()),
    "two": lambda x, w: (Once.apply(Once.apply(x).tanh() + w), Once.apply(w) * x),
}


@DOORS
@pytest.mark.parametrize("loss", ["each", "sum", "all"])
@pytest.mark.parametrize("kind", NODES)
def test_once_differentiable_among_several_nodes(kind: str, loss: str, door: Any) -> None:
    """Its gradients are constants, and raise in a full backward pass if the gradients it received have a history."""
    function = NODES[kind]
    numbers, facts = told(door(function), loss)
    expected = told(function, loss)
    assert facts == expected[1]
    torch.testing.assert_close(numbers, expected[0])


def told(function: Callable[..., Any], loss: str) -> tuple[list[Tensor | None], list[Any]]:
    """The gradients of two orders and of a full backward pass; which of them have a history, and what is raised."""
    numbers: list[Tensor | None] = []
    facts: list[Any] = []
    for at in range(1 if loss == "all" else 2):
        x, w = (torch.linspace(low, low + 1, 3, dtype=torch.float64).requires_grad_() for low in (-0.4, 0.3))
        chosen = [one for place, one in enumerate(function(x, w)) if loss == "all" or place == at]
        total = torch.stack([one.sum() if loss == "sum" else one.square().sum() for one in chosen]).sum()
        for _ in range(2):
            if total.requires_grad:
                given = torch.autograd.grad(total, [x, w], create_graph=True, allow_unused=True)
                numbers += [None if one is None else one.detach() for one in given]
                facts += [one is not None and one.requires_grad for one in given]
                total = torch.stack([x.sum() * 0, *(one.square().sum() for one in given if one is not None)]).sum()
        try:
            total.backward()
            numbers += [x.grad, w.grad]
        except RuntimeError as error:
            facts.append(str(error))
    return numbers, facts


class Bounded(Function):
    """Its backward is not linear in the gradient that it receives."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient.clamp(-0.7, 0.7) + gradient.square() * 0.1


BOUNDED: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a node of its own": lambda x, w: (Bounded.apply(x * w).sin() * x, x.sum()),
    "in a row": lambda x, w: (Bounded.apply(Bounded.apply(x).exp() * w).square(), w.cos()),
    "used twice": lambda x, w: (lambda h: (h.sin() + h.cos() * w, h * 2))(Bounded.apply(x * w)),
    "side by side": lambda x, w: (Bounded.apply(x).cos() * Bounded.apply(w).sin(), Bounded.apply(w * x)),
}


@DOORS
@pytest.mark.parametrize("loss", ["each", "sum", "all"])
@pytest.mark.parametrize("kind", BOUNDED)
def test_a_backward_that_is_not_linear_is_given_the_sum(kind: str, loss: str, door: Any) -> None:
    """Also the parts that reach it through gradients that are differentiated themselves."""
    function = BOUNDED[kind]
    numbers, facts = told(door(function), loss)
    expected = told(function, loss)
    assert facts == expected[1]
    torch.testing.assert_close(numbers, expected[0])
    assert not dynamlir.counters()["fallbacks"]


def test_a_backward_that_is_not_linear_has_one_node() -> None:
    """Its neighbours have nodes of their own."""
    compiled = dynamlir.compile(lambda x: Bounded.apply(x.exp()).sin().sum())
    for _ in range(2):
        x = torch.linspace(-1, 1, 4, dtype=torch.float64).requires_grad_()
        result = compiled(x)
        names = [type(node).__name__ for node in (result.grad_fn, result.grad_fn.next_functions[0][0])]
        assert names == ["DynamlirBackward"] * 2
        calls: list[Tensor] = []
        result.grad_fn.next_functions[0][0].register_prehook(lambda given: calls.append(given[0]))  # noqa: B023
        (first,) = torch.autograd.grad(result, x, create_graph=True)
        (result + first.square().sum()).backward()
        assert len(calls) == 2


def test_what_dynamo_does_not_show_may_be_unused() -> None:
    def function(x: Tensor) -> Tensor:
        Partly.apply(x.cos())
        return x.exp() * x

    x = leaf(3)
    found = orders(torch.compile(function, backend="dynamlir"), (x,), 3)
    torch.testing.assert_close(found, orders(function, (x,), 3))


class Kept(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


@DOORS
def test_what_a_function_has_saved_is_detached_in_place(door: Any) -> None:
    """Its backward receives the saved tensor without a history, so the gradients have no history either."""

    def function(x: Tensor) -> Tensor:
        inner = x * 2
        result = Kept.apply(inner) * x
        inner.detach_()
        return result

    with dynamlir.config.patch(on_plain="ignore"):
        found = []
        for call in (door(function), function):
            x = torch.linspace(-1, 1, 4).requires_grad_()
            (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
            found.append([first.detach(), *torch.autograd.grad(first.square().sum(), x, allow_unused=True)])
    torch.testing.assert_close(*found)
