"""Operands for which a custom autograd Function gives no gradient: autograd visits the nodes that produced them all the
same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from both import each_door
from torch import Tensor

Program = Callable[..., Sequence[Tensor]]


def leaf(*sizes: int, seed: int = 1) -> Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def leaves() -> tuple[Tensor, Tensor]:
    return leaf(3, 3), leaf(3, 3, seed=2)


class Nothing(torch.autograd.Function):
    """Gives its operand no gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> None:
        return None


@each_door()
def test_a_node_without_gradients_leads_to_what_its_result_is_made_of(door: Callable[..., Any]) -> None:
    """Autograd also visits the node of an operand that receives no gradient, and frees the tensors saved there."""

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return Nothing.apply(x).tanh(), x.sin(), y.exp()

    told = []
    for run in (function, door(function)):
        x, y = (torch.randn(3, requires_grad=True) for _ in "xy")
        results = run(x, y * y)
        loss, _, other = results
        loss.sum().backward()
        other.sum().backward()
        told.append((x.grad, None if y.grad is None else y.grad.shape))
        results = run(x * x, y)
        results[0].sum().backward()
        with pytest.raises(RuntimeError, match="a second time"):
            results[1].sum().backward()
    assert told[0] == told[1]


class First(torch.autograd.Function):
    """Gives a gradient to its first operand only."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(b)
        return a * b

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, None]:
        (b,) = ctx.saved_tensors
        return g * b, None


class Zeros(torch.autograd.Function):
    """Receives zeros if its result has no gradient, and adds one to its operand's gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2 + 1


def beside_a_gradient(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    return First.apply(x, made), made.sin()


def of_a_result(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    return First.apply(x, made), made


def of_a_view(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    part = made[:2]
    return First.apply(x[:2], part), part, made.sin()


def of_arguments(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return First.apply(x, w), x.sin()


def twice_without(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    return First.apply(x, made), First.apply(x.sin(), made), made.cos()


def twice_nothing(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    return First.apply(x, made), First.apply(x.sin(), made)


def passed_on(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    return First.apply(x, made.tanh()), made * 3


def by_zeros(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    made = w.exp()
    taken = Zeros.apply(made)
    return First.apply(x, taken), taken.sin(), made.cos()


def by_zeros_alone(x: Tensor, w: Tensor) -> Sequence[Tensor]:
    return First.apply(x, Zeros.apply(w.exp())), First.apply(x.sin(), w)


WITHOUT = [
    beside_a_gradient,
    of_a_result,
    of_a_view,
    of_arguments,
    twice_without,
    twice_nothing,
    passed_on,
    by_zeros,
    by_zeros_alone,
]


@each_door()
@pytest.mark.parametrize("of_leaves", (True, False), ids=("leaves", "made"))
@pytest.mark.parametrize("program", WITHOUT)
def test_an_operand_without_a_gradient_is_visited(door: Callable[..., Any], program: Program, of_leaves: bool) -> None:
    """If a custom Function returns None for one operand and a gradient for another, autograd visits the nodes of both:
    hooks run when eager's do, and a backward through each result succeeds or fails after the other as in eager.
    """

    def told(run: Callable[..., Any], order: Sequence[int]) -> list[Any]:
        x, w = leaves()
        seen: list[Any] = []
        given = (x, w) if of_leaves else (x * x, w.sin())
        given[1].register_hook(lambda gradient: seen.append(gradient is None))
        results = run(*given)
        for at, result in enumerate(results):
            result.register_hook(
                lambda gradient, at=at: seen.append((at, None if gradient is None else gradient.sum()))
            )
        for at in order:
            try:
                results[at].sum().backward()
            except RuntimeError as error:
                assert "a second time" in str(error)
                seen.append(-1)
            seen.append([None if tensor.grad is None else tensor.grad.clone() for tensor in (x, w)])
        return seen

    compiled = door(program)
    count = len(program(*leaves()))
    for order in itertools.permutations(range(count)):
        torch.testing.assert_close(told(compiled, order), told(program, order))


@each_door()
@pytest.mark.parametrize("program", WITHOUT)
def test_beside_an_operand_without_a_gradient_there_are_second_ones(door: Callable[..., Any], program: Program) -> None:
    compiled = door(program)
    found = []
    for run in (program, compiled):
        x, w = leaves()
        loss = sum((result.sum() for result in run(x, w)), torch.zeros(()))
        first = torch.autograd.grad(loss, (x, w), create_graph=True, allow_unused=True)
        asked = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
        second = (
            torch.autograd.grad(torch.stack([one.square().sum() for one in asked]).sum(), (x, w), allow_unused=True)
            if asked
            else ()
        )
        found.append((first, second))
    torch.testing.assert_close(found[1], found[0])
