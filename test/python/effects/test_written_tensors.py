"""Properties of existing tensors that a function sets (gradients, data, `requires_grad`) are set as in eager."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor
from worlds import alike


def parameter(*values: float) -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.tensor(values))


def told(*tensors: Tensor) -> list[Any]:
    """Everything observable about tensors after a call."""
    return [(t.detach(), t.grad, t.requires_grad, t.is_leaf, t._version) for t in tensors]


X = torch.tensor([1.0, 2.0])


def both(function: Callable[..., Any], *reasons: str, grad: Tensor | None = None, calls: int = 3) -> None:
    """Calls a function with a parameter and a tensor several times, compiled and plain."""

    def world(compile_: Any) -> Any:
        compiled, p, seen = compile_(function), parameter(3.0, 4.0), []
        p.grad = None if grad is None else grad.clone()
        for at in range(calls):
            result = compiled(p, X + at)
            seen.append((shown(result), told(p)))
        return seen

    alike(world, *reasons)


def shown(result: Any) -> Any:
    """A result without the names of autograd nodes."""
    if isinstance(result, Tensor):
        return result.detach().clone(), result.requires_grad
    return tuple(shown(one) for one in result) if isinstance(result, tuple) else result


# -- gradients


def test_a_gradient_is_set_to_what_the_graph_gives() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.grad = x * 2
        return x + 1

    both(function)


def test_a_gradient_is_set_to_a_tensor_that_existed() -> None:
    def world(compile_: Any) -> Any:
        def function(p: Tensor, x: Tensor) -> Any:
            p.grad = x
            return p.grad is x, x * 2

        compiled, p, x = compile_(function), parameter(3.0, 4.0), X.clone()
        return compiled(p, x), p.grad is x

    alike(world)


def test_what_is_returned_is_the_gradient_that_was_set() -> None:
    def world(compile_: Any) -> Any:
        def function(p: Tensor, x: Tensor) -> Any:
            p.grad = x.exp()
            return p.grad

        compiled, p = compile_(function), parameter(3.0, 4.0)
        return [compiled(p, X + at) is p.grad for at in range(3)]

    alike(world)


@pytest.mark.parametrize("grad", [None, X])
def test_a_gradient_is_taken_away(grad: Tensor | None) -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.grad = None
        return p.grad, x + 1

    both(function, grad=grad)


def test_it_is_read_after_it_was_set_and_written_in_place_after_that() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        before = p.grad
        p.grad = x * 2
        p.grad.add_(1)
        p.grad *= 3
        return None if before is None else before + 1, p.grad + x, p.grad is not before

    both(function)
    both(function, grad=X)


def test_one_that_exists_is_written_in_place() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        if p.grad is not None:
            p.grad.zero_()
            p.grad += x
        return x + 1

    both(function, grad=X)


def test_the_last_of_several_counts_in_the_order_of_the_program() -> None:
    class Thing:
        pass

    def world(compile_: Any) -> Any:
        thing: Any = Thing()

        def function(p: Tensor, x: Tensor) -> Any:
            p.grad = x
            thing.first = p.grad
            p.grad = None
            thing.second = p.grad
            p.grad = thing.first * 2
            return x + 1

        compiled, p, x = compile_(function), parameter(3.0, 4.0), X.clone()
        return compiled(p, x), p.grad, thing.first is x, thing.second

    alike(world)


def test_by_setattr_and_getattr() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        setattr(p, "grad", x * 2)  # noqa: B010
        return getattr(p, "grad") + 1, hasattr(p, "grad")  # noqa: B009

    both(function)


def test_one_tensor_under_two_names_at_a_later_call() -> None:
    def function(p: Tensor, q: Tensor, x: Tensor) -> Any:
        p.grad = x * 2
        return q.grad, x + 1

    def world(compile_: Any) -> Any:
        compiled, p, q = compile_(function), parameter(3.0, 4.0), parameter(5.0, 6.0)
        return compiled(p, q, X), compiled(p, p, X), compiled(q, p, X), p.grad, q.grad

    alike(world)


def test_the_attributes_that_c_code_looks_up() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.grad = x * 2
        return operator.attrgetter("grad")(p), x + 1

    both(function)


WRONG: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a number": lambda p, x: 5,
    "itself": lambda p, x: p,
    "another shape": lambda p, x: x[:1] * 2,
    "another type": lambda p, x: x.double(),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_torch_refuses_it_refuses_here(wrong: str) -> None:
    def function(p: Any, x: Tensor) -> Any:
        try:
            p.grad = WRONG[wrong](p, x)
        except (TypeError, RuntimeError) as error:
            return str(error), x + 1
        return x - 1

    both(function, "raised", "tensor-escape")


def test_what_was_written_before_an_exception_stays_written() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.grad = x * 2
        raise ValueError("later")

    def world(compile_: Any) -> Any:
        compiled, p, seen = compile_(function), parameter(3.0, 4.0), []
        for at in range(3):
            with pytest.raises(ValueError, match="later"):
                compiled(p, X + at)
            seen.append(told(p))
        return seen

    alike(world, "raised", "resumed")


def test_attributes_of_the_users_own_are_left_to_python() -> None:
    def function(p: Any, x: Tensor) -> Any:
        p.scale = 2
        return x + 1

    both(function, "tensor-escape")


# -- data


@torch.no_grad()
def test_a_step_by_hand() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.data = p.data - 0.1 * x
        return x.sum()

    both(function)


@torch.no_grad()
def test_averages_of_parameters() -> None:
    def function(averages: list[Tensor], model: torch.nn.Module, x: Tensor) -> Any:
        for average, own in zip(averages, model.parameters()):
            average.data = 0.9 * average.data + 0.1 * own.data
        return model(x)

    def world(compile_: Any) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
        averages = [torch.nn.Parameter(own.detach().clone()) for own in model.parameters()]
        compiled, seen = compile_(function), []
        for at in range(3):
            seen.append((shown(compiled(averages, model, X + at)), [told(one) for one in averages]))
        return seen

    alike(world)


@torch.no_grad()
def test_memory_is_shared_with_what_it_was_set_to() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.data = x
        x.add_(1)
        return x * 2

    def world(compile_: Any) -> Any:
        compiled, p, x = compile_(function), parameter(3.0, 4.0), X.clone()
        compiled(p, x)
        return p.detach().clone(), p.data_ptr() == x.data_ptr(), x.clone()

    alike(world)


@torch.no_grad()
def test_a_tensor_that_is_used_after_its_data_was_set_is_left_to_python() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.data = x * 2
        return p + 1

    both(function, "side-effect")


@torch.no_grad()
def test_data_that_looks_otherwise_is_left_to_python() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.data = torch.cat([x, x])
        return x + 1, p.shape

    both(function, "metadata-mutation")


def test_data_that_is_set_before_a_backward_is_left_to_python() -> None:
    """Autograd saves the leaf itself: backward would read the new data."""

    def function(p: Tensor, x: Tensor) -> Any:
        y = (p * p).sum()
        p.data = x * 2
        return y

    def world(compile_: Any) -> Any:
        compiled, p, seen = compile_(function), parameter(3.0, 4.0), []
        for at in range(3):
            p.grad = None
            compiled(p, X + at).backward()
            seen.append(told(p))
        return seen

    alike(world, "autograd")


# -- whether they require a gradient


@pytest.mark.parametrize("value", [False, True])
def test_it_is_set_and_read(value: bool) -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        again = p.requires_grad_(value)
        return p.requires_grad, again is p, x + 1

    both(function)


def test_it_is_set_by_its_name_and_as_a_keyword() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.requires_grad = not p.requires_grad
        p.requires_grad_(requires_grad=not p.requires_grad)
        p.requires_grad = not p.requires_grad
        return p.requires_grad, x + 1

    both(function)


def test_a_model_is_frozen() -> None:
    def function(model: torch.nn.Module, x: Tensor) -> Any:
        model.requires_grad_(False)
        with torch.no_grad():
            return model(x)

    def world(compile_: Any) -> Any:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 3)
        compiled = compile_(function)
        return [(shown(compiled(model, X)), [told(one) for one in model.parameters()]) for _ in range(3)]

    alike(world)


def test_what_was_computed_before_keeps_its_history() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        y = (p * x).sum()
        p.requires_grad_(False)
        return y

    def world(compile_: Any) -> Any:
        compiled, p, seen = compile_(function), parameter(3.0, 4.0), []
        for at in range(3):
            p.requires_grad_(True)
            p.grad = None
            y = compiled(p, X + at)
            p.requires_grad_(True)
            y.backward()
            seen.append(told(p))
        return seen

    alike(world)


USES: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "its history": lambda p, x: (p * x).sum(),
    "a view": lambda p, x: p.view(2) + 1,
    "its own": lambda p, x: p.add_(1) + 0,
    "its own, later": lambda p, x: (p.add_(1), p.requires_grad_(not p.requires_grad), x * 2)[-1],
    "back again": lambda p, x: (p * x, p.requires_grad_(not p.requires_grad), (p * x).sum())[-1],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("before", [False, True])
def test_a_tensor_that_is_used_otherwise_than_it_was(use: str, before: bool) -> None:
    """Uses that have a history as a result run as plain Python."""

    def function(p: Tensor, x: Tensor) -> Any:
        p.requires_grad_(not before)
        return USES[use](p, x)

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        for at in range(3):
            p = parameter(3.0, 4.0).requires_grad_(before)
            try:
                result = compiled(p, X + at)
                seen.append(shown(result))
                if result.requires_grad:
                    result.sum().backward()
            except RuntimeError as error:
                seen.append(str(error))
            seen.append(told(p))
        return seen

    dynamlir.reset()
    assert plain_words(world(dynamlir.compile)) == plain_words(world(lambda function: function))
    assert {event.reason for event in dynamlir.fallbacks()} <= {"side-effect", "raised", "autograd"}


def plain_words(value: Any) -> Any:
    """The value in a comparable form."""
    if isinstance(value, Tensor):
        return value.tolist()
    return [plain_words(one) for one in value] if isinstance(value, (list, tuple)) else value


def test_a_view_that_was_there_before_is_left_to_python() -> None:
    """Torch refuses writes to a leaf through it."""

    def function(p: Tensor, x: Tensor) -> Any:
        view = p.view(2)
        p.requires_grad_(True)
        view.add_(1)
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, p = compile_(function), X.clone()
        with pytest.raises(RuntimeError, match="leaf"):
            compiled(p, X)
        return told(p)

    alike(world, "raised")


def test_a_part_is_frozen_for_a_while() -> None:
    """As in adversarial training of two networks; all of it is one graph."""

    def function(made: torch.nn.Module, judge: torch.nn.Module, x: Tensor) -> Any:
        judge.requires_grad_(False)
        loss = judge(made(x)).square().sum()
        loss.backward()
        judge.requires_grad_(True)
        return loss

    def world(compile_: Any) -> Any:
        torch.manual_seed(0)
        parts = torch.nn.Linear(2, 3), torch.nn.Linear(3, 2)
        compiled, seen = compile_(function), []
        for at in range(3):
            loss = compiled(*parts, X + at)
            gradients = [own.grad is None for part in parts for own in part.parameters()]
            seen.append(
                (
                    loss.requires_grad,
                    round(loss.item(), 3),
                    gradients,
                    [round(own.grad.sum().item(), 3) for own in parts[0].parameters()],
                )
            )
        return seen

    alike(world)


def test_whole_numbers_and_what_is_no_leaf() -> None:
    def function(p: Tensor, x: Tensor) -> Any:
        p.requires_grad_(not p.requires_grad)
        return x + 1

    def world(compile_: Any) -> Any:
        compiled, seen = compile_(function), []
        for p in (torch.tensor([1, 2]), parameter(1.0) * 2):
            with pytest.raises(RuntimeError) as raised:
                compiled(p, X)
            seen.append(str(raised.value))
        return seen

    alike(world, "tensor-escape")


# -- optimizers


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("set_to_none", [False, True])
def test_gradients_of_an_optimizer_are_cleared(set_to_none: bool, foreach: bool) -> None:
    def function(optimizer: torch.optim.Optimizer, x: Tensor) -> Any:
        optimizer.zero_grad(set_to_none)
        return x + 1

    def world(compile_: Any) -> Any:
        weights = [parameter(1.0, 2.0), parameter(3.0)]
        optimizer = torch.optim.SGD(weights, 0.1, foreach=foreach)
        compiled, seen = compile_(function), []
        for _ in range(3):
            for weight in weights:
                weight.grad = torch.ones_like(weight)
            held = [weight.grad for weight in weights]
            compiled(optimizer, X)
            seen.append((told(*weights), [one is weight.grad for one, weight in zip(held, weights)], held))
        return seen

    alike(world)


def test_gradients_are_cleared_after_a_step() -> None:
    def function(optimizer: torch.optim.Optimizer, x: Tensor) -> Any:
        optimizer.step()
        optimizer.zero_grad()
        return x + 1

    def world(compile_: Any) -> Any:
        weights = [parameter(1.0, 2.0), parameter(3.0)]
        optimizer = torch.optim.SGD(weights, 0.1)
        compiled, seen = compile_(function), []
        for at in range(3):
            for weight in weights:
                weight.grad = torch.ones_like(weight) + at
            compiled(optimizer, X)
            seen.append(told(*weights))
        return seen

    alike(world)
    assert dynamlir.counters()["graphs_compiled"] == 1
