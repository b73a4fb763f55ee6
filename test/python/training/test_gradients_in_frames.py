"""`torch.autograd.grad` inside a compiled function: the engine's operations are recorded, and all is one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import reasons, reports
from torch import Tensor


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.manual_seed(0)
    reasons.reset()
    reports.reset()


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def check(function: Callable[..., Any], *inputs: Tensor, whole: bool = True) -> None:
    """Checks three times for the same results, and for the gradients of those that have some."""
    compiled = dynamlir.compile(function)
    for _ in range(3):
        found, expected = compiled(*inputs), function(*inputs)
        torch.testing.assert_close(found, expected)
        pairs = zip(flat(found), flat(expected))
        for one, other in pairs:
            assert one.requires_grad == other.requires_grad
            if other.requires_grad:
                got = torch.autograd.grad(one.square().sum(), inputs, allow_unused=True, retain_graph=True)
                wanted = torch.autograd.grad(other.square().sum(), inputs, allow_unused=True, retain_graph=True)
                torch.testing.assert_close(got, wanted)
    assert bool(reasons.events()) != whole


def flat(value: Any) -> list[Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, Tensor)]


def test_a_gradient_alone() -> None:
    check(lambda x: torch.autograd.grad(x.sin().sum(), x)[0], leaf(4))


def test_a_gradient_that_is_differentiated() -> None:
    check(lambda x: torch.autograd.grad(x.sin().sum(), x, create_graph=True)[0], leaf(4))


def test_several_inputs_of_which_one_is_not_used() -> None:
    def function(x: Tensor, w: Tensor, v: Tensor) -> Any:
        gradients = torch.autograd.grad((x * w).sum(), (x, w, v), create_graph=True, allow_unused=True)
        assert gradients[2] is None
        return gradients[0] * gradients[1]

    check(function, leaf(4), leaf(4), leaf(4))


def test_tangents_of_ones_own() -> None:
    check(lambda x, t: torch.autograd.grad(x.exp(), x, t.sin(), create_graph=True)[0], leaf(4), leaf(4))


def test_of_what_was_made_in_the_frame() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        (gradient,) = torch.autograd.grad((y.sin() * x).sum(), y, create_graph=True)
        return gradient * y

    check(function, leaf(4))


def test_of_an_input_that_is_no_leaf() -> None:
    x = leaf(4)
    function: Callable[..., Any] = lambda y: torch.autograd.grad(y.tanh().sum(), y, create_graph=True)[0]  # noqa: E731
    compiled = dynamlir.compile(function)
    for _ in range(2):
        found, expected = (torch.autograd.grad(fn(x * 3).square().sum(), x) for fn in (compiled, function))
        torch.testing.assert_close(found, expected)
    assert not reasons.events()


def test_gradient_penalty() -> None:
    critic = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()

    def penalty(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
        return ((gradient.norm(2, dim=1) - 1) ** 2).mean()

    x = leaf(5, 6)
    compiled = dynamlir.compile(penalty)
    for _ in range(2):
        found = torch.autograd.grad(compiled(x), tuple(critic.parameters())[:3])
        torch.testing.assert_close(found, torch.autograd.grad(penalty(x), tuple(critic.parameters())[:3]))
    assert not reasons.events()


def test_residual_of_an_equation_with_equal_layers() -> None:
    """Third derivatives of a network with equal layers, which are interpreted because gradients are taken."""
    layers: list[torch.nn.Module] = [torch.nn.Linear(2, 8), torch.nn.Tanh()]
    for _ in range(4):
        layers += [torch.nn.Linear(8, 8), torch.nn.Tanh()]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(8, 1)).double()

    def residual(points: Tensor) -> Tensor:
        u = network(points)
        first = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
        second = torch.autograd.grad(first[:, 1].sum(), points, create_graph=True)[0]
        third = torch.autograd.grad(second[:, 1].sum(), points, create_graph=True)[0]
        return (first[:, 0] + u[:, 0] * first[:, 1] + third[:, 1]).square().mean()

    points = leaf(7, 2)
    compiled = dynamlir.compile(residual)
    weights = [p for p in network.parameters() if p.dim() == 2]
    for _ in range(2):
        found = torch.autograd.grad(compiled(points), weights)
        torch.testing.assert_close(found, torch.autograd.grad(residual(points), weights))
    assert not reasons.events()


def test_forces_of_an_energy() -> None:
    """A module whose forward returns minus the gradient of what it computes."""

    class Potential(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1)).double()

        def forward(self, positions: Tensor) -> tuple[Tensor, Tensor]:
            energy = self.inner(positions).sum()
            (gradient,) = torch.autograd.grad(energy, positions, create_graph=self.training, retain_graph=True)
            return energy, -gradient

    check(Potential(), leaf(5, 3))
    potential = Potential().eval()
    compiled, positions = dynamlir.compile(potential), leaf(5, 3)
    for _ in range(2):
        torch.testing.assert_close(compiled(positions)[1], potential(positions)[1])
    assert not reasons.events()


def test_what_the_frame_detaches_stays_detached() -> None:
    """Autograd also detaches the tensors that it saves, and undoes that later."""

    def function(x: Tensor, z: Tensor) -> Tensor:
        y = x.exp()
        kept = y.detach()
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        written = y.detach().clone()
        written.add_(z)
        return gradient * kept * written

    check(function, leaf(4), leaf(4))


def test_a_detached_tensor_that_is_written_with_a_gradient() -> None:
    def function(x: Tensor, z: Tensor) -> Tensor:
        y = x * 2
        detached = y.detach()
        detached.add_(z)
        return detached * 3

    compiled = dynamlir.compile(function)
    x, z = leaf(4), leaf(4)
    for _ in range(2):
        wanted = torch.autograd.grad(function(x, z).square().sum(), (x, z), allow_unused=True)
        torch.testing.assert_close(
            torch.autograd.grad(compiled(x, z).square().sum(), (x, z), allow_unused=True), wanted
        )


def test_errors_are_torchs() -> None:
    def function(x: Tensor) -> Any:
        return torch.autograd.grad(x.detach().sum(), x)

    compiled = dynamlir.compile(function)
    for fn in (function, compiled):
        with pytest.raises(RuntimeError, match="does not require grad"):
            fn(leaf(3))


def test_under_no_grad() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x.sin()
        with torch.enable_grad():
            return torch.autograd.grad((x * y).sum(), x)[0]

    compiled = dynamlir.compile(function)
    x = leaf(3)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), function(x))


def test_formulas_that_write_complex_numbers() -> None:
    def penalty(x: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad((torch.fft.rfft(x).abs() ** 2).sum(), x, create_graph=True)
        return (gradient**2).sum() + (x**2).sum()

    compiled = dynamlir.compile(penalty)
    x = leaf(4)
    found, expected = (torch.autograd.grad(fn(x), x) for fn in (compiled, penalty))
    torch.testing.assert_close(found, expected)
