"""Gradients of users' operators registered with `torch.library`: the operator is called, its backward compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import numpy as np
import pytest
import torch
from both import each_door
from dynamlir import reasons
from torch import Tensor

DOORS = each_door(fullgraph=True)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@torch.library.custom_op("dynamlir_grad::sine", mutates_args=())
def sine(x: Tensor, scale: float = 1.0) -> Tensor:
    # Numpy must not be traced into.
    return torch.from_numpy(np.sin(x.numpy(force=True)) * scale)


@sine.register_fake
def _(x: Tensor, scale: float = 1.0) -> Tensor:
    return torch.empty_like(x)


def _keep_sine(ctx: Any, inputs: Any, output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def _sine_backward(ctx: Any, gradient: Tensor) -> Any:
    return gradient * ctx.saved_tensors[0].cos() * ctx.scale, None


sine.register_autograd(_sine_backward, setup_context=_keep_sine)


@torch.library.custom_op("dynamlir_grad::without", mutates_args=())
def without(x: Tensor) -> Tensor:
    return x * 2


@without.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


LIBRARY = torch.library.Library("dynamlir_grad", "FRAGMENT")
LIBRARY.define("both(Tensor x, Tensor y, *, bool swapped=False) -> (Tensor, Tensor)")
LIBRARY.define("total(Tensor[] xs) -> Tensor")


@torch.library.impl(LIBRARY, "both", "CPU")
def _both(x: Tensor, y: Tensor, swapped: bool = False) -> Any:
    return (x + y, x * y) if swapped else (x * y, x + y)


@torch.library.register_fake("dynamlir_grad::both", lib=LIBRARY)
def _both_fake(x: Tensor, y: Tensor, swapped: bool = False) -> Any:
    return torch.empty_like(x), torch.empty_like(x)


def _keep_both(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)
    ctx.swapped = keyword_only_inputs["swapped"]


def _both_backward(ctx: Any, a: Tensor, b: Tensor) -> Any:
    x, y = ctx.saved_tensors
    product, sum_ = (b, a) if ctx.swapped else (a, b)
    # A user's operator in the backward of another one.
    return product * y + sum_, product * x + sum_ * sine(x, 0.0) + sum_


torch.library.register_autograd("dynamlir_grad::both", _both_backward, setup_context=_keep_both, lib=LIBRARY)


@torch.library.impl(LIBRARY, "total", "CPU")
def _total(xs: list[Tensor]) -> Tensor:
    return torch.stack(xs).sum(0)


@torch.library.register_fake("dynamlir_grad::total", lib=LIBRARY)
def _total_fake(xs: list[Tensor]) -> Tensor:
    return torch.empty_like(xs[0])


def _keep_total(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.count = len(inputs[0])


def _total_backward(ctx: Any, gradient: Tensor) -> Any:
    return ([gradient * (at + 1) for at in range(ctx.count)],)


torch.library.register_autograd("dynamlir_grad::total", _total_backward, setup_context=_keep_total, lib=LIBRARY)


def orders(function: Callable[..., Any], inputs: tuple[Tensor, ...], count: int) -> list[Any]:
    outputs = function(*inputs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    found: list[Any] = [(output, output.requires_grad) for output in outputs]
    for step in range(count):
        loss: Any = sum((output * (output + 1)).sum() for output in outputs if output is not None)
        outputs = list(torch.autograd.grad(loss, inputs, create_graph=step < count - 1, allow_unused=True))
        found += outputs
    return found


def check(door: Any, function: Callable[..., Any], *inputs: Tensor, count: int = 2) -> None:
    compiled = door(function)
    for _ in range(2):
        torch.testing.assert_close(orders(compiled, inputs, count), orders(function, inputs, count))
    assert not reasons.events()
    assert dynamlir.last_compile()


@DOORS
def test_custom_op(door: Any) -> None:
    check(door, lambda x, w: sine(x.exp(), 3.0) * w, leaf(3, 4), leaf(4))
    check(door, lambda x: sine(sine(x)), leaf(3, 4))


@DOORS
def test_operator_of_a_library(door: Any) -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        a, b = torch.ops.dynamlir_grad.both(x.sin(), y)
        c, d = torch.ops.dynamlir_grad.both(a, b, swapped=True)
        return c.cos() * d

    check(door, function, leaf(3), leaf(3))
    check(door, lambda x, y: torch.ops.dynamlir_grad.both(x, y)[1], leaf(3), leaf(3))


@DOORS
def test_list_of_tensors(door: Any) -> None:
    check(door, lambda x, y: torch.ops.dynamlir_grad.total([x.sin(), y, x]).exp(), leaf(3), leaf(3), count=1)


@DOORS
def test_only_some_operands_want_gradients(door: Any) -> None:
    y = torch.randn(3, dtype=torch.float64)
    check(door, lambda x: torch.ops.dynamlir_grad.both(x, y)[0], leaf(3))
    check(door, lambda x: sine(y) * x, leaf(3))


@DOORS
def test_without_gradients(door: Any) -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = sine(x)
        return y * x + sine(x.detach())

    check(door, function, leaf(3), count=1)


@DOORS
def test_in_a_function_of_the_users(door: Any) -> None:
    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return sine(x)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * sine(ctx.saved_tensors[0] + np.pi / 2)

    check(door, lambda x: Sine.apply(x * 2).exp(), leaf(3), count=2 if door is dynamlir.compile else 1)


@DOORS
def test_operator_without_a_formula(door: Any) -> None:
    x = leaf(3)
    for _ in range(2):
        y = door(lambda x: without(x) + x)(x)
        assert y.requires_grad
        with pytest.raises(RuntimeError, match="no autograd formula was registered"):
            y.sum().backward()
    assert {event.reason for event in reasons.events()} == {"autograd"}


def test_a_function_beneath_an_operator_runs_plain() -> None:
    """An operator whose autograd kernel applies a function: the recorded node is not the derivative of an operator."""

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * 5

    LIBRARY.define("doubled(Tensor x) -> Tensor")
    LIBRARY.impl("doubled", Double.apply, "AutogradCPU")
    LIBRARY.impl("doubled", lambda x: x * 2, "CPU")

    def function(x: Tensor, y: Tensor) -> Any:
        return torch.ops.dynamlir_grad.doubled(x) * y

    compiled = dynamlir.compile(function)
    inputs = (leaf(3), leaf(3))
    torch.testing.assert_close(orders(compiled, inputs, 1), orders(function, inputs, 1))
    assert {event.reason for event in reasons.events()} == {"autograd"}


@DOORS
@pytest.mark.parametrize("part", ["all", "formula", "kernel"])
def test_an_operator_that_is_defined_again(door: Any, part: str) -> None:
    """As with a notebook cell that runs twice."""

    def define(factor: float) -> None:
        library = torch.library.Library("dynamlir_again", "FRAGMENT")
        libraries.append(library)
        library.define("scaled(Tensor x) -> Tensor")
        if part == "kernel":
            library.impl("scaled", lambda x: x * factor, "CompositeExplicitAutograd")
            backward = lambda ctx, gradient: gradient * 3  # noqa: E731
        else:
            library.impl("scaled", lambda x: x * (factor if part == "all" else 3), "CPU")
            torch.library.register_fake("dynamlir_again::scaled", torch.empty_like, lib=library)
            backward = lambda ctx, gradient: gradient * factor  # noqa: E731
        torch.library.register_autograd("dynamlir_again::scaled", backward, lib=library)

    libraries: list[Any] = []
    found, expected = [], []
    for factor in (1.0, 2.0, 5.0):
        define(factor)
        for called, into in ((door(lambda x: torch.ops.dynamlir_again.scaled(x) * 2), found), (None, expected)):
            x = leaf(3).detach().fill_(2.0).requires_grad_()
            y = (called or (lambda x: torch.ops.dynamlir_again.scaled(x) * 2))(x)
            y.sum().backward()
            into.append((y.detach(), x.grad))
        libraries.pop()._destroy()
    torch.testing.assert_close(found, expected)
    assert not torch.equal(expected[0][part != "kernel"], expected[1][part != "kernel"])
