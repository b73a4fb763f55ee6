"""Tensors that the frame creates from Python values: their contents are known until something writes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from written import same

X = torch.arange(6.0).reshape(2, 3)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    with torch.no_grad():
        yield


def agree(function: Callable[..., Any], *calls: tuple[Any, ...], graphs: int) -> None:
    """Checks that each call gives the same result both ways, with this number of graphs in total."""
    compiled = dynamlir.compile(function, fullgraph=True)
    for given in [*calls, *calls]:
        same(compiled(*given), function(*given))
    assert dynamlir.counters()["graphs"] == graphs and not dynamlir.counters()["fallbacks"]


def test_they_are_read() -> None:
    def function(x: torch.Tensor, n: int) -> Any:
        made = torch.tensor(n)
        numbers = made.item(), int(made), float(made), bool(made), complex(made), made.tolist()
        return x * made.item(), numbers, x + 1 if made else x, [x + at for at in range(int(made))]

    agree(function, (X, 1), (X, 2), (X, 0), graphs=3)


def test_they_are_indices() -> None:
    def function(x: torch.Tensor, at: int) -> Any:
        where = torch.as_tensor(at)
        return [x, x + 1, x + 2][where], x.shape[where], (1, 2)[torch.tensor(0)], x[where]

    agree(function, (X, 1), (X, 0), graphs=2)


def test_they_are_computed_with() -> None:
    def function(x: torch.Tensor) -> Any:
        half = torch.tensor(2.5) * 2
        return x.reshape(torch.prod(torch.tensor([x.numel()])).item()), int(half), half, x * half.item()

    agree(function, (X,), (X[:1],), graphs=2)

    def changing(x: torch.Tensor, rate: float) -> Any:
        return x * torch.tensor(rate).item()

    compiled = dynamlir.compile(changing)
    for rate in (0.5, 0.25, 0.125, 2.0):
        same(compiled(X, rate), changing(X, rate))


@pytest.mark.parametrize(
    "write",
    [
        lambda made, x: made.add_(1),
        lambda made, x: made.view(1).add_(1),
        lambda made, x: made.data.fill_(5),
        lambda made, x: made.data.view(1).view([]).fill_(5),
        lambda made, x: made.detach().unsqueeze(0)[0].fill_(7),
        lambda made, x: torch.add(x[0, 0].long(), 4, out=made),
        lambda made, x: made.copy_(x[1, 1]),
        lambda made, x: torch._foreach_add_([made], 3),
        lambda made, x: made.random_(3, 4),
        lambda made, x: made.data.as_strided((1,), (1,)).fill_(9),
    ],
)
def test_until_they_are_written(write: Callable[..., Any]) -> None:
    def function(x: torch.Tensor) -> Any:
        for _ in range(2):
            made = torch.tensor(2)
            view = made.view(1)
            write(made, x)
        return x * made.item(), int(view), made

    compiled = dynamlir.compile(function)
    for _ in range(2):
        same(compiled(X), function(X))


def test_what_has_no_number_raises() -> None:
    def function(x: torch.Tensor) -> Any:
        made = torch.tensor([1, 2])
        return x * int(made)

    with pytest.raises(ValueError, match="only one element"):
        dynamlir.compile(function)(X)


READ = {
    "a mask of no dimensions": lambda: torch.tensor(7)[torch.tensor(True)].item(),
    "a mask of bytes": lambda: torch.tensor(7)[torch.tensor(True, dtype=torch.uint8)].sum().item(),
    "positions": lambda: torch.tensor([5, 6])[torch.tensor([1])].item(),
    "memory that was written": lambda: torch.empty_like(torch.tensor(4)).fill_(3).item(),
    "new memory that was written": lambda: torch.tensor([4]).new_empty(1).copy_(torch.tensor([3])).item(),
    "computed": lambda: (torch.tensor(2) + torch.tensor([1, 2])).sum().item(),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_made_of_constants_is_read_rightly(name: str, quiet: None) -> None:
    read = READ[name]
    for _ in range(3):
        dynamlir.reset()
        rubbish = [torch.full((n,), 123456789) for n in range(1, 5)]
        del rubbish
        assert dynamlir.compile(read)() == read()
