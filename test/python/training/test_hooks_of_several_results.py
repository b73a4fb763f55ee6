"""An operation with several results is one node of autograd's graph in eager: if a gradient reaches one of them, the
hooks of the others are called with None. The same is true for compiled operations, and for views such as those of
``unbind`` and ``split``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from both import DOORS
from torch import Tensor


def joined(x: Tensor) -> Sequence[Tensor]:
    q, k, v = torch.cat([x, x.sin(), x], 1).chunk(3, 1)
    return q, k, v, q * k


def used(x: Tensor) -> Sequence[Tensor]:
    rows = (x * 3).unbind()
    return rows[0], rows[2], rows[0] * rows[1]


def of_shown(x: Tensor) -> Sequence[Tensor]:
    h = x.exp()[1:]
    first, second = h.split([1, 3], 1)
    return h, second, first, second.sum()


def unbound(x: Tensor) -> Sequence[Tensor]:
    rows = x.unbind()
    return *rows[0].unbind()[:2], *x.unbind()[2:]


def written(x: Tensor) -> Sequence[Tensor]:
    h = x * 2
    h[1].mul_(3)
    return h.unbind(1)[1:]


PROGRAMS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "unbind": lambda x: x.unbind(),
    "unbind of columns": lambda x: x.sin().unbind(1),
    "some rows": lambda x: x.exp().unbind()[::3],
    "unbind twice": lambda x: (*x.unbind()[:2], *x.unbind()[2:]),
    "split": lambda x: x.split(3),
    "split by sizes": lambda x: x.sin().split([1, 1, 2], 1)[::2],
    "chunk": lambda x: x.t().chunk(2),
    "parts of complex numbers": lambda x: torch.view_as_real(torch.complex(x, x.sin())).unbind(-1),
    "views of parts": lambda x: tuple(part.t() for part in x.split(2)),
    "one by one": lambda x: (x[0], x[1], x[2:]),
    "var_mean": lambda x: torch.var_mean(x * 2, 1),
    "std_mean": lambda x: torch.std_mean(x.sin(), 1),
    "aminmax": lambda x: tuple(torch.aminmax(x, dim=1)),
    "slogdet": lambda x: tuple(torch.linalg.slogdet(x)),
    "qr": lambda x: tuple(torch.linalg.qr(x)),
    "sorted and topmost": lambda x: (torch.sort(x)[0], x.topk(2)[0]),
    **{function.__name__: function for function in (joined, used, of_shown, unbound, written)},
}


def looked_at(function: Callable[[Tensor], Sequence[Tensor]], losses: Sequence[int], walks: int) -> list[Any]:
    """The hook calls, in order, and the gradient, for losses of some results."""
    x = torch.randn(4, 4, dtype=torch.double, generator=torch.Generator().manual_seed(1)).requires_grad_()
    told: list[Any] = []
    results = function(x)
    for name, tensor in [(-1, x), *enumerate(results)]:
        if tensor.requires_grad:
            tensor.register_hook(lambda gradient, name=name: told.append((name, gradient)))
    loss = torch.stack([results[at].square().sum() for at in losses]).sum()
    for walk in range(walks):
        loss.backward(retain_graph=walk + 1 < walks)
        told.append(walk)
    return [*told, x.grad]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_hooks_of_the_others_are_called(name: str, door: str) -> None:
    function = PROGRAMS[name]
    compiled = DOORS[door](lambda x: function(x))
    count = len(function(torch.ones(4, 4, dtype=torch.double)))
    for many in range(1, count + 1):
        for losses in itertools.combinations(range(count), many):
            for walks in (1, 2):
                torch.testing.assert_close(
                    looked_at(compiled, losses, walks), looked_at(function, losses, walks), check_stride=False
                )


@pytest.mark.parametrize("door", DOORS)
def test_parts_may_not_be_written(door: str) -> None:
    for function in (compiled := DOORS[door](lambda x: (x * 2).split([1, 3])), lambda x: (x * 2).split([1, 3])):
        first, second = function(torch.ones(4, 2, requires_grad=True))
        assert first.grad_fn is second.grad_fn and first._base is second._base
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            second.mul_(2)
    with torch.no_grad():
        first, second = compiled(torch.ones(4, 2, requires_grad=True))
        assert torch.equal(second.mul_(2), torch.full((3, 2), 4.0)) and torch.equal(first, torch.full((1, 2), 2.0))


@pytest.mark.parametrize("door", DOORS)
def test_sizes_that_vary(door: str) -> None:
    compiled = DOORS[door](lambda x: x.sin().chunk(2))
    for rows in (4, 6, 9, 5):
        found = []
        for call in (compiled, lambda x: x.sin().chunk(2)):
            told: list[Any] = []
            x = torch.ones(rows, 2, requires_grad=True)
            first, second = call(x)
            second.register_hook(told.append)
            first.sum().backward()
            found.append([*told, x.grad])
        torch.testing.assert_close(found[0], found[1])


CONSTANT: dict[str, Callable[[Tensor], Tensor]] = {
    "product": lambda x: torch.ones(4, 4, dtype=x.dtype) * x,
    "quotient": lambda x: x / torch.ones_like(x),
    "matrices": lambda x: x @ torch.ones(4, 4, dtype=x.dtype),
    "choice": lambda x: torch.where(torch.ones(4, 4, dtype=torch.bool), x, 0.0),
    "sum": lambda x: x + torch.ones_like(x),
    "transform": lambda x: torch.func.grad(lambda a: (a * a).sum())(x),
    # These save nothing in eager, but are computed by such products here.
    "bilinear": lambda x: F.interpolate(x[None, None], scale_factor=1.5, mode="bilinear"),
    "trilinear": lambda x: F.interpolate(x[None, None, None], scale_factor=2.0, mode="trilinear"),
    "pool": lambda x: F.adaptive_avg_pool2d(x[None], 3),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", CONSTANT)
def test_what_keeps_a_constant_is_used_up_by_one_walk(name: str, door: str) -> None:
    function = CONSTANT[name]
    said = []
    for call in (DOORS[door](lambda x: (q := function(x), q.sin())), lambda x: (q := function(x), q.sin())):
        x = torch.ones(4, 4, dtype=torch.double, requires_grad=True)
        first, second = call(x)
        first.sum().backward()
        try:
            second.sum().backward()
            said.append("walked twice")
        except RuntimeError as error:
            said.append(str(error).split(".")[0])
    assert said[0] == said[1]
