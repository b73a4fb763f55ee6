"""Double backward of graphs of several nodes under ``eager_random`` uses the numbers that forward drew: torch's
operators draw them again from the generator's state of that time. No other numbers change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from both import DOORS
from gradient_programs import Noisy as NoisyBackwards
from torch import Tensor, nn

Program = Callable[..., Sequence[Tensor]]


def chain(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    h = F.dropout(torch.sin(x * w), 0.5)
    apart = F.dropout(x, 0.3)
    return h, F.dropout(torch.exp(h) * w, 0.4).square(), apart**3


def heads(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    trunk = F.dropout(x @ w, 0.5).tanh()
    return F.dropout(trunk.sin(), 0.2).sum(), (trunk * torch.rand_like(trunk)).exp().mean(), trunk.std()


def counted(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    """The number of random numbers that the first operator draws depends on values that no gradient depends on."""
    many = torch.poisson(rates)
    h = F.dropout(x * w, 0.5).tanh()
    return many, h, (h * F.dropout(w, 0.3)).sin()


def counted_alone(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    return torch.poisson(rates * 2), (F.dropout(x, 0.5) * w).sin().sum(), torch.zeros(2)


def whole_numbers(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    h = (x * torch.randint(1, 5, (4,))).sin()
    return h, (h * w * torch.randint(3, (4, 4))).exp(), h[:2] * torch.randperm(4)


class Noisy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        noise = torch.rand_like(x)
        ctx.save_for_backward(x, noise)
        return (x * noise).sin()

    @staticmethod
    def backward(ctx: Any, tangent: Tensor) -> Tensor:
        x, noise = ctx.saved_tensors
        return tangent * (x * noise).cos() * noise


def of_a_user_backwards(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    h = NoisyBackwards.apply(x * w)
    return h, (F.dropout(h, 0.3) * NoisyBackwards.apply(w)).exp(), NoisyBackwards.apply(x)


def of_a_user(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    first = F.dropout(w, 0.5)
    h = Noisy.apply(x * w)
    return h, F.dropout(h, 0.3).exp(), Noisy.apply(first).square()


def written(x: Tensor, w: Tensor, rates: Tensor) -> Sequence[Tensor]:
    mask = torch.empty_like(x)
    mask.bernoulli_(0.6).mul_(2)
    h = (x * mask.clone()).sin()
    mask.uniform_(0, 1)
    return h, (h + mask[0] * w).exp(), (mask[1:] * w[1:]).square()


PROGRAMS: list[Program] = [chain, heads, counted, counted_alone, whole_numbers, of_a_user, of_a_user_backwards, written]


def orders(call: Program, which: Sequence[int], first_inputs: bool) -> list[Any]:
    """Gradients of two orders of some results, each followed by unrelated random numbers."""
    x, w = (torch.randn(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(at)) for at in (1, 2))
    inputs = [(each / 4).requires_grad_() for each in (x, w)]
    rates = torch.rand(40, generator=torch.Generator().manual_seed(3)) * 30
    torch.manual_seed(5)
    results = call(*inputs, rates)
    found: list[Any] = [torch.rand(3), *(result.detach() for result in results)]
    losses = [results[at] for at in which if results[at].requires_grad]
    if not losses:
        return found
    loss = torch.stack([loss.sin().sum() for loss in losses]).sum()
    wanted = inputs if first_inputs else [*inputs, *(result for result in results[:1] if result.requires_grad)]
    gradients = [*torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)]
    found += [*gradients, torch.rand(3)]
    again = torch.stack([each.tanh().sum() for each in gradients if each is not None]).sum()
    if not again.requires_grad:
        return found
    gradients = [*torch.autograd.grad(again, inputs, create_graph=True, allow_unused=True)]
    found += [*gradients, torch.rand(3)]
    again = torch.stack([each.tanh().sum() for each in gradients if each is not None]).sum()
    return [*found, *torch.autograd.grad(again, inputs, allow_unused=True), torch.rand(3)]


def assert_same(found: Sequence[Tensor | None], wanted: Sequence[Tensor | None]) -> None:
    assert [each is None for each in found] == [each is None for each in wanted]
    for ours, eager in zip(found, wanted, strict=True):
        if ours is not None:
            torch.testing.assert_close(ours, eager, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_was_drawn_is_drawn_again(program: Program, door: str) -> None:
    with dynamlir.config.patch(eager_random=True):
        compiled = DOORS[door](program)
        for which in ([0, 1, 2], [1], [0, 2], [2]):
            for first_inputs in (True, False):
                assert_same(orders(compiled, which, first_inputs), orders(program, which, first_inputs))
    assert dynamlir.counters()["fallbacks"] == {}


@pytest.mark.parametrize("door", DOORS)
def test_sizes_that_vary(door: str) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        h = F.dropout(x @ w, 0.5).sin()
        return h, F.dropout(h, 0.3).exp()

    with dynamlir.config.patch(eager_random=True):
        options = {"dynamic": True} if door == "dynamlir.compile" else {"dynamic": True, "backend": "dynamlir"}
        compiled = (dynamlir if door == "dynamlir.compile" else torch).compile(program, **options)
        for rows in (3, 5, 8, 5):
            found = []
            for call in (compiled, program):
                torch.manual_seed(rows)
                x, w = (torch.randn(*sizes, dtype=torch.double, requires_grad=True) for sizes in ((rows, 4), (4, 4)))
                first, second = call(x, w)
                gradients = torch.autograd.grad(second.sum() + first.sum(), (x, w), create_graph=True)
                loss = torch.stack([each.square().sum() for each in gradients]).sum()
                found.append([*gradients, *torch.autograd.grad(loss, (x, w)), torch.rand(2)])
            assert_same(*found)


@pytest.mark.parametrize("door", DOORS)
def test_attention_with_its_weights(door: str) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, dropout=0.4, dtype=torch.double)
    x = torch.randn(3, 2, 8, dtype=torch.double, requires_grad=True)
    with dynamlir.config.patch(eager_random=True):
        compiled = DOORS[door](module)
        found = []
        for call in (compiled, module):
            torch.manual_seed(1)
            out, weights = call(x, x, x)
            (gradient,) = torch.autograd.grad(out.sin().sum() + weights.square().sum(), x, create_graph=True)
            parameters = [x, *module.parameters()]
            found.append([gradient, *torch.autograd.grad(gradient.square().sum(), parameters, allow_unused=True)])
    assert_same(*found)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("eager_random", [False, True])
def test_numbers_that_backward_alone_reads_are_drawn_by_forward(door: str, eager_random: bool) -> None:
    def program(x: Tensor, w: Tensor) -> Sequence[Tensor]:
        h = NoisyBackwards.apply(x)
        return h, h + NoisyBackwards.apply(w)

    with dynamlir.config.patch(eager_random=eager_random):
        compiled = DOORS[door](program)
        for _ in range(2):
            x, w = (torch.randn(8, dtype=torch.double, requires_grad=True) for _ in range(2))
            torch.manual_seed(2)
            result = compiled(x, w)[1]
            after = torch.rand(2)
            first, again = (torch.autograd.grad(result.sum(), (x, w), create_graph=True) for _ in range(2))
            assert_same(again, first)
            noises = [gradient.detach() / leaf.detach().cos() for gradient, leaf in zip(first, (x, w), strict=True)]
            assert not torch.isclose(*noises).any()
            for gradient, leaf, noise in zip(first, (x, w), noises, strict=True):
                (second,) = torch.autograd.grad(gradient.sum(), leaf, retain_graph=True)
                torch.testing.assert_close(second, -leaf.detach().sin() * noise)
            if eager_random:
                torch.manual_seed(2)
                assert_same(noises, [torch.rand(8, dtype=torch.double) for _ in range(2)])
                assert_same([after], [torch.rand(2)])
