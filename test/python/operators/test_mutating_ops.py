"""Custom operators that write their arguments stay operators of the graph: they are called on copies, whose new values
are stored where the operator would have written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from harness import differences, run
from torch import Tensor


@torch.library.custom_op("dynamlir_test::add_to", mutates_args=("x",))
def add_to(x: Tensor, y: Tensor, by: float = 1.0, sizes: list[int] | None = None) -> None:
    x.add_(y, alpha=by)


@torch.library.custom_op("dynamlir_test::swap", mutates_args=("x", "y"))
def swap(x: Tensor, y: Tensor, *, note: str = "a (note)") -> Tensor:
    was = x.clone()
    x.copy_(y)
    y.copy_(was)
    return x + 2 * y


@swap.register_fake
def _(x: Tensor, y: Tensor, *, note: str = "a (note)") -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("dynamlir_test::add_to_all", mutates_args=("xs",))
def add_to_all(xs: list[Tensor], y: Tensor) -> None:
    for x in xs:
        x.add_(y)


@torch.library.custom_op("dynamlir_test::add_where", mutates_args=("xs", "z"))
def add_where(xs: list[Tensor], z: Tensor | None, y: Tensor) -> Tensor:
    for x in xs:
        x.add_(y)
    if z is not None:
        z.mul_(2)
    return y + 1


@add_where.register_fake
def _(xs: list[Tensor], z: Tensor | None, y: Tensor) -> Tensor:
    return torch.empty_like(y)


LIBRARY = torch.library.Library("dynamlir_test", "FRAGMENT")
LIBRARY.define("halves(Tensor x, *, Tensor(a!)[] out) -> ()")


@torch.library.impl(LIBRARY, "halves", "CPU")
@torch.library.impl(LIBRARY, "halves", "Meta")
def halves(x: Tensor, *, out: list[Tensor]) -> None:
    for half, into in zip(x.chunk(2), out):
        into.copy_(half)


def of_what_is_made(x: Tensor) -> Tensor:
    y = x.sin()
    add_to(y, x, by=0.5)
    return y * 2


def of_an_input(x: Tensor) -> Tensor:
    add_to(x, x.cos(), sizes=[1, 2])
    return x + 1


def of_a_view(x: Tensor) -> Tensor:
    y = x * 2
    add_to(y[0], x[1])
    return y


def of_two(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x.sin(), x.cos()
    return swap(y, z, note="b"), y, z


def of_two_that_nobody_reads(x: Tensor) -> Tensor:
    y = x.sin()
    swap(y, x)
    return y


def of_lists(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x.sin(), x.cos()
    add_to_all([y, x, z], x.exp())
    add_to_all([], y)
    return y, z


def of_what_may_be_none(x: Tensor) -> tuple[Tensor, ...]:
    y, z = x.sin(), x.cos()
    first = add_where([y], z, x)
    return first, add_where([y, z], None, first), y, z


def of_out(x: Tensor) -> tuple[Tensor, ...]:
    y, z = torch.zeros(2, 4), torch.ones(1, 4)
    torch.ops.dynamlir_test.halves(x * 2, out=[y, z])
    torch.ops.dynamlir_test.halves(y, out=[x[0:1], z])
    return y + 1, z


FUNCTIONS = [
    of_what_is_made,
    of_an_input,
    of_a_view,
    of_two,
    of_two_that_nobody_reads,
    of_lists,
    of_what_may_be_none,
    of_out,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_as_eager(function: Callable[[Tensor], Any]) -> None:
    """Values and writes agree with eager, and nothing runs plain. Version counters may differ: the number of increments
    by the operator's own code is unknown, so the compiled call counts one.
    """
    for door in DOORS.values():
        torch._dynamo.reset()
        dynamlir.reset()
        compiled, x = door(function), torch.rand(3, 4)
        with torch.no_grad():
            for _ in range(2):
                eager, ours = run(function, (x.clone(),), {}), run(compiled, (x.clone(),), {})
                assert not [found for found in differences(eager, ours) if "version" not in found]
        assert not dynamlir.fallbacks()


def test_the_graph_has_the_operator() -> None:
    dynamlir.reset()
    dynamlir.compile(of_two)(torch.rand(3, 4))
    made = dynamlir.last_compile()
    assert made is not None
    assert [extern.schema for extern in made.externs] == ["dynamlir_functional.dynamlir_test_swap_default.default"]


def test_an_operator_that_is_defined_again() -> None:
    """An operator may be defined again, for example by a notebook cell that runs twice. Compiled code of the old
    operator does not apply to the new one.
    """
    for by in (1.0, 2.0):

        @torch.library.custom_op("dynamlir_test::again", mutates_args=("x",))
        def again(x: Tensor) -> None:
            x.add_(by)  # noqa: B023

        def function(x: Tensor) -> Tensor:
            y = x.sin()
            again(y)
            return y

        x = torch.rand(3)
        assert torch.equal(dynamlir.compile(function)(x), x.sin() + by)
        assert not dynamlir.fallbacks()


def test_what_overlaps_runs_plain() -> None:
    """An argument that is written twice, or also read, would be copied more than once."""

    def twice(x: Tensor) -> Tensor:
        y = x.sin()
        add_to_all([y, y], x)
        return y

    def read(x: Tensor) -> Tensor:
        y = x.sin()
        add_where([y], y, x)
        return y

    for function in (twice, read):
        dynamlir.reset()
        x = torch.rand(3, 4)
        with torch.no_grad():
            assert torch.equal(dynamlir.compile(function)(x), function(x))
        assert dynamlir.counters()["fallbacks"] == {"overlap": 1}
