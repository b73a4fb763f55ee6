"""Gradients of compiled graphs that are differentiated again: they require a gradient where eager's do, and a user's
backward gets the sum of everything that reaches it.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from both import DOORS
from torch import Tensor, nn
from torch.autograd import Function

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolution": (lambda: nn.Conv1d(2, 3, 2), (2, 2, 5)),
    "transposed": (lambda: nn.ConvTranspose2d(1, 2, 2), (1, 1, 3, 3)),
    "norm": (lambda: nn.BatchNorm1d(3).eval(), (4, 3)),
    "relu": (nn.ReLU, (4,)),
    "pool": (lambda: nn.MaxPool1d(2), (1, 4)),
    "linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "two": (lambda: nn.Sequential(nn.Conv1d(1, 1, 1), nn.Linear(3, 2)), (1, 1, 3)),
}


@pytest.fixture(autouse=True)
def fresh(quiet: None) -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", LAYERS)
def test_penalty_on_what_is_frozen(name: str, door: str) -> None:
    make, shape = LAYERS[name]
    layer = make().requires_grad_(False)
    found: list[Any] = []
    for f in (layer, DOORS[door](layer)):
        x = torch.ones(shape, requires_grad=True)
        (g,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        again = torch.autograd.grad(g.square().sum(), x, allow_unused=True)[0] if g.requires_grad else "none"
        found.append((g.requires_grad, again))
    assert found[0][0] == found[1][0]
    torch.testing.assert_close(found[1][1], found[0][1]) if isinstance(found[0][1], Tensor) else None
    assert isinstance(found[0][1], Tensor) == isinstance(found[1][1], Tensor)


def overwritten(x: Tensor, c: Tensor) -> Tensor:
    """A value that is overwritten completely, in two parts."""
    h = x.t().contiguous().t()
    h.select(0, 1).zero_()
    h.t().copy_(c)
    return h


OVERWRITTEN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "alone": overwritten,
    "sine": lambda x, c: overwritten(x, c).sin(),
    "beside it": lambda x, c: overwritten(x, c).sin() * x,
    "square": lambda x, c: overwritten(x, c).square().sum(),
    "constant": lambda x, c: (overwritten(x, c) * c.t()).sum(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", OVERWRITTEN)
def test_history_that_leads_to_a_leaf_that_nothing_is_made_of(name: str, door: str) -> None:
    """The overwritten value is gone, but eager's history leads to it. Nothing lends it to the node."""
    found: list[Any] = []

    def follow(g: Tensor, x: Tensor) -> Any:
        if not g.requires_grad:
            return "none"
        return torch.autograd.grad(g.sum(), x, allow_unused=True, retain_graph=True)[0]

    for function in (OVERWRITTEN[name], DOORS[door](OVERWRITTEN[name])):
        x = torch.linspace(-1, 1, 12).view(3, 4).requires_grad_()
        y = function(x, torch.arange(12.0).view(4, 3))
        for tangent in (torch.ones_like(y), torch.ones_like(y).requires_grad_()):
            (g,) = torch.autograd.grad(y, x, tangent, create_graph=True)
            again = follow(g, x)
            found.append((g.requires_grad, again is None, g, again if isinstance(again, Tensor) else None))
    torch.testing.assert_close(found[2:], found[:2])


def test_what_a_history_leads_to_is_not_known(monkeypatch: pytest.MonkeyPatch, quiet: None) -> None:
    """Where fakes refuse to compute gradients, eager's are used with their history; this is counted once."""

    def refuse(*_: Any) -> Any:
        raise NotImplementedError("no fakes of this")

    monkeypatch.setattr("dynamlir.reachable_history._fake", refuse)

    def layer(x: Tensor) -> Tensor:
        return x.clamp(-1, 1)

    compiled = dynamlir.compile(layer)
    for _ in range(2):
        x = torch.randn(1, 2, 6, requires_grad=True)
        found = []
        for f in (layer, compiled):
            (g,) = torch.autograd.grad(f(x).square().sum(1).tanh()[0, 0] + f(x).sum(), x, create_graph=True)
            found.append(torch.autograd.grad(g.square().sum(), x)[0])
        torch.testing.assert_close(found[1], found[0])
        x = torch.ones(1, 2, 6, requires_grad=True)
        gradients = [torch.autograd.grad(f(x).sum(), x, create_graph=True)[0] for f in (layer, compiled)]
        assert gradients[1].requires_grad == gradients[0].requires_grad
        torch.testing.assert_close(gradients[1], gradients[0])
    events = [event for event in dynamlir.fallbacks() if event.reason == "autograd"]
    assert len(events) == 1
    assert "no fakes of this" in events[0].message


def of(backward: Callable[[Any, Tensor], Tensor], forward: Callable[[Tensor], Tensor] = torch.sign) -> Any:
    """An autograd function that saves its input."""

    class Made(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return forward(x)

    def own(ctx: Any, gradient: Tensor) -> Tensor:
        return backward(ctx.saved_tensors[0], gradient)

    Made.backward = staticmethod(own)  # type: ignore[method-assign]
    return Made


def filled(x: Tensor, g: Tensor) -> Tensor:
    out = torch.zeros_like(g)
    out[1:] = 3 * g[:-1]
    return out


def affine(x: Tensor, g: Tensor) -> Tensor:
    out = torch.ones_like(g)
    out[1:] = g[1:]
    return out


LINEAR: dict[str, Any] = {
    "straight through": of(lambda x, g: g),
    "reversed": of(lambda x, g: -0.5 * g),
    "masked": of(lambda x, g: g * (x.abs() <= 1)),
    "chosen": of(lambda x, g: torch.where(x > 0, g, torch.zeros_like(g))),
    "filled": of(lambda x, g: g.masked_fill(x > 1, 0)),
    "sigmoid": of(lambda x, g: torch.ops.aten.sigmoid_backward(g, x)),
    "summed": of(lambda x, g: (g.sum() * x + g.flip(0)) / 2),
    "joined": of(lambda x, g: torch.cat([g[:1], g[1:] * 2])),
    "written": of(filled),
    "nothing": of(lambda x, g: torch.zeros_like(g)),
}
OTHERS: dict[str, Any] = {
    "clipped": of(lambda x, g: g.clamp(-1, 1)),
    "clipped in place": of(lambda x, g: g.clone().clamp_(-1, 1)),
    "sign": of(lambda x, g: g.sign()),
    "normed": of(lambda x, g: g / (g.norm() + 1e-6)),
    "squared": of(lambda x, g: g * g),
    "shifted": of(lambda x, g: g + 1),
    "from one": of(lambda x, g: 1 - g),
    "constant": of(lambda x, g: torch.ones_like(g)),
    "chosen": of(lambda x, g: torch.where(x > 0, g, torch.ones_like(g))),
    "chosen by number": of(lambda x, g: torch.where(x > 0, g, 1.0)),
    "by itself": of(lambda x, g: torch.where(g > 0, g, torch.zeros_like(g))),
    "filled": of(lambda x, g: g.masked_fill(x > 1, 2)),
    "affine": of(affine),
    "rounded": of(lambda x, g: (g * 4).round() / 4),
}


@pytest.mark.parametrize("name", [*LINEAR, *(f"not {name}" for name in OTHERS)])
def test_backward_gets_the_sum(name: str) -> None:
    function = LINEAR[name] if name in LINEAR else OTHERS[name.removeprefix("not ")]

    def f(x: Tensor) -> Tensor:
        return (x.sin() * function.apply(x * 2)).sum()

    def use(f: Callable[[Tensor], Tensor]) -> Tensor:
        x = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
        loss = f(x)
        (g,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + 0.7 * (g * g).sum()).backward()
        assert x.grad is not None
        return x.grad

    expected = use(f)
    for door in DOORS.values():
        dynamlir.reset()
        torch.testing.assert_close(use(door(f)), expected)
        assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("function", [F.mish, F.logsigmoid, F.softplus, F.hardswish, F.celu], ids=lambda f: f.__name__)
def test_formula_of_what_is_not_computed(function: Callable[[Tensor], Tensor], door: str) -> None:
    """Second gradients use a recorded formula whose operator is not computed: no trace of the operator remains."""
    found: list[Tensor] = []
    for f in (function, DOORS[door](lambda x: function(x))):
        x = torch.linspace(-4, 4, 12).requires_grad_()
        (g,) = torch.autograd.grad(f(x), x, torch.ones(12), create_graph=True)
        found.append(torch.autograd.grad(g.square().sum(), x)[0])
    torch.testing.assert_close(found[1], found[0])
    assert not dynamlir.counters()["fallbacks"]


def of_several(x: Tensor) -> Any:
    y = x * x * x
    return y, y.sin().sum(0)


IN_BATCHES: dict[str, Callable[[Tensor], Any]] = {
    "indexed": lambda x: (x * x)[torch.tensor([[0, 0], [1, 1]])],
    "complex": lambda x: torch.fft.fft(x * x * x).abs(),
    "of several": of_several,
    "random": lambda x: F.dropout(x * x * x, 0.5),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("way", ["vmap", "is_grads_batched"])
@pytest.mark.parametrize("name", IN_BATCHES)
def test_second_gradients_in_batches(name: str, way: str, door: str) -> None:
    """Rows of a Hessian that are computed as a batch equal those computed one by one."""

    def rows(f: Callable[[Tensor], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        x = torch.randn(2, 3, requires_grad=True)
        results = f(x)
        results = results if isinstance(results, tuple) else (results,)
        (g,) = torch.autograd.grad([y.sum() for y in results], x, create_graph=True)
        vectors = torch.eye(6).reshape(6, 2, 3)

        def row(vector: Tensor) -> Tensor:
            return torch.autograd.grad(g, x, vector, retain_graph=True)[0]

        if way == "vmap":
            batch = torch.vmap(row)(vectors)
        else:
            (batch,) = torch.autograd.grad(g, x, vectors, retain_graph=True, is_grads_batched=True)
        return [batch, torch.stack([row(vector) for vector in vectors])]

    function = IN_BATCHES[name]
    found = rows(DOORS[door](lambda x: function(x)))
    torch.testing.assert_close(found[0], found[1])
    assert found[0].any()
    if name != "random":
        torch.testing.assert_close(found, rows(function))


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("way", ["is_grads_batched", "vmap", "vmap of vmap"])
@pytest.mark.parametrize("name", IN_BATCHES)
def test_gradients_in_batches_have_a_history(name: str, way: str, door: str) -> None:
    """With ``create_graph=True`` inside, a batch is differentiated like its rows."""

    def orders(f: Callable[[Tensor], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        x = torch.randn(2, 3, dtype=torch.double, requires_grad=True)
        results = f(x)
        y = results[0] if isinstance(results, tuple) else results
        vectors = torch.randn(4, *y.shape, dtype=torch.double)

        def row(vector: Tensor) -> Tensor:
            return torch.autograd.grad(y, x, vector, create_graph=True)[0]

        if way == "vmap":
            batch = torch.vmap(row)(vectors)
        elif way == "vmap of vmap":
            batch = torch.vmap(torch.vmap(row))(vectors.unflatten(0, (2, 2))).flatten(0, 1)
        else:
            (batch,) = torch.autograd.grad(y, x, vectors, create_graph=True, is_grads_batched=True)
        rows = torch.stack([row(vector) for vector in vectors])
        return [torch.autograd.grad(each.sin().sum(), x, retain_graph=True)[0] for each in (batch, rows)]

    function = IN_BATCHES[name]
    found = orders(DOORS[door](lambda x: function(x)))
    torch.testing.assert_close(found[0], found[1])
    assert found[0].any()
    if name != "random":
        torch.testing.assert_close(found, orders(function))


RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "exp": lambda x: x.exp(),
    "tanh": lambda x: (x * 2).tanh(),
    "softmax": lambda x: x.softmax(-1),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "norm": lambda x: x.norm(dim=-1),
    "norm of a product": lambda x: (x * 2).norm(dim=-1),
    "logsumexp": lambda x: torch.logsumexp(x * 2, 0),
    "softmax of a product": lambda x: (x * 2).softmax(0),
    "normalize": lambda x: F.normalize(x * 2, dim=-1),
    "quotient": lambda x: x / (x * x + 1),
    "and read by others": lambda x: (y := torch.logsumexp(x * 2, 0), y.sin()),
    "cumprod": lambda x: x.cumprod(0),
    "two": lambda x: (x.exp(), x.sigmoid()),
    "chain": lambda x: (h := x.exp(), (h * x).tanh()),
    "a view": lambda x: (h := x.exp(), h[1:]),
    "not read": lambda x: x.exp() * 2,
    "its mask": lambda x: x.relu(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", RESULTS)
def test_gradients_with_respect_to_a_result(kind: str, door: str) -> None:
    """Eager's formula of `exp` reads the result, so a gradient through it has a gradient with respect to that result,
    whether the result is saved here or recomputed. The formula of a quotient computes the quotient anew.
    """
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def orders(function: Callable[[Tensor], Any]) -> list[Tensor | None]:
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        found: list[Tensor | None] = []
        (first,) = torch.autograd.grad(sum(one.square().sum() for one in results), x, create_graph=True)
        loss = first.square().sum()
        for _ in range(2):
            given = torch.autograd.grad(loss, (*results, x), create_graph=True, allow_unused=True)
            found += [one if one is None else one.detach() for one in given]
            loss = sum(one.sin().sum() for one in given if one is not None and one.requires_grad)
            if not isinstance(loss, Tensor):
                break
        return found

    eager, ours = orders(RESULTS[kind]), orders(DOORS[door](RESULTS[kind]))
    assert [one is None for one in ours] == [one is None for one in eager]
    for one, other in zip(ours, eager, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", RESULTS)
def test_gradients_in_batches_with_respect_to_a_result(kind: str, door: str) -> None:
    """Batches of first gradients, and of gradients of gradients."""
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)

    def orders(function: Callable[[Tensor], Any]) -> list[Tensor | None]:
        results = function(x)
        results = results if isinstance(results, tuple) else (results,)
        made, found = results[0], []
        for _ in range(2):
            vectors = torch.linspace(-1, 1, 5 * made.numel(), dtype=made.dtype).view(5, *made.shape)
            (batch,) = torch.autograd.grad(made, x, vectors, create_graph=True, is_grads_batched=True)
            found += torch.autograd.grad(batch.sin().sum(), (*results, x), retain_graph=True, allow_unused=True)
            (made,) = torch.autograd.grad(results[0].square().sum(), x, create_graph=True)
        return found

    eager, ours = orders(RESULTS[kind]), orders(DOORS[door](RESULTS[kind]))
    assert [one is None for one in ours] == [one is None for one in eager]
    for one, other in zip(ours, eager, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("zeros", [[], [(1, 2)], [(1, 2), (2, 2)], [(0, 0), (0, 1), (2, 1)]], ids=len)
@pytest.mark.parametrize("dim", [0, 1])
def test_products_with_zeros(dim: int, zeros: list[tuple[int, int]]) -> None:
    """Torch's formula of `cumprod` looks for zeros, and computes differently if there are some."""
    found = []
    for function in ((lambda x: (x * 2).cumprod(dim)), dynamlir.compile(lambda x: (x * 2).cumprod(dim))):
        torch.manual_seed(1)
        x = torch.randn(4, 3, dtype=torch.float64)
        for place in zeros:
            x[place] = 0
        x.requires_grad_()
        y = function(x)
        tangent = torch.randn(4, 3, dtype=torch.float64)
        (alone,) = torch.autograd.grad(y, x, tangent, retain_graph=True)
        (first,) = torch.autograd.grad(y, x, tangent, create_graph=True)
        found.append([alone, first, *torch.autograd.grad(first.sin().sum(), x)])
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("values", [[2.0, torch.inf, 0, 3, 4], [torch.inf, 0, 0, 1], [0, torch.inf, -1]], ids=str)
def test_products_with_zeros_and_infinities(values: list[float]) -> None:
    tangent = torch.tensor([1.0, 2, -3, 1, -2])[: len(values)]
    found = []
    for function in ((lambda x: x.cumprod(0)), dynamlir.compile(lambda x: x.cumprod(0))):
        x = torch.tensor(values, requires_grad=True)
        found.append(torch.autograd.grad(function(x), x, tangent)[0])
    torch.testing.assert_close(found[1], found[0], equal_nan=True)


def test_products_of_many() -> None:
    """Second gradients with more elements than a formula is unrolled for."""
    found = []
    for function in ((lambda x: x.cumprod(0)), dynamlir.compile(lambda x: x.cumprod(0))):
        x = torch.linspace(0.5, 1.5, 40, dtype=torch.float64).requires_grad_()
        (first,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.sin().sum(), x)])
    torch.testing.assert_close(found[1], found[0])


UNPACKED: dict[str, Callable[[Tensor], Tensor]] = {
    "exp": lambda x: x.exp(),
    "logsumexp": lambda x: (x * 2).logsumexp(0),
    "norm and relu": lambda x: F.layer_norm(x, (3,)).relu(),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", UNPACKED)
def test_saved_tensors_are_unpacked_once(name: str, door: str) -> None:
    """Also results that gradients of gradients lead to. A checkpoint raises if one is unpacked a second time."""
    compiled = DOORS[door](UNPACKED[name])
    unpacked: list[int] = []
    x = torch.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(
        lambda t: (id(t), t), lambda kept: unpacked.append(kept[0]) or kept[1]
    ):
        y = compiled(x)
    torch.autograd.grad(y.square().sum(), x, create_graph=True)
    assert len(unpacked) == len(set(unpacked))
    found = []
    for function in (UNPACKED[name], compiled):
        y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.sin().sum(), x)])
    torch.testing.assert_close(found[1], found[0])


def test_a_result_is_not_held_by_its_own_node() -> None:
    """The result leads to the gradients, and they lead to the result; once dropped, it dies at once."""
    x = torch.randn(4, requires_grad=True)
    compiled = dynamlir.compile(lambda x: x.exp())
    y = compiled(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.autograd.grad(first.sum(), y, retain_graph=True)
    gone = weakref.ref(y)
    gc.disable()
    try:
        del y, first
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("kind", ["logsumexp", "norm of a product", "quotient", "not read"])
def test_a_result_is_written_before_its_gradients(kind: str) -> None:
    """Eager's node saves what its formula reads, and nothing else."""
    raised = []
    for function in (RESULTS[kind], dynamlir.compile(RESULTS[kind])):
        x = torch.randn(3, 4, requires_grad=True)
        y = function(x)
        with torch.no_grad():
            y.add_(1)
        try:
            torch.autograd.grad(y.sum(), x, create_graph=True)
            raised.append("")
        except RuntimeError as error:
            raised.append(str(error)[:60])
    assert raised[1] == raised[0]


def test_a_result_is_written_before_its_gradients_are_differentiated() -> None:
    compiled = dynamlir.compile(lambda x: x.exp())
    raised = []
    for function in (compiled, torch.exp):
        x = torch.randn(4, requires_grad=True)
        y = function(x)
        (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation") as info:
            first.square().sum().backward()
        raised.append(str(info.value)[:60])
    assert raised[0] == raised[1]
