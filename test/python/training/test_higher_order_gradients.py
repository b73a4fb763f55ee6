"""Gradients of gradients (``create_graph=True``) of compiled graphs are compiled too, each order when requested."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import each_door
from dynamlir import reasons
from torch import Tensor

DOORS = each_door(dynamic=False)


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def orders(function: Callable[..., Any], inputs: tuple[Tensor, ...], count: int) -> list[Tensor | None]:
    """All gradients up to an order, each of a nonlinear function of the previous ones."""
    outputs = function(*inputs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    found: list[Tensor | None] = []
    for step in range(count):
        loss = torch.stack([(output * (output + 1)).sum() for output in outputs if output.requires_grad]).sum()
        gradients = torch.autograd.grad(loss, inputs, create_graph=step < count - 1, allow_unused=True)
        found += gradients
        outputs = [gradient for gradient in gradients if gradient is not None]
    return found


def check(door: Any, function: Callable[..., Any], *inputs: Tensor, count: int = 3) -> None:
    compiled = door(function)
    for _ in range(2):
        torch.testing.assert_close(orders(compiled, inputs, count), orders(function, inputs, count))
    assert not reasons.events()


def perceptron(x: Tensor, w: Tensor, b: Tensor, v: Tensor) -> Tensor:
    return torch.tanh(x @ w + b) @ v


@DOORS
@pytest.mark.parametrize(
    "function",
    [torch.sin, torch.nn.functional.gelu, torch.nn.functional.silu, lambda x: torch.softmax(x, -1), torch.sigmoid],
    ids=["sin", "gelu", "silu", "softmax", "sigmoid"],
)
def test_pointwise_and_rows_three_times(door: Any, function: Callable[..., Any]) -> None:
    check(door, function, leaf(3, 5))


@DOORS
def test_products_three_times(door: Any) -> None:
    check(door, perceptron, leaf(3, 4), leaf(4, 5), leaf(5), leaf(5, 2))


@DOORS
def test_convolutions_twice(door: Any) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        return torch.tanh(torch.nn.functional.conv2d(x, w, padding=1))

    check(door, function, leaf(2, 3, 6, 6), leaf(4, 3, 3, 3), count=2)


@DOORS
def test_norms_twice(door: Any) -> None:
    def function(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = torch.nn.functional.layer_norm(x, (6,), w, b)
        return torch.nn.functional.batch_norm(y, None, None, training=True)

    check(door, function, leaf(4, 6), leaf(6), leaf(6), count=2)


@DOORS
def test_views_and_writes(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin()
        y[1:].mul_(2)
        y.t().add_(x.t() * x.t())
        return y.reshape(-1)[::2] * x.flatten()[::2]

    check(door, function, leaf(4, 3))


@DOORS
def test_several_outputs_of_which_some_are_not_used(door: Any) -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return x.sin() * w, w.exp(), x.detach()

    compiled = door(function)
    x, w = leaf(4), leaf(4)

    def second(fn: Callable[..., Any]) -> tuple[Tensor | None, ...]:
        outputs = fn(x, w)
        # The tangent of the second output is undefined.
        gx, gw = torch.autograd.grad(outputs[0].sum(), (x, w), create_graph=True)
        return (gx, gw, *torch.autograd.grad((gx * gw).sum(), (x, w)))

    for _ in range(2):
        torch.testing.assert_close(second(compiled), second(function))
    gradients = torch.autograd.grad(compiled(x, w)[1].sum(), (x, w), create_graph=True, allow_unused=True)
    assert gradients[0] is None


@DOORS
def test_tangents_laid_out_otherwise(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return x.sin() * x

    compiled = door(function)
    x, w = leaf(4, 3), leaf(3, 4)

    def second(fn: Callable[..., Any]) -> tuple[Tensor, ...]:
        (g,) = torch.autograd.grad(fn(x), x, (w * w).t(), create_graph=True)
        return torch.autograd.grad(g.square().sum(), (x, w))

    torch.testing.assert_close(second(compiled), second(function))


@DOORS
def test_inputs_that_are_made_of_others(door: Any) -> None:
    """Gradients continue into the computation of the inputs, also when nothing else holds that any more."""
    compiled = door(lambda x: (x + 1).tanh())
    z = leaf(4)

    def second(fn: Callable[..., Any]) -> tuple[Tensor, ...]:
        (g,) = torch.autograd.grad(fn(z * 3).sum(), z, create_graph=True)
        return torch.autograd.grad(g.square().sum(), z)

    torch.testing.assert_close(second(compiled), second(lambda x: (x + 1).tanh()))


@DOORS
def test_hessian_by_rows(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        return (x.sin() * x.flip(0)).sum()

    x = leaf(5)
    compiled = door(function)
    torch.testing.assert_close(
        torch.autograd.functional.hessian(compiled, x.detach()), torch.autograd.functional.hessian(function, x.detach())
    )


@DOORS
def test_numeric_check_of_the_second_order(door: Any) -> None:
    compiled = door(lambda x, w: torch.tanh(x @ w).exp())
    assert torch.autograd.gradgradcheck(compiled, (leaf(2, 3), leaf(3, 2)))


@DOORS
def test_an_operator_without_a_second_derivative_says_so_in_torchs_words(door: Any) -> None:
    def function(q: Tensor) -> Tensor:
        return torch.nn.functional.scaled_dot_product_attention(q, q, q)

    q = leaf(1, 2, 8, 8)
    messages = []
    for fn in (function, door(function)):
        (g,) = torch.autograd.grad(fn(q).sum(), q, create_graph=True)
        with pytest.raises(RuntimeError) as caught:
            torch.autograd.grad(g.sum(), q)
        messages.append(str(caught.value))
    assert messages[0] == messages[1] and "is not implemented" in messages[0]


# -- objects held until backward


@DOORS
def test_inputs_that_nobody_saves_are_let_go_with_the_graph(door: Any) -> None:
    compiled = door(lambda x: (x + 1).tanh())
    compiled(leaf(4)).sum().backward()

    def released(**options: Any) -> bool:
        x = leaf(4) * 2
        reference = weakref.ref(x)
        y = compiled(x).sum()
        del x
        y.backward(**options)
        gc.collect()
        return reference() is None

    assert released()
    kept = leaf(4) * 2
    y = compiled(kept).sum()
    y.backward(retain_graph=True)
    y.backward(create_graph=True)


@DOORS
def test_a_written_input_is_an_error_of_the_second_order_alone(door: Any) -> None:
    compiled = door(lambda x, b: (x + b).tanh())
    x, b = leaf(4), torch.randn(4, dtype=torch.float64)
    y = compiled(x, b)
    b.add_(1)
    torch.autograd.grad(y.sum(), x, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(y.sum(), x, create_graph=True)


@DOORS
def test_a_freed_graph_is_freed(door: Any) -> None:
    compiled = door(lambda x: x.sin())
    x = leaf(4)
    y = compiled(x)
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward(create_graph=True)


# -- applications


@DOORS
def test_gradient_penalty(door: Any) -> None:
    """WGAN-GP: the norm of a critic's gradient with respect to its input is a part of the loss."""
    critic = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    compiled = door(critic)
    x = leaf(5, 6)

    def penalty(model: Any) -> list[Tensor]:
        critic.zero_grad()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        ((gradient.norm(2, dim=1) - 1) ** 2).mean().backward()
        return [p.grad.clone() for p in critic.parameters() if p.grad is not None]

    for _ in range(2):
        torch.testing.assert_close(penalty(compiled), penalty(critic))
    assert not reasons.events()


@DOORS
def test_inner_loop_of_meta_learning(door: Any) -> None:
    """MAML: a gradient descent step inside the loss, with weights passed as tensors."""

    def loss(x: Tensor, y: Tensor, w: Tensor, b: Tensor, v: Tensor) -> Tensor:
        return (perceptron(x, w, b, v) - y).square().mean()

    weights = (leaf(4, 8), leaf(8), leaf(8, 1))
    x, y = torch.randn(10, 4).double(), torch.randn(10, 1).double()

    def outer(fn: Callable[..., Tensor]) -> tuple[Tensor, ...]:
        current: tuple[Tensor, ...] = weights
        for _ in range(3):
            gradients = torch.autograd.grad(fn(x, y, *current), current, create_graph=True)
            current = tuple(weight - 0.1 * gradient for weight, gradient in zip(current, gradients))
        return torch.autograd.grad(fn(x, y, *current), weights)

    compiled = door(loss)
    for _ in range(2):
        torch.testing.assert_close(outer(compiled), outer(loss))
    assert not reasons.events()


@DOORS
def test_third_derivatives_of_a_network(door: Any) -> None:
    """A physics-informed loss: u_t + u u_x + u_xxx of a network u(t, x), and its gradients for the weights."""
    network = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    compiled = door(network)
    points = leaf(7, 2)

    def residual(model: Any) -> list[Tensor]:
        network.zero_grad()
        u = model(points)
        first = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 1].sum(), points, create_graph=True)[0]
        third = torch.autograd.grad(second[:, 1].sum(), points, create_graph=True)[0]
        (first[:, 0] + u[:, 0] * first[:, 1] + third[:, 1]).square().mean().backward()
        return [p.grad.clone() for p in network.parameters() if p.grad is not None]

    for _ in range(2):
        torch.testing.assert_close(residual(compiled), residual(network))
    assert not reasons.events()


@DOORS
@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.fft.rfft(x).abs() ** 2,
        lambda x: torch.fft.irfft(torch.fft.rfft(x)) ** 2,
        lambda x: torch.fft.rfft(x).abs()[:2] ** 2 + x[:2] ** 3,
    ],
    ids=["rfft", "irfft", "beside others"],
)
def test_formulas_that_write_complex_numbers(door: Any, function: Callable[..., Any]) -> None:
    """Such formulas do not have generated gradients: torch differentiates them, and nothing is lost."""
    compiled = door(function)
    x = torch.tensor([0.5, -1, 2, 0.3], dtype=torch.float64, requires_grad=True)

    def second(fn: Callable[..., Any]) -> Tensor:
        (g,) = torch.autograd.grad(fn(x).sum(), x, create_graph=True)
        assert g.requires_grad
        return torch.autograd.grad((g**2).sum() + (x**2).sum(), x)[0]

    torch.testing.assert_close(second(compiled), second(function))


def test_dynamo_does_not_look_at_our_code() -> None:
    """A frame that TorchDynamo broke requests gradients: the code that computes them is not the user's."""
    network = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))

    def step(call: Callable[..., torch.Tensor], x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        scores = call(x)
        torch._dynamo.graph_break()
        (gradient,) = torch.autograd.grad(scores.sum(), x, create_graph=True)
        torch._dynamo.graph_break()
        return torch.autograd.grad(gradient.square().sum(), network[0].parameters(), allow_unused=True)

    frames = {}
    for backend in ("eager", "dynamlir"):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        compiled, stepping = torch.compile(network, backend=backend), torch.compile(step, backend=backend)
        for _ in range(3):
            x = torch.randn(4, 3, requires_grad=True)
            torch.testing.assert_close(stepping(compiled, x), step(network, x))
        frames[backend] = dict(torch._dynamo.utils.counters["frames"])
    assert frames["dynamlir"] == frames["eager"]


@pytest.mark.parametrize("value", [(1,), ("two", None), [], ()], ids=repr)
@pytest.mark.parametrize("create_graph", [False, True])
def test_what_a_program_puts_into_a_node_is_no_tensor(value: Any, create_graph: bool) -> None:
    """The attribute is ours, but nothing keeps a program from setting it: an error, and no crash."""
    compiled = dynamlir.compile(lambda x: x.sum(0) * 2, dynamic=True)
    x = leaf(3, 5)
    y = compiled(x)
    assert isinstance(y.grad_fn._lasting[0], Tensor)
    y.grad_fn._lasting = value
    with pytest.raises((TypeError, RuntimeError)):
        torch.autograd.grad(y.sum(), x, create_graph=create_graph)
    # The next call is one like any other.
    (gradient,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=create_graph)
    torch.testing.assert_close(gradient, torch.full_like(x, 2))
