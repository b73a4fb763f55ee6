"""Gradients through complex numbers: eager's for each operator, of first and second order, through both doors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor

pytestmark = [
    pytest.mark.filterwarnings("ignore::dynamlir.PlainRunWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values"),
]

as_real, as_complex = torch.view_as_real, torch.view_as_complex


def real(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def complexes(*shape: int, dtype: torch.dtype = torch.complex64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape)))


def turned(x: Tensor, turns: Tensor) -> Tensor:
    pairs = as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return as_real(pairs * turns).flatten(3).type_as(x)


def written(a: Tensor, b: Tensor) -> Tensor:
    made = a * 2
    made[:, 1] = b[:, 0] * a[:, 2]
    made.mul_(b)
    return as_real(made).sin()


def written_as_real(a: Tensor) -> Tensor:
    made = a * a
    made.real.mul_(3)
    as_real(made)[0, 0] = 1
    return made * a


def written_as_complex(x: Tensor, b: Tensor) -> Tensor:
    made = x * 2
    as_complex(made).mul_(b)
    return made.sin()


def layers(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
    first = a * b
    shown = as_real(first * a)
    return first, shown, shown.cos(), (first @ a.mT).abs()


PROGRAMS: dict[str, tuple[Callable[..., Any], Sequence[Tensor]]] = {
    "rotary": (turned, [real(2, 5, 3, 8), torch.polar(torch.ones(1, 5, 1, 4), real(1, 5, 1, 4))]),
    "product": (lambda a, b: a * b, [complexes(3, 4), complexes(3, 4)]),
    "product, broadcast": (lambda a, b: (a * b).abs(), [complexes(3, 4), complexes(2, 1, 4)]),
    "product with real numbers": (lambda a, b: as_real(a * b), [complexes(3, 4), real(3, 1)]),
    "product of two widths": (lambda a, b: as_real(a * b), [complexes(3, dtype=torch.complex128), complexes(2, 3)]),
    "quotient": (lambda a, b: as_real(a / b), [complexes(3, 4), complexes(4)]),
    "quotient of a real number": (lambda a, b: as_real(a / b), [real(3, 4), complexes(4)]),
    "sum": (lambda a, b: (a + b).abs(), [complexes(3, 4), real(4)]),
    "difference": (lambda a, b: as_real(b - 2 * a).exp(), [complexes(3, 4), real(4)]),
    "negated": (lambda a: as_real(-a * a), [complexes(3, 4)]),
    "parts": (lambda a: (a * a).real * (a * 2).imag, [complexes(3, 4)]),
    "a part that is returned": (lambda a: (a * a).real, [complexes(3, 4)]),
    "magnitude": (lambda a: a.abs().square().sum(0), [complexes(3, 4)]),
    "made of parts": (lambda x, y: torch.complex(x * y, y).exp(), [real(3, 4), real(3, 4)]),
    "pairs that are returned": (lambda x: as_complex((x * x).reshape(3, 4, 2)), [real(3, 8)]),
    "rows": (lambda a: (a[1:] * a[:-1]).transpose(0, 1), [complexes(3, 4)]),
    "matrices": (lambda a, b: torch.einsum("ij,jk->ki", a, b), [complexes(3, 4), complexes(4, 2)]),
    "chosen": (lambda a, b: torch.where(a.real > 0, a * b, b), [complexes(3, 4), complexes(3, 4)]),
    "spectrum": (lambda x, w: torch.fft.irfft(torch.fft.rfft(x) * w, n=8), [real(3, 8), complexes(5)]),
    "written": (written, [complexes(3, 4), complexes(3, 4)]),
    "written as real numbers": (written_as_real, [complexes(3, 4)]),
    "written as complex numbers": (written_as_complex, [real(3, 4, 2), complexes(4)]),
    "layers": (layers, [complexes(3, 4), complexes(3, 4)]),
}


def reals(values: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The values with their conjugate and negative bits resolved."""
    return [None if value is None else value.detach().resolve_conj().resolve_neg() for value in values]


def gradients(function: Callable[..., Any], arguments: Sequence[Tensor]) -> list[Tensor | None]:
    """The results, first gradients and second gradients of a function."""
    leaves = [argument.clone().requires_grad_() for argument in arguments]
    made = function(*leaves)
    results = made if isinstance(made, tuple) else (made,)

    def loss(values: Sequence[Tensor | None]) -> Tensor:
        parts = [
            as_real(value.resolve_conj()) if value.is_complex() else value for value in values if value is not None
        ]
        return torch.stack(
            [(part * torch.linspace(1, 2, part.numel()).reshape(part.shape).sin()).sum() for part in parts]
        ).sum()

    first = torch.autograd.grad(loss(results), leaves, create_graph=True)
    squares = loss([(gradient * gradient) for gradient in first])
    second = torch.autograd.grad(squares, leaves, allow_unused=True) if squares.requires_grad else ()
    return [*reals(results), *reals(first), *reals(second)]


@pytest.mark.parametrize("door", ["dynamlir", "torch"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_eagers(name: str, door: str) -> None:
    function, arguments = PROGRAMS[name]
    dynamlir.reset()
    compiled = (
        dynamlir.compile(function, fullgraph=True)
        if door == "dynamlir"
        else torch.compile(function, backend="dynamlir", fullgraph=True)
    )
    seen, right = gradients(compiled, arguments), gradients(function, arguments)
    assert dynamlir.fallbacks() == []
    for one, other in zip(seen, right, strict=True):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_rotary_embedding_of_any_length() -> None:
    compiled = dynamlir.compile(turned, dynamic=True)
    for length in (5, 7, 12):
        turns = torch.polar(torch.ones(1, length, 1, 4), real(1, length, 1, 4))
        found = [
            torch.autograd.grad(f(x, turns).sin().sum(), x)[0]
            for f in (compiled, turned)
            for x in [real(2, length, 3, 8).requires_grad_()]
        ]
        torch.testing.assert_close(*found)
    assert dynamlir.fallbacks() == []


def test_results_lie_and_share_memory_as_eagers() -> None:
    """A real view of an otherwise unreachable complex tensor is still a view; two such views share memory."""

    def halves(a: Tensor) -> tuple[Tensor, Tensor]:
        made = as_real(a * 2)
        return made[..., 0], made.flatten(1)[:, 1:]

    compiled = dynamlir.compile(halves, fullgraph=True)
    for function in (compiled, halves):
        first, rest = function(complexes(3, 4))
        assert (first.stride(), first.storage_offset(), rest.stride(), rest.storage_offset()) == ((8, 2), 0, (8, 1), 1)
        assert first._is_view() and rest._is_view()
        rest.zero_()
        assert first[:, 1:].eq(0).all() and first[:, 0].ne(0).all()
    assert dynamlir.fallbacks() == []


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (lambda a: (a * 2, as_real(a * 2).sum(), a.angle()), [complexes(3)], "autograd"),
        (lambda a, b: torch.polar(a, b), [real(3), real(3)], "autograd"),
        (lambda a: a * 2j, [complexes(3)], "complex"),
        (lambda a: (lambda made: (made, as_real(made)))(a * 2), [complexes(3)], "aliasing"),
        (lambda a: as_real(a), [complexes(3)], "aliasing"),
    ],
    ids=["angle", "polar", "complex number", "both types", "argument"],
)
def test_what_runs_plain(function: Callable[..., Any], arguments: Sequence[Tensor], reason: str) -> None:
    dynamlir.reset()
    seen, right = gradients(dynamlir.compile(function), arguments), gradients(function, arguments)
    assert {event.reason for event in dynamlir.fallbacks()} == {reason}
    for one, other in zip(seen, right, strict=True):
        assert one is not None and other is not None and torch.allclose(one, other)
