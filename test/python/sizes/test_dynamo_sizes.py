"""Dynamic sizes behind `torch.compile`: dynamlir uses Dynamo's symbols, and compiles a graph once for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch


def sizes_as_values(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * x.shape[0] + y[: x.shape[0]]).view(-1, 2), torch.arange(x.shape[0]) + 1


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, y]).softmax(-1).sum(0)


def returned(x: torch.Tensor, y: torch.Tensor) -> tuple[Any, ...]:
    return x.shape[0] * 2 + y.shape[0], x + 1, y * 2


def written(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    y[: x.shape[0]] += x
    return y.view(-1)


@pytest.mark.parametrize("program", [sizes_as_values, joined, returned, written])
@pytest.mark.parametrize("dynamic", [True, None])
def test_one_graph_is_for_all_sizes(program: Callable[..., Any], dynamic: bool | None) -> None:
    compiled = torch.compile(program, backend="dynamlir", dynamic=dynamic)
    for rows in (6, 7, 9, 2, 40, 17, 6):
        x, y = torch.randn(rows, 4), torch.randn(rows + 3, 4)
        given = x.clone(), y.clone()
        found, expected = compiled(*given), program(x, y)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(given, (x, y))
    # Where sizes become dynamic automatically, the first graph has static sizes.
    assert dynamlir.counters()["graphs"] == (1 if dynamic else 2)
    assert not dynamlir.counters()["fallbacks"]


def test_what_is_assumed_is_dynamos_guard() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, x.shape[0] // 2)

    compiled = torch.compile(program, backend="dynamlir", dynamic=True)
    for rows in (6, 8, 14):
        assert torch.equal(compiled(torch.ones(rows, 4)), torch.ones(8, rows // 2))
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        compiled(torch.ones(7, 4))
    assert not dynamlir.counters()["fallbacks"]


def test_sizes_of_one_and_none_are_graphs_of_their_own() -> None:
    compiled = torch.compile(lambda x: x.sum(0, keepdim=True) + x, backend="dynamlir", dynamic=True)
    for rows in (3, 1, 0, 5, 1, 0):
        x = torch.randn(rows, 3)
        torch.testing.assert_close(compiled(x), x.sum(0, keepdim=True) + x)
    assert not dynamlir.counters()["fallbacks"]


def test_marks() -> None:
    compiled = torch.compile(lambda x: x.sin() * x.shape[0], backend="dynamlir")
    for rows in range(4, 10):
        x = torch.randn(rows, 8)
        torch._dynamo.mark_dynamic(x, 0)
        torch.testing.assert_close(compiled(x), x.sin() * rows)
    assert dynamlir.counters()["graphs"] == 1
    x = torch.randn(4, 8)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(Exception, match="Constraints violated"):
        torch.compile(lambda x: x.reshape(4, 2, 4), backend="dynamlir")(x)


def test_gradients_take_numbers() -> None:
    layer = torch.nn.Linear(4, 4)
    compiled = torch.compile(lambda x: layer(x).relu().sum(), backend="dynamlir", dynamic=True)
    for rows in (3, 4, 5):
        x = torch.randn(rows, 4, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        compiled(x).backward()
        layer(y).relu().sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("compile_", [dynamlir.compile, lambda program: torch.compile(program, backend="dynamlir")])
def test_random_numbers_stay_when_a_size_has_varied(compile_: Callable[..., Any]) -> None:
    compiled = compile_(lambda x: torch.rand_like(x))

    def drawn(rows: int) -> torch.Tensor:
        torch.manual_seed(0)
        return compiled(torch.ones(rows, 2))

    first = drawn(8)
    drawn(9)
    assert torch.equal(drawn(8), first)


@pytest.mark.parametrize("compile_", [dynamlir.compile, torch.compile])
def test_parts_are_one_graph_for_all_sizes(compile_: Callable[..., Any]) -> None:
    given = {} if compile_ is dynamlir.compile else {"backend": "dynamlir"}
    compiled = compile_(lambda x: torch.where(x[2:] > 0, x[2:] - x[:-2], 1), dynamic=True, **given)
    for rows in (6, 7, 9, 20):
        x = torch.randn(rows, 4)
        assert torch.equal(compiled(x), torch.where(x[2:] > 0, x[2:] - x[:-2], 1))
    assert dynamlir.counters()["graphs"] == 1


def test_bounds_of_three_sizes() -> None:
    def program(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x[: min(len(x), len(y), len(z))] * 2, max(len(x), len(y), 3)

    compiled = torch.compile(program, backend="dynamlir", dynamic=True)
    for sizes in ((6, 7, 9), (5, 8, 9), (9, 4, 6), (4, 9, 7)):
        tensors = [torch.randn(size, 2) for size in sizes]
        torch.testing.assert_close(compiled(*tensors), program(*tensors))
    assert not dynamlir.counters()["fallbacks"]
