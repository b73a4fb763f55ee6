"""Double backward by torch's operators instead of compiled code leads to the results that are still referenced, as
compiled code does, and to nothing else.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from dynamlir import higher_order, reachable_history
from dynamlir.reasons import Fallback
from torch import Tensor
from torch.autograd import Function
from torch.testing._internal.two_tensor import TwoTensor

WAYS = {
    "nothing forced": None,
    "second order refused": 2,
    "third order refused": 3,
    "subclass": None,
    "fakes refuse": None,
}


@pytest.fixture
def way(request: pytest.FixtureRequest, quiet: None, monkeypatch: pytest.MonkeyPatch) -> str:
    """Forces torch's operators to run."""
    torch._dynamo.reset()
    compiles = higher_order.Gradients._compile

    def refuse(gradients: Any, *rest: Any) -> Any:
        if gradients._order == WAYS[request.param]:
            raise Fallback("pass-failed", "of this order")
        return compiles(gradients, *rest)

    def no_fakes(*_: Any) -> Any:
        raise NotImplementedError("no fakes of this")

    monkeypatch.setattr(higher_order.Gradients, "_compile", refuse)
    if request.param == "fakes refuse":
        monkeypatch.setattr(reachable_history, "_fake", no_fakes)
    return str(request.param)


each_way = pytest.mark.parametrize("way", WAYS, indirect=True)
each_door = pytest.mark.parametrize("door", DOORS)
where_refused = pytest.mark.parametrize("way", ["second order refused"], indirect=True)


class OfResult(Function):
    """A Function whose backward reads its result."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0]


class Detaching(Function):
    """A Function whose backward the compiler does not differentiate."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * ctx.saved_tensors[0].detach().cos()


def written(x: Tensor) -> Tensor:
    y = x * 2
    y[1:].exp_()
    return y


def filled(x: Tensor) -> Tensor:
    y = torch.zeros(3, 4, dtype=x.dtype)
    y[1:].copy_(x[1:].exp())
    return y


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "exp": lambda x: x.exp(),
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: x.norm(dim=-1),
    "relu": lambda x: x.relu(),
    "product": lambda x: x.prod(-1),
    "not read": lambda x: x.exp() * 2,
    "in place": lambda x: (x * 2).exp_(),
    "a view": lambda x: (h := x.exp(), h[1:]),
    "several": lambda x: torch.linalg.svd(x @ x.t())[1].sqrt(),
    "of several": lambda x: torch.linalg.slogdet(x @ x.t())[1].exp(),
    "a function": lambda x: OfResult.apply(x * 2),
    "before it a function": lambda x: Detaching.apply(x).exp(),
    "written": written,
    "filled": filled,
}


def plain(tensor: Tensor | None) -> Tensor | None:
    while isinstance(tensor, TwoTensor):
        tensor = tensor.a
    return None if tensor is None else tensor.detach().clone()


def observed(function: Callable[[Tensor], Any], way: str) -> tuple[list[Tensor | None], list[Any]]:
    """The gradients of each order with respect to results, the input and tangents, and the arguments of the results'
    hooks.
    """
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    hooked: list[Any] = []
    for at, result in enumerate(results):
        result.retain_grad()
        result.register_hook(lambda gradient, at=at: hooked.append((at, plain(gradient))))
    tangents = [torch.linspace(-1, 1, one.numel(), dtype=one.dtype).view(one.shape) for one in results]
    if way != "fakes refuse":
        tangents = [tangent.requires_grad_() for tangent in tangents]
    given = [TwoTensor(one, one.clone()) for one in tangents] if way == "subclass" else tangents
    made = torch.autograd.grad(results, x, given, create_graph=True)
    wanted = (*results, x, *(tangent for tangent in tangents if tangent.requires_grad))
    found: list[Tensor | None] = []
    for _ in range(2):
        followed = [one for one in made if one is not None and one.requires_grad]
        if not followed:
            return found, hooked
        loss = sum((one.sin().sum() for one in followed), torch.zeros(()))
        made = torch.autograd.grad(loss, wanted, create_graph=True, allow_unused=True)
        found += map(plain, made)
    followed = [one for one in made if one is not None and one.requires_grad]
    if followed:
        sum((one.sin().sum() for one in followed), torch.zeros(())).backward()
        found += [plain(tensor.grad) for tensor in (x, *results)]
    return found, sorted(hooked, key=lambda entry: int(entry[0]))


@each_door
@each_way
@pytest.mark.parametrize("name", PROGRAMS)
def test_they_lead_to_results(name: str, way: str, door: str) -> None:
    function = PROGRAMS[name]
    eager, ours = observed(function, way), observed(DOORS[door](lambda x: function(x)), way)
    assert [one is None for one in ours[0]] == [one is None for one in eager[0]]
    torch.testing.assert_close(
        [one for one in ours[0] if one is not None], [one for one in eager[0] if one is not None]
    )
    assert [at for at, _ in ours[1]] == [at for at, _ in eager[1]]
    torch.testing.assert_close([one for _, one in ours[1]], [one for _, one in eager[1]])
    if way == "second order refused":
        assert dynamlir.counters()["fallbacks"]


def in_batches(function: Callable[[Tensor], Tensor]) -> list[Tensor | None]:
    x = torch.linspace(-1, 1, 12, dtype=torch.float64).view(3, 4).requires_grad_()
    y = function(x)
    tangents = torch.stack([torch.ones_like(x), x.detach().cos()])
    (batch,) = torch.autograd.grad(y, x, tangents, create_graph=True, is_grads_batched=True)
    found = [*torch.autograd.grad(batch.sin().sum(), (y, x), retain_graph=True, allow_unused=True)]
    (first,) = torch.autograd.grad(y, x, torch.ones_like(y).requires_grad_(), create_graph=True)

    def row(tangent: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(first, (y, x), tangent, create_graph=True)

    rows = torch.vmap(row)(tangents)
    found += rows
    found += torch.autograd.grad(sum(one.sin().sum() for one in rows), (y, x), retain_graph=True, allow_unused=True)
    weight = torch.ones(2, 1, 1, dtype=torch.float64)
    within = torch.vmap(lambda one: torch.autograd.grad(y, x, tangents[0], create_graph=True)[0] * one)(weight)
    return [*found, *torch.autograd.grad(within.sin().sum(), (y, x), retain_graph=True, allow_unused=True)]


@each_door
@where_refused
@pytest.mark.parametrize("name", ["exp", "softmax", "relu", "in place"])
def test_in_batches(name: str, way: str, door: str) -> None:
    function = PROGRAMS[name]
    eager, ours = in_batches(function), in_batches(DOORS[door](lambda x: function(x)))
    assert [one is None for one in ours] == [one is None for one in eager]
    torch.testing.assert_close(ours, eager)


def solved(function: Callable[[Tensor, Tensor], Tensor]) -> list[Any]:
    torch.manual_seed(0)
    matrix = (torch.randn(3, 3, dtype=torch.float64) + 3 * torch.eye(3, dtype=torch.float64)).requires_grad_()
    right = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    y = function(matrix, right)
    called: list[Any] = []
    y.register_hook(lambda gradient: called.append(plain(gradient)))
    first = torch.autograd.grad(y.square().sum(), (matrix, right), create_graph=True)
    tangent = torch.ones_like(y)
    apart = torch.autograd.grad(y, (matrix, right), tangent, create_graph=True)
    found: list[Any] = [list(called)]
    for gradient in (*first, *apart):
        called.clear()
        found.append(torch.autograd.grad(gradient.sum(), (matrix, right), retain_graph=True, allow_unused=True))
        found.append(list(called))
    return found


@each_door
@where_refused
def test_only_those_that_read_a_result_lead_to_it(way: str, door: str) -> None:
    """The gradient of a right-hand side depends only on the matrix: hooks of the solution are not called for it."""
    eager = solved(torch.linalg.solve)
    torch.testing.assert_close(solved(DOORS[door](lambda one, other: torch.linalg.solve(one, other))), eager)


@where_refused
def test_results_are_gone_at_once(way: str) -> None:
    """No cycle holds a result, or the values that its gradients depend on."""
    x = torch.randn(4, requires_grad=True)
    y = dynamlir.compile(lambda x: x.exp())(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.autograd.grad(first.sum(), (y, x), retain_graph=True)
    assert dynamlir.counters()["fallbacks"]
    gone = [weakref.ref(y), weakref.ref(first), weakref.ref(x)]
    gc.disable()
    try:
        del x, y, first
        assert [reference() for reference in gone] == [None, None, None]
    finally:
        gc.enable()


@each_door
@where_refused
def test_a_view_of_an_input_that_somebody_has(way: str, door: str) -> None:
    """The view is an input of the node, and gradients by torch's operators do not lead to it: differentiating raises an
    error.
    """
    x = torch.randn(4, requires_grad=True)
    shown, y = DOORS[door](lambda x: (shown := x[1:], shown.exp()))(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.testing.assert_close(first[1:], y)
    with pytest.raises(RuntimeError, match="with respect to other tensors"):
        torch.autograd.grad(first.sum(), (shown, x))
