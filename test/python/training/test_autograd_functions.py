"""`torch.autograd.Function` in compiled functions, through both doors: forward is captured as operations, and the
user's backward as their derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import each_door
from dynamlir import reasons
from dynamlir.capture import function_calls
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

DOORS = each_door(dynamic=False)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def orders(function: Callable[..., Any], inputs: tuple[Tensor, ...], count: int) -> list[Any]:
    """The results of a function and its gradients up to an order, each of a nonlinear function of the previous ones."""
    outputs = function(*inputs)
    outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
    found: list[Any] = [(output, output.requires_grad) for output in outputs]
    for step in range(count):
        sums = [(output * (output + 1)).sum() for output in outputs if output is not None and output.requires_grad]
        if not sums:
            break
        outputs = list(torch.autograd.grad(sum(sums), inputs, create_graph=step < count - 1, allow_unused=True))
        found += outputs
    return found


def check(door: Any, function: Callable[..., Any], *inputs: Tensor, count: int = 2) -> None:
    compiled = door(function)
    for _ in range(2):
        torch.testing.assert_close(orders(compiled, inputs, count), orders(function, inputs, count))
    assert not reasons.events()


def check_plain(door: Any, function: Callable[..., Any], *inputs: Tensor, reason: str | None = "autograd") -> None:
    """Checks that a function runs as plain Python for this reason, with eager's results."""
    compiled = door(function)
    for _ in range(2):
        torch.testing.assert_close(orders(compiled, inputs, 1), orders(function, inputs, 1))
    assert reason is None or reason in {event.reason for event in reasons.events()}


class Exponential(Function):
    """Saves its result; takes a number and keeps it on the context; its gradient is not that of its forward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        y = x.exp() * scale
        ctx.save_for_backward(y)
        ctx.scale = scale
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return gradient * y * ctx.scale, None


class Linear(Function):
    """The style of `setup_context`, with `needs_input_grad`."""

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        y = x @ weight.t()
        return y if bias is None else y + bias

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        x, weight, bias = inputs
        ctx.save_for_backward(x, weight)
        ctx.has_bias = bias is not None

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        found: list[Tensor | None] = [None, None, None]
        if ctx.needs_input_grad[0]:
            found[0] = gradient @ weight
        if ctx.needs_input_grad[1]:
            found[1] = gradient.t() @ x
        if ctx.has_bias and ctx.needs_input_grad[2]:
            found[2] = gradient.sum(0)
        return tuple(found)


class Reversed(Function):
    """Gradient reversal: returns a view of its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return -2 * gradient


class ReversedItself(Reversed):
    """Returns its input."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x


class Parts(Function):
    """Several results: one without a gradient, one of integers, and one that is not a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Any:
        mask = x > 0
        y, z = x * mask, x.cos()
        ctx.save_for_backward(x, mask)
        ctx.mark_non_differentiable(z)
        return y, z, mask.sum(), x.sin(), "text"

    @staticmethod
    def backward(ctx: Any, y: Tensor, z: Tensor, count: Any, sine: Tensor, text: None) -> Tensor:
        x, mask = ctx.saved_tensors
        return y * mask + 3 * sine * x.cos() + z


@DOORS
def test_saved_result_and_a_number(door: Any) -> None:
    check(door, lambda x: Exponential.apply(x.sin(), 3.0).cos(), leaf(3, 4), count=3)


@DOORS
def test_result_is_an_output(door: Any) -> None:
    check(door, lambda x: (Exponential.apply(x, 2.0), Exponential.apply(x, 3.0)[1:]), leaf(3, 4))


@DOORS
@pytest.mark.parametrize("with_bias", [True, False])
def test_setup_context_and_needs_input_grad(door: Any, with_bias: bool) -> None:
    bias = leaf(3) if with_bias else None
    x = torch.randn(5, 4, dtype=torch.float64)
    check(door, lambda weight: Linear.apply(x, weight, bias).tanh(), leaf(3, 4))
    check(door, lambda x, weight: Linear.apply(x, weight, bias).tanh(), leaf(5, 4), leaf(3, 4))


@DOORS
@pytest.mark.parametrize("function", [Reversed, ReversedItself])
def test_gradient_reversal(door: Any, function: Any) -> None:
    check(door, lambda x, w: function.apply((x @ w).sin()).square(), leaf(3, 4), leaf(4, 2))
    check(door, lambda x: function.apply(x).square(), leaf(3, 4))


@DOORS
def test_several_results(door: Any) -> None:
    def function(x: Tensor) -> Any:
        y, z, count, sine, text = Parts.apply(x)
        assert text == "text"
        return y * 2, z, count, sine * y

    check(door, function, leaf(3, 4))
    check(door, lambda x: Parts.apply(x)[0], leaf(3, 4))
    check(door, lambda x: Parts.apply(x)[1:3], leaf(3, 4))


@DOORS
def test_one_tensor_twice_and_its_views(door: Any) -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            x, y = ctx.saved_tensors
            return gradient * y, 5 * gradient * x

    check(door, lambda x: Product.apply(x, x), leaf(3, 3))
    check(door, lambda x: Product.apply(x, x.t()) + Product.apply(x.sin(), x), leaf(3, 3))


@DOORS
def test_gradients_are_made_to_fit(door: Any) -> None:
    class Sum(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x + y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return gradient.float(), 2 * gradient, None, None

    check(door, lambda x, y: Sum.apply(x, y).square(), leaf(3, 4), leaf(1, 4), count=1)


@DOORS
def test_no_gradient(door: Any) -> None:
    class Nothing(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x * y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return None, gradient

    check(door, lambda x, y: Nothing.apply(x.sin(), y), leaf(3), leaf(3), count=1)


@DOORS
def test_without_gradients(door: Any) -> None:
    def function(x: Tensor) -> Any:
        return Exponential.apply(x, 2.0) + 1

    compiled = door(function)
    x = torch.randn(4)
    torch.testing.assert_close(compiled(x), function(x))
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))
        torch.testing.assert_close(compiled(leaf(4).detach()), compiled(leaf(4).detach()), atol=1e9, rtol=1e9)
    assert not reasons.events()


@DOORS
def test_missing_tangents_are_zeros(door: Any) -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
            return 2 * a + 3 * b

    check(door, lambda x: Two.apply(x)[1], leaf(3), count=1)
    compiled = door(lambda x: Two.apply(x))
    x = leaf(3)
    (found,) = torch.autograd.grad(compiled(x)[0].sum(), x)
    torch.testing.assert_close(found, torch.full_like(x, 2))


@DOORS
def test_without_materialized_tangents(door: Any) -> None:
    class Sine(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor | None) -> Any:
            return None if gradient is None else 2 * gradient * ctx.saved_tensors[0].cos()

    check(door, lambda x: Sine.apply(x).exp(), leaf(3))


def test_without_materialized_tangents_of_several_results() -> None:
    class Two(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Any:
            ctx.set_materialize_grads(False)
            return x.sin(), x.cos()

        @staticmethod
        def backward(ctx: Any, a: Tensor | None, b: Tensor | None) -> Any:
            return b if a is None else a

    check_plain(dynamlir.compile, lambda x: Two.apply(x)[1], leaf(3))


class Once(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].cos()


@DOORS
def test_once_differentiable(door: Any) -> None:
    def function(x: Tensor) -> Any:
        return Once.apply(x * 2).exp()

    check(door, function, leaf(3), count=1)
    x = leaf(3)
    (gradient,) = torch.autograd.grad(door(function)(x).sum(), x, create_graph=True)
    assert gradient.requires_grad
    with pytest.raises(RuntimeError, match="differentiate twice a function that was marked with @once_differentiable"):
        gradient.sum().backward()


@DOORS
def test_backward_with_grad_mode_off(door: Any) -> None:
    """Values computed with grad mode off have no gradients, and eager does not raise. Dynamo does not show where."""

    class Partly(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            with torch.no_grad():
                factor = ctx.saved_tensors[0].cos()
            return gradient * factor

    def function(x: Tensor) -> Tensor:
        return Partly.apply(x * 2).exp()

    check(door, function, leaf(3), count=2 if door is dynamlir.compile else 1)
    if door is not dynamlir.compile:
        x = leaf(3)
        (gradient,) = torch.autograd.grad(door(function)(x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="differentiate twice"):
            gradient.sum().backward()


def test_gradients_within_the_function() -> None:
    def function(x: Tensor) -> Tensor:
        y = Exponential.apply(x, 3.0).sin()
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return gradient * y

    check(dynamlir.compile, function, leaf(3), count=2)


@DOORS
def test_functions_in_functions(door: Any) -> None:
    class Outer(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return Exponential.apply(x, 2.0) + 1

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return Reversed.apply(gradient) * Exponential.apply(ctx.saved_tensors[0] * 0.1, 3.0)

    # Dynamo shows only the values of the inner functions, so these gradients have no gradients.
    check(door, lambda x: Outer.apply(x).sin(), leaf(3), count=2 if door is dynamlir.compile else 1)


@DOORS
def test_modules_that_apply_functions(door: Any) -> None:
    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(4, 4, dtype=torch.float64))

        def forward(self, x: Tensor) -> Tensor:
            return Linear.apply(x, self.weight, None).relu()

    model = torch.nn.Sequential(Layer(), Layer(), Layer())
    compiled = door(model)
    x = leaf(3, 4)
    for _ in range(2):
        wanted = [x, *model.parameters()]
        found = torch.autograd.grad(compiled(x).square().sum(), wanted)
        torch.testing.assert_close(found, torch.autograd.grad(model(x).square().sum(), wanted))
    assert not reasons.events()


@DOORS
def test_what_backward_reads_is_guarded(door: Any) -> None:
    class Scaled(Function):
        factor = 2.0

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * Scaled.factor

    compiled = door(lambda x: Scaled.apply(x))
    x = leaf(3)
    for factor in (2.0, 5.0):
        Scaled.factor = factor
        (gradient,) = torch.autograd.grad(compiled(x).sum(), x)
        torch.testing.assert_close(gradient, torch.full_like(x, factor))
    assert not reasons.events()


@DOORS
def test_integers_among_the_inputs(door: Any) -> None:
    class Row(Function):
        @staticmethod
        def forward(ctx: Any, table: Tensor, index: Tensor) -> Tensor:
            ctx.save_for_backward(index)
            ctx.shape = table.shape
            return table[index]

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            (index,) = ctx.saved_tensors
            return gradient.new_zeros(ctx.shape).index_add(0, index, gradient), None

    index = torch.tensor([1, 0, 1])
    check(door, lambda table: Row.apply(table, index).sin(), leaf(4, 3))


# -- cases that run as plain Python


def test_output_that_shows_an_input() -> None:
    for door in (dynamlir.compile, lambda function: torch.compile(function, backend="dynamlir")):
        check_plain(door, lambda x: Reversed.apply(x), leaf(3))
        reasons.reset()


def test_prints_and_writes_happen_as_often_as_in_eager(capsys: Any) -> None:
    calls: list[str] = []

    class Noisy(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            print("backward")
            return gradient * 2

    class Counting(Noisy):
        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            calls.append("backward")
            return gradient * 2

    for function, reason in ((Noisy, "print"), (Counting, "side-effect")):
        reasons.reset()
        compiled = dynamlir.compile(lambda x, function=function: function.apply(x).sin())
        x = leaf(3)
        for _ in range(3):
            compiled(x).sum().backward()
        assert reason in {event.reason for event in reasons.events()}
    assert calls == ["backward"] * 3
    assert capsys.readouterr().out.count("backward") == 3


@DOORS
def test_written_inputs(door: Any) -> None:
    class Doubled(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return 3 * gradient

    # Dynamo itself breaks the graph there.
    reason = "autograd" if door is dynamlir.compile else None
    check_plain(door, lambda x: Doubled.apply(x.sin()).exp(), leaf(3), reason=reason)


@DOORS
def test_what_is_kept_and_written_later(door: Any) -> None:
    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.x = x
            return x.sin()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient * ctx.x

    def function(x: Tensor, w: Tensor) -> Tensor:
        y = w * 1
        z = Kept.apply(y)
        y.mul_(3)
        return z * x

    check_plain(door, function, leaf(3), leaf(3))


def test_wrong_gradients_raise_as_in_eager() -> None:
    class Wrong(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            return x * y

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return gradient

    class Misshapen(Wrong):
        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            return gradient[:1, None], gradient

    for function, words in ((Wrong, "incorrect number of gradients"), (Misshapen, "invalid gradient")):
        compiled = dynamlir.compile(lambda x, y, function=function: function.apply(x, y))
        with pytest.raises(RuntimeError, match=words):
            compiled(leaf(3), leaf(3)).sum().backward()


def test_a_backward_that_raises_raises_in_backward() -> None:
    class Raising(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Any:
            raise ValueError("mine")

    y = dynamlir.compile(lambda x: Raising.apply(x))(leaf(3))
    with pytest.raises(ValueError, match="mine"):
        y.sum().backward()


def test_the_context_is_kept() -> None:
    kept: list[Any] = []

    class Kept(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            kept.append(ctx)
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            return gradient

    check_plain(dynamlir.compile, lambda x: Kept.apply(x), leaf(3), reason="output")
    assert len(kept) == 4 and not any(isinstance(ctx, function_calls.FunctionContext) for ctx in kept)


def test_other_backends_get_no_such_graph() -> None:
    compiled = dynamlir.compile(lambda x: Exponential.apply(x, 2.0), backend="eager")
    x = leaf(3)
    (found,) = torch.autograd.grad(compiled(x).sum(), x)
    (expected,) = torch.autograd.grad(Exponential.apply(x, 2.0).sum(), x)
    torch.testing.assert_close(found, expected)


class Signs(Function):
    """A function whose result has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        signs = x > 0
        ctx.mark_non_differentiable(signs)
        return signs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return (gradient * 0).double()


def test_no_result_is_differentiable() -> None:
    """Dynamo raises its own error for these."""
    check(dynamlir.compile, lambda x: x.masked_fill(Signs.apply(x), 0.0).sin(), leaf(3, 4))
