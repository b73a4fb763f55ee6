"""Tensors that autograd has saved for a compiled graph's backward: detached or written since, freed, or never given a
gradient. Eager's result, or its exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from torch import Tensor
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    with dynamlir.config.patch(on_plain="ignore"):
        yield DOORS[request.param]


def leaves() -> tuple[Tensor, Tensor]:
    made = torch.Generator().manual_seed(5)
    return tuple(torch.randn(4, 2, generator=made, dtype=torch.float64).requires_grad_() for _ in "xw")  # type: ignore[return-value]


def told(work: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """The result of some work with a function, the leaves' gradients after it, and the exception that it raised."""
    x, w = leaves()
    found, raised = None, None
    try:
        found = work(function, x, w)
    except RuntimeError as error:
        raised = str(error).split("\n")[0][:70]
    return found, x.grad, w.grad, raised


def compare(work: Callable[..., Any], function: Callable[..., Any], door: Callable[..., Any]) -> str | None:
    """Returns the error that both raised, if any."""
    eager, ours = told(work, function), told(work, door(function))
    assert ours[3] == eager[3]
    if eager[3] is None:  # otherwise the number of nodes decides how far backward has come
        torch.testing.assert_close(ours[:3], eager[:3])
    error: str | None = eager[3]
    return error


def backward(result: Tensor) -> None:
    result.sum().backward()


def twice(result: Tensor, *leaves: Tensor) -> None:
    first = torch.autograd.grad(result.square().sum(), leaves, create_graph=True, allow_unused=True)
    backward(sum(one.square() for one in first if one is not None))  # type: ignore[arg-type]


KEEPING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "product": lambda h, w: h * w,
    "square": lambda h, w: h.square(),
    "matmul": lambda h, w: h @ w.t(),
    "by a view": lambda h, w: h.t() @ w,
    "chain": lambda h, w: (h.cos() + w).exp(),
    "sum": lambda h, w: h * 2 + w,
    "own": lambda h, w: (h + 1).exp(),
}


@pytest.mark.parametrize("kind", KEEPING)
def test_a_tensor_is_detached_in_place_after_its_piece(kind: str, door: Callable[..., Any]) -> None:
    """The caller detaches it, since the function has returned it."""
    keeping = KEEPING[kind]

    def function(x: Tensor, w: Tensor) -> Any:
        h = x * w
        return h, keeping(h, w)

    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        h, y = f(x, w)
        h.detach_()
        backward(y)

    error = compare(work, function, door)
    assert (error is not None) == (kind not in ("by a view", "sum", "own"))


@pytest.mark.parametrize("kind", ["product", "chain", "sum"])
@pytest.mark.parametrize("order", [1, 2])
def test_an_argument_is_detached_in_place_after_the_call(kind: str, order: int, door: Callable[..., Any]) -> None:
    keeping = KEEPING[kind]

    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        given = x.exp()
        y = f(given, w)
        given.detach_()
        backward(y) if order == 1 else twice(y, w)

    error = compare(work, lambda h, w: keeping(h, w), door)
    assert (error is not None) == (kind != "sum")


def test_a_tensor_is_detached_in_place_after_a_break(door: Callable[..., Any]) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        h = x - w
        y = h.pow(3)
        torch._dynamo.graph_break()
        h.detach_()
        return y * 2

    assert compare(lambda f, *leaves: backward(f(*leaves)), function, door) is not None


def test_a_leaf_may_be_detached_in_place(door: Callable[..., Any]) -> None:
    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        y = f(x, w)
        x.detach_()
        backward(y)

    assert compare(work, lambda x, w: (x * w).sin(), door) is None


def test_what_never_had_a_history_may_be_detached_in_place(door: Callable[..., Any]) -> None:
    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        data = torch.ones(4, 2, dtype=torch.float64)
        y = f(data, w)
        data.detach_()
        backward(y)

    assert compare(work, lambda x, w: (x * w).sin(), door) is None


def row(x: Tensor, w: Tensor) -> Tensor:
    h = x + 0
    h[1] = w[2]
    return h


def columns(x: Tensor, w: Tensor) -> Tensor:
    h = x + 0
    h[:, 1:].add_(w[:, :1])
    return h


def transposed(x: Tensor, w: Tensor) -> Tensor:
    h = x + 0
    h.t().sub_(w.t())
    return h


def flattened(x: Tensor, w: Tensor) -> Tensor:
    h = x + 0
    h.view(-1).add_(w.view(-1))
    return h


def whole(x: Tensor, w: Tensor) -> Tensor:
    h = x + 0
    h.add_(w)
    return h


@pytest.mark.parametrize("write", [row, columns, transposed, flattened, whole])
@pytest.mark.parametrize("kept", [False, True])
def test_a_write_to_a_view_is_walked_once(
    write: Callable[[Tensor, Tensor], Tensor], kept: bool, door: Callable[..., Any]
) -> None:
    def function(x: Tensor, w: Tensor) -> Any:
        h = write(x, w)
        return h.sin(), h.exp()

    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        first, second = f(x, w)
        first.sum().backward(retain_graph=kept)
        second.sum().backward()

    error = compare(work, function, door)
    assert (error is not None) == (not kept and write is not whole)


class Third(Function):
    """Returns no gradient for the last of its arguments."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(b.cos())
        return a * b

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return gradient * ctx.saved_tensors[0], None


class Half(Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return a / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 0.5


class Asking(Function):
    """Sees that there is no gradient, and returns none."""

    @staticmethod
    def forward(ctx: Any, a: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        return a / 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor | None) -> Tensor | None:
        return None if gradient is None else gradient * 0.5


WITHOUT: dict[str, Callable[[Tensor, Tensor], Any]] = {
    "a function": lambda x, w: Third.apply(x, Half.apply(w)),
    "functions": lambda x, w: Third.apply(x, Half.apply(Half.apply(w * 2).sin())),
    "operations": lambda x, w: Third.apply(x, w.exp() * 2),
    "beneath operations": lambda x, w: Third.apply(x, Half.apply(w * w).tanh() + 1),
    "another way as well": lambda x, w: Third.apply(x, Half.apply(w)) + w.sin(),
    "below itself": lambda x, w: Third.apply(x, Half.apply(x) + w),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_functions_take_zeros_for_what_is_not_given(kind: str, door: Callable[..., Any]) -> None:
    compare(lambda f, *leaves: backward(f(*leaves)), WITHOUT[kind], door)


@pytest.mark.parametrize("losses", [(0,), (1,), (0, 1)])
def test_results_without_a_gradient_are_zeros_for_the_function_that_made_them(
    losses: tuple[int, ...], door: Callable[..., Any]
) -> None:
    def function(x: Tensor, w: Tensor) -> Any:
        h = Half.apply(w)
        return h, Third.apply(x, h)

    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        results = f(x, w)
        backward(sum(results[at].sum() for at in losses))  # type: ignore[arg-type]

    compare(work, function, door)


def test_a_graph_takes_zeros_where_its_caller_gives_none(door: Callable[..., Any]) -> None:
    def work(f: Callable[..., Any], x: Tensor, w: Tensor) -> None:
        backward(Third.apply(x, f(w)))

    compare(work, lambda w: Half.apply(w * 3).exp(), door)
    compare(work, lambda w: (w * 3).exp(), door)


def test_a_function_that_asks_is_given_nothing() -> None:
    """Dynamo does not show which functions do that."""
    own = DOORS["dynamlir.compile"]
    compare(lambda f, *leaves: backward(f(*leaves)), lambda x, w: Third.apply(x, Asking.apply(w)), own)


WRITING: dict[str, Callable[[Tensor, Tensor], None]] = {
    "itself": lambda h, w: h[1:].mul_(h[:-1]),
    "before": lambda h, w: (h[:2].mul_(w[2:]), w.add_(1)),  # type: ignore[func-returns-value]
    "a quotient": lambda h, w: (h[:, 0].div_(w[:, 1]), w.mul_(2)),  # type: ignore[func-returns-value]
    "sums": lambda h, w: (h[:2].add_(w[2:]), w.mul_(2)),  # type: ignore[func-returns-value]
    "copies": lambda h, w: (h[:2].copy_(w[2:]), w.mul_(2)),  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("kind", WRITING)
def test_what_a_write_to_a_view_keeps_is_written(kind: str, door: Callable[..., Any]) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        h, other = x.clone(), w * 1
        WRITING[kind](h, other)
        return h.sin() + other

    error = compare(lambda f, *leaves: backward(f(*leaves)), function, door)
    assert (error is not None) == (kind not in ("sums", "copies"))


@pytest.mark.parametrize("written", [0, 1, 2])
def test_what_a_checkpoint_has_read_is_written(written: int, door: Callable[..., Any]) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        given = [x * 1, w * 2, w.detach() + 1]
        h = checkpoint(lambda a, b, c: (a * c).tanh() + b, *given, use_reentrant=False)
        given[written].add_(1)
        return h.exp()

    assert compare(lambda f, *leaves: backward(f(*leaves)), function, door) is not None


OF_ANY_SIZE: dict[str, Callable[[Tensor], Any]] = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(),
    "cat": lambda x: torch.cat([x[1:], x]),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 2)),
    "repeat": lambda x: x.repeat(2, 1),
    "exp": lambda x: x.exp().sum(),
    "nodes": lambda x: (x.sum(0), x.exp()),
    "chain": lambda x: (h := x.repeat(2, 1), h.sum(0)),
}


@pytest.mark.parametrize("kind", OF_ANY_SIZE)
@dynamlir.config.patch(on_plain="error")
def test_sizes_are_not_used_up(kind: str) -> None:
    """Eager keeps sizes as numbers, which a backward pass does not free: together with tensors, and without any."""
    compiled = dynamlir.compile(OF_ANY_SIZE[kind], dynamic=True)

    def walks(function: Callable[[Tensor], Any], x: Tensor) -> list[Any]:
        made = function(x)
        found: list[Any] = []
        for result in made if isinstance(made, tuple) else (made,):
            for create_graph in (False, False, True):
                try:
                    (gradient,) = torch.autograd.grad(result, x, torch.ones_like(result), create_graph=create_graph)
                    found += [gradient.detach(), create_graph and gradient.requires_grad]
                except RuntimeError as error:
                    found.append(str(error)[:40])
        return found

    for rows in (3, 5, 6):
        x = torch.randn(rows, 4, dtype=torch.float64, requires_grad=True)
        ours, eager = walks(compiled, x), walks(OF_ANY_SIZE[kind], x)
        assert [one for one in ours if isinstance(one, str)] == [one for one in eager if isinstance(one, str)]
        values = [[one for one in found if not isinstance(one, str)] for found in (ours, eager)]
        torch.testing.assert_close(*values)
    assert len(compiled._cache) == 1


def part(h: Tensor, write: Callable[[Tensor], Any], view: Callable[[Tensor], Tensor]) -> Tensor:
    """``h`` after a write to a view of it."""
    write(view(h))
    return h


OVERWRITING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a clone": lambda x, w: x.clone().copy_(w),
    "a product": lambda x, w: (x * 2).copy_(w.sin()),
    "by a row": lambda x, w: x.clone().copy_(w[0]),
    "by another type": lambda x, w: (x * 2).copy_(w.float()),
    "by what has no history": lambda x, w: x.clone().copy_(w.detach()) + w,
    "by zeros alone": lambda x, w: (x * 2).zero_(),
    "by a number": lambda x, w: (x * 2).fill_(3.0) * w,
    "twice": lambda x, w: (x * w).copy_(w).zero_() + w,
    "a whole view": lambda x, w: part(x * 2, lambda h: h.copy_(w.view(-1)), lambda h: h.view(-1)),
    "a transposed view": lambda x, w: part(x * 2, lambda h: h.copy_(w.t()), lambda h: h.t()),
    "all elements": lambda x, w: part(x * 2, lambda h: h.zero_(), lambda h: h[:]) + w,
    "some elements": lambda x, w: part(x * 2, lambda h: h.copy_(w[1:]), lambda h: h[1:]),
    "without a history": lambda x, w: part(torch.ones_like(x), lambda h: h.copy_(w), lambda h: h[:]),
    "and read before": lambda x, w: (h := x.clone(), k := h * 3, h.copy_(w), h + k)[-1],
    "by itself": lambda x, w: (h := x * 2).copy_(h) + w,
}


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", OVERWRITING)
def test_what_is_overwritten_has_zeros_for_a_gradient(kind: str, order: int, door: Callable[..., Any]) -> None:
    def work(function: Callable[..., Any], x: Tensor, w: Tensor) -> Any:
        result = function(x, w).square()
        if order == 2:
            return twice(result, x, w)
        # A backward pass through a write to a view frees what was saved for it.
        return [torch.autograd.grad(result, (x, w), torch.ones_like(result), allow_unused=True) for _ in range(2)]

    assert compare(work, OVERWRITING[kind], door) is not None or order == 2
    if order == 1:
        compare(lambda f, *leaves: backward(f(*leaves)), OVERWRITING[kind], door)
