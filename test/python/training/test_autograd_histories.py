"""The history of a tensor: cut in place, written past the version counter, brought along by arguments, freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.utils.checkpoint
from both import check_both
from torch import Tensor


@pytest.fixture(autouse=True)
def fresh(quiet: None) -> None:
    torch.manual_seed(0)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check(fn: Callable[..., Any], *args: Any, expect: str | None = "compiled") -> None:
    check_both(fn, *args, gradients=True, expect=expect)


# -- detach_


def test_detached_in_place() -> None:
    def method(x: Tensor) -> Tensor:
        y = x.exp() + 1
        z = y + x
        y.detach_()
        return z + y * x

    def function(x: Tensor) -> Tensor:
        y = x.exp() + 1
        torch.detach_(y)
        return y * x.sin()

    def overload(x: Tensor) -> Tensor:
        y = x.exp()
        torch.ops.aten.detach_(y)
        return y * x.sin()

    for each in (method, function, overload):
        check(each, leaf(4))


@pytest.mark.parametrize("dynamic", [True, None], ids=["dynamic", "automatic"])
@pytest.mark.parametrize("way", ["method", "function"])
def test_detached_in_place_with_dynamic_sizes(way: str, dynamic: bool | None) -> None:
    def f(x: Tensor, y: Tensor) -> Tensor:
        z = (x * y).sin()
        z.detach_() if way == "method" else torch.detach_(z)
        return z * x

    compiled = dynamlir.compile(f, dynamic=dynamic)
    for count in (4, 5, 6):
        inputs = [torch.randn(count, requires_grad=True) for _ in range(2)]
        found = torch.autograd.grad(compiled(*inputs).sum(), inputs, allow_unused=True)
        expected = torch.autograd.grad(f(*inputs).sum(), inputs, allow_unused=True)
        assert found[1] is expected[1] is None
        torch.testing.assert_close(found[0], expected[0])


def test_what_a_checkpoint_has_read_is_detached_in_place() -> None:
    """The recomputation reads it again, and torch refuses a tensor that has lost its history by then."""

    def f(x: Tensor) -> Tensor:
        y = x * 2
        z = torch.utils.checkpoint.checkpoint(lambda a: a.exp().sin(), y, use_reentrant=False)
        y.detach_()
        return z

    for run in (f, dynamlir.compile(f), torch.compile(f, backend="dynamlir")):
        with pytest.raises(RuntimeError, match="detached in-place"):
            run(leaf(3)).sum().backward()


def test_a_saved_result_is_detached_in_place() -> None:
    """Torch does not unpack it then."""

    def f(x: Tensor) -> Tensor:
        y = x.exp()
        z = y * x
        y.detach_()
        return z

    with pytest.raises(RuntimeError, match="detached in-place"):
        dynamlir.compile(f)(leaf(4)).sum().backward()


def test_detached_in_place_and_returned() -> None:
    def f(x: Tensor) -> Any:
        y = x.exp()
        y.detach_()
        return y, y.sum() * x

    check(f, leaf(3))


def test_detached_in_place_without_grad_mode() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.cos()
        with torch.no_grad():
            y.detach_()
        return y * x

    check(f, leaf(3))


def test_detached_in_place_then_written_without_a_history() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.cos()
        y.detach_()
        y.mul_(3)
        return y * x

    check(f, leaf(3))


def test_detached_in_place_then_written_with_one() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.cos()
        y.detach_()
        y.mul_(x)
        return y * x

    check(f, leaf(3), expect=None)


def test_a_view_is_not_detached_in_place() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.cos()
        y[:2].detach_()
        return y

    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        dynamlir.compile(f)(leaf(3))


def test_an_argument_is_detached_in_place() -> None:
    def f(h: Tensor, x: Tensor) -> Tensor:
        h.detach_()
        return h * x

    for compiled in (f, dynamlir.compile(f)):
        x = torch.ones(3, requires_grad=True)
        h = x * 2
        compiled(h, x).sum().backward()
        assert h.grad_fn is None
        assert x.grad is not None
        assert torch.equal(x.grad, torch.full((3,), 2.0))


# -- .data


def test_a_saved_result_is_written_through_data() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.sigmoid()
        y.data[1:] = 0.5
        return y

    check(f, leaf(4), expect="autograd")


def test_a_saved_operand_is_written_through_data() -> None:
    def f(x: Tensor, scale: Tensor) -> Tensor:
        own = scale * 2
        z = x * own
        own.data.zero_()
        return z

    check(f, leaf(4), torch.randn(4, dtype=torch.float64), expect="autograd")


def test_an_argument_that_is_saved_is_written_through_data() -> None:
    def f(x: Tensor, scale: Tensor) -> Tensor:
        z = x * scale
        scale.data.mul_(3)
        return z

    check(f, leaf(4), torch.randn(4, dtype=torch.float64), expect="autograd")


def test_what_nobody_has_saved_is_written_through_data() -> None:
    def f(x: Tensor) -> Tensor:
        y = x + 1
        y.data.mul_(2)
        return y * x

    check(f, leaf(4))


def test_written_through_data_before_it_is_used() -> None:
    layer = torch.nn.Linear(3, 2).double()

    def f(x: Tensor) -> Tensor:
        layer.weight.data.clamp_(-0.1, 0.1)
        return layer(x).tanh()

    check(f, leaf(4, 3), expect=None)


def test_data_of_a_saved_value_is_returned() -> None:
    def f(x: Tensor) -> Any:
        y = x.exp()
        return (y * x).sum(), y.data

    for compiled in (f, dynamlir.compile(f), torch.compile(f, backend="dynamlir")):
        x = torch.ones(3, requires_grad=True)
        loss, shown = compiled(x)
        shown.zero_()
        loss.backward()
        assert x.grad is not None
        assert torch.equal(x.grad, torch.zeros(3))


# -- values that were written since


def test_a_stale_value_is_refused_as_in_eager() -> None:
    def in_place(x: Tensor) -> Tensor:
        y = x.exp()
        y.add_(1)
        return y

    def through_a_view(x: Tensor) -> Tensor:
        y = x.sin()
        z = y * y
        y[0] = 2
        return z + y

    def without_grad_mode(x: Tensor) -> Tensor:
        y = x.tanh()
        with torch.no_grad():
            y.mul_(2)
        return y * 3

    for each in (in_place, through_a_view, without_grad_mode):
        for door in (dynamlir.compile, lambda f: torch.compile(f, backend="dynamlir")):
            x = leaf(3)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                door(each)(x).sum().backward()


def test_a_write_that_no_gradient_minds() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.exp() + 1
        y.mul_(2)
        y[1:].add_(x[1:])
        return y.relu_()

    check(f, leaf(3))


# -- histories that arguments bring along


def test_gradients_that_come_through_another_argument() -> None:
    def f(h: Tensor, x: Tensor) -> Tensor:
        (g,) = torch.autograd.grad((h * x).sum(), x, create_graph=True)
        return g * h

    compiled = dynamlir.compile(f)
    x = leaf(3)
    h = x.sin()
    for _ in range(2):
        assert torch.equal(compiled(h, x), f(h, x))
    # A leaf brings no history along, then a computed tensor does, then a leaf again.
    for h in (leaf(3), x.cos(), leaf(3)):
        torch.testing.assert_close(compiled(h, x), f(h, x))


def test_gradients_of_inputs_of_backward_that_come_through_another() -> None:
    def f(h: Tensor, x: Tensor) -> None:
        (h * x).sum().backward(inputs=[x], retain_graph=True)

    x = leaf(3)
    for h in (leaf(3), x.sin()):
        grads = []
        for each in (f, dynamlir.compile(f)):
            x.grad = None
            each(h, x)
            grads.append(x.grad)
        torch.testing.assert_close(*grads)


def test_backward_to_what_was_a_leaf() -> None:
    def f(h: Tensor) -> None:
        h.square().sum().backward()

    compiled = dynamlir.compile(f)
    h = leaf(3)
    compiled(h)
    assert h.grad is not None
    assert torch.equal(h.grad, 2 * h.detach())
    x = leaf(3)
    compiled(x * 1)
    assert x.grad is not None
    assert torch.equal(x.grad, 2 * x.detach())


def test_gradients_of_an_argument_with_a_hook() -> None:
    def f(x: Tensor) -> Tensor:
        return torch.autograd.grad(x.sin().sum(), x)[0]

    compiled, x = dynamlir.compile(f), leaf(3)
    compiled(x)
    x.register_hook(lambda grad: grad * 10)
    assert torch.equal(compiled(x), f(x))


def test_the_history_of_the_argument_itself_is_of_no_account() -> None:
    def f(h: Tensor) -> Tensor:
        return torch.autograd.grad(h.sin().sum(), h, create_graph=True)[0]

    x = leaf(3)
    found, expected = (torch.autograd.grad(each(x.exp()).sum(), x) for each in (dynamlir.compile(f), f))
    torch.testing.assert_close(found, expected)
    assert not dynamlir.counters()["fallbacks"]


# -- freed histories


@pytest.mark.parametrize("unused", [False, True])
def test_a_second_walk_is_refused(unused: bool) -> None:
    def twice(x: Tensor, w: Tensor) -> Any:
        y = (x * w).sin().sum()
        first = torch.autograd.grad(y, x)[0]
        return first, torch.autograd.grad(y, [w, x], allow_unused=unused)

    def later(x: Tensor, w: Tensor) -> Tensor:
        y = (x * w).exp()
        torch.autograd.grad(y.sum(), x)
        return y

    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        dynamlir.compile(twice)(leaf(3), leaf(3))
    x, w = leaf(3), leaf(3)
    y = dynamlir.compile(later)(x, w)
    for wanted in (x, w, [w, x]):
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            torch.autograd.grad(y.sum(), wanted, allow_unused=unused)
    assert x.grad is None


def test_a_second_walk_of_what_is_kept() -> None:
    def f(x: Tensor) -> Tensor:
        y = x.sin().sum()
        return torch.autograd.grad(y, x, retain_graph=True)[0] + torch.autograd.grad(y, x)[0]

    x = leaf(3)
    torch.testing.assert_close(dynamlir.compile(f)(x), f(x))
    assert not dynamlir.counters()["fallbacks"]
