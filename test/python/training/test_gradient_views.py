"""Views that a compiled function returns have eager's place in autograd's graph: values computed from them lead to
them, a view of a view leads to that view, and one of several views from one operation must not be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from both import DOORS
from torch import Tensor

Program = Callable[[Tensor], tuple[Tensor, ...]]


def unbound(x: Tensor) -> tuple[Tensor, ...]:
    return x.unbind()


def parts_of_a_result(x: Tensor) -> tuple[Tensor, ...]:
    whole = x * 2
    first, second = whole.split(1)
    return whole, first, second, first.sin()


def parts_of_parts(x: Tensor) -> tuple[Tensor, ...]:
    first = (x * 3).chunk(2)[0]
    return first, first[0], first[0].exp()


def slices_of_parts(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(part[:2] for part in x.unbind())


def copies_of_parts(x: Tensor) -> tuple[Tensor, ...]:
    return torch.unsafe_chunk(x * 1, 2)


def views_of_views(x: Tensor) -> tuple[Tensor, ...]:
    whole = x * 2
    row = whole[0]
    return whole, row, row[1:], row[1:].sin()


def later_first(x: Tensor) -> tuple[Tensor, ...]:
    row = (x * 2)[0]
    rest = row[1:]
    return rest.sin(), rest, row.cos(), row


def views_of_the_argument(x: Tensor) -> tuple[Tensor, ...]:
    row = x[0]
    return row, row[1:].sin(), row.cos()


def chains_of_the_argument(x: Tensor) -> tuple[Tensor, ...]:
    row = x[0]
    rest = row[1:]
    return row, rest, rest.sin(), row.cos()


def the_whole_again(x: Tensor) -> tuple[Tensor, ...]:
    whole = x * 2
    again = whole.view_as(whole)
    return whole, again, again.sin(), whole.cos()


def the_whole_argument(x: Tensor) -> tuple[Tensor, ...]:
    again = x[:]
    return again, again.sin(), x.cos(), again[0]


def forth_and_back(x: Tensor) -> tuple[Tensor, ...]:
    turned = (x * 2).t()
    back = turned.t()
    flat = back.flatten()
    return turned, back, flat, flat[1:4].sin()


def detached_between(x: Tensor) -> tuple[Tensor, ...]:
    row = (x * 2)[0]
    return row, row.detach()[1:], row[1:].sin()


def written_within(x: Tensor) -> tuple[Tensor, ...]:
    whole = x * 2
    row = whole[0]
    rest = row[1:]
    whole.mul_(2)
    return whole, row, rest, rest.sin()


def a_part_written_within(x: Tensor) -> tuple[Tensor, ...]:
    whole = x * 2
    row = whole[0]
    early = row + 5
    row.mul_(3)
    return whole, row, row.neg(), early, row[1:] + 2


def made_without_grad(x: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        row = x[0]
    return row, row[1:], x * 2


PROGRAMS: list[Program] = [
    unbound,
    parts_of_a_result,
    parts_of_parts,
    slices_of_parts,
    copies_of_parts,
    views_of_views,
    later_first,
    views_of_the_argument,
    chains_of_the_argument,
    the_whole_again,
    the_whole_argument,
    forth_and_back,
    detached_between,
    written_within,
    a_part_written_within,
    made_without_grad,
]


@pytest.fixture(params=list(DOORS))
def door(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return DOORS[request.param]


def fresh(requires_grad: bool) -> Tensor:
    leaf = torch.arange(6.0).reshape(2, 3).requires_grad_(requires_grad)
    return leaf * 1 if requires_grad else leaf


def facts(outputs: tuple[Tensor, ...], x: Tensor) -> list[Any]:
    """The facts about outputs that a user can see: their bases, their histories, and how they may be written."""

    def base(output: Tensor) -> Any:
        shown = next((at for at, other in enumerate(outputs) if output._base is other), "hidden")
        return "argument" if output._base is x else shown if output._base is not None else None

    meta = torch._C._autograd._get_creation_meta
    return [(base(it), it.requires_grad, it.grad_fn is None, it._is_view() and meta(it)) for it in outputs]


def between(outputs: tuple[Tensor, ...], x: Tensor) -> list[Tensor | None]:
    """The gradient of each output with respect to each other output, and to the tensor from before the call."""
    found = []
    for output in outputs:
        if output.requires_grad:
            others = [other for other in outputs if other.requires_grad and other is not output]
            found += torch.autograd.grad(output.sum(), [*others, x], retain_graph=True, allow_unused=True)
    return found


def after_a_write(program: Program, at: int, requires_grad: bool) -> list[Tensor | None] | str:
    """Outputs and gradients after a write to output ``at``, or the kind of error if the write is refused."""
    x = fresh(requires_grad)
    try:
        outputs = program(x)
        outputs[at].mul_(3)
        total = sum(output.sum() for output in outputs if output.requires_grad)
        found = torch.autograd.grad(total, x, allow_unused=True) if isinstance(total, Tensor) else ()
    except RuntimeError as error:
        text = str(error)
        return next(
            kind for kind in ("multiple views", "no_grad mode", "inplace", "does not require grad") if kind in text
        )
    return [*(output.detach() for output in outputs), *found]


def same(ours: list[Tensor | None] | str, eager: list[Tensor | None] | str) -> None:
    assert (isinstance(ours, str), len(ours)) == (isinstance(eager, str), len(eager)), (ours, eager)
    if isinstance(ours, str) or isinstance(eager, str):
        assert ours == eager
        return
    assert [it is None for it in ours] == [it is None for it in eager]
    torch.testing.assert_close([it for it in ours if it is not None], [it for it in eager if it is not None])


@pytest.mark.parametrize("program", PROGRAMS)
def test_views_lead_where_eagers_do(program: Program, door: Callable[..., Any]) -> None:
    compiled = door(program)
    for requires_grad in (True, False):
        x, y = fresh(requires_grad), fresh(requires_grad)
        eager, ours = program(x), compiled(y)
        assert facts(ours, y) == facts(eager, x)
        same(between(ours, y), between(eager, x))


@pytest.mark.parametrize("program", PROGRAMS)
def test_views_are_written_as_eagers_are(program: Program, door: Callable[..., Any]) -> None:
    compiled = door(program)
    for requires_grad in (True, False):
        for at in range(len(program(fresh(False)))):
            same(after_a_write(compiled, at, requires_grad), after_a_write(program, at, requires_grad))


def test_a_part_must_not_be_written_though_it_has_no_gradient(door: Callable[..., Any]) -> None:
    """The tensor that is written into it has one."""
    weight = torch.ones(3, requires_grad=True)
    for function in (unbound, door(unbound)):
        with pytest.raises(RuntimeError, match="multiple views"):
            function(torch.zeros(2, 3))[0].mul_(weight)


def test_parts_may_be_written_with_grad_mode_off(door: Callable[..., Any]) -> None:
    compiled = door(unbound)
    with torch.no_grad():
        x = torch.ones(2, 3, requires_grad=True)
        compiled(x)[0].mul_(3)
    assert x[0].tolist() == [3, 3, 3]
    with torch.inference_mode():
        assert compiled(torch.ones(2, 3))[1].mul_(2).tolist() == [2, 2, 2]


class Shown(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(-1), (x * 2).t()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("nothing has a gradient")


def shown_by_a_function(x: Tensor) -> tuple[Tensor, ...]:
    return Shown.apply(x)


def shown_further(x: Tensor) -> tuple[Tensor, ...]:
    return x + 1, Shown.apply(x)[0][1:]


@pytest.mark.parametrize("program", [shown_by_a_function, shown_further])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad])
def test_what_a_function_shows_of_an_argument_is_refused_in_its_words(program: Program, mode: Any) -> None:
    weight = torch.ones((), requires_grad=True)
    compiled = dynamlir.compile(program)
    for function in (compiled, program, compiled):
        with mode():
            views = function(torch.ones(2, 3))
        at = 0 if program is shown_by_a_function else 1
        if mode is torch.enable_grad:
            with pytest.raises(RuntimeError, match="created inside a custom Function"):
                views[at].add_(weight)
        with torch.no_grad():
            assert views[at].mul_(2).eq(2).all()
