"""Edge values of each element type, and the comparison of compiled functions with eager on them.

Eager has two implementations of most operators, vectorized and scalar, which do not agree everywhere; layout and the
element's position decide which one computes an element. Ours must agree with one of them: in kind (NaN, infinity, zero
of a sign, other number) and to a few units in the last place. Where eager is inexact, ours may be nearer to the exact
value.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

WORDS = {8: torch.int64, 4: torch.int32, 2: torch.int16}
GROUP = 24
"""The number of operators in one graph."""

# Larger tolerances in units in the last place, by the beginning of the name, with the reason.
LOOSE: dict[str, tuple[float, str]] = {
    "nn.functional.tanhshrink": (math.inf, "x - tanh(x) is what is left of one unit in the last place"),
    "gelu_backward.tanh": (1e4, "1 - tanh² cancels"),
    "logaddexp2": (math.inf, "zero is a matter of the last bit"),
    "special.zeta": (64, "a sum"),
    "polygamma": (math.inf, "below zero terms of opposite sign cancel"),
    "special.": (64, "series in single precision, oscillations of large numbers"),
    "special.chebyshev": (math.inf, "the angle is multiplied by the order"),
    "special.shifted_chebyshev": (math.inf, "the angle is multiplied by the order"),
    "digamma": (16, "a series"),
    "i0": (16, "a series"),
}


@dataclasses.dataclass(frozen=True)
class Operator:
    """A function of one or two tensors, by name."""

    name: str
    function: Callable[..., Any]

    @property
    def ulps(self) -> float:
        """The allowed distance: that of the longest matching entry."""
        fitting = [key for key in LOOSE if self.name.startswith(key)]
        return LOOSE[max(fitting, key=len)][0] if fitting else 4


# -- values

SMALL = (
    "1e-8 1e-4 0.01 0.1 0.25 0.69314718 0.7071 0.75 0.9 0.99 1.4142135 11 11.09 12 16 20 30 33 60 100 110 127 128 150"
)
EXPONENTS = (
    "88 88.72 88.73 89 89.4 89.42 90 103 103.9 104 170 172 300 350 500 700 709 709.78 709.79 710 710.4 710.48 711"
)
LARGE = "745 746 1000 1e4 65504 65519 65520 1e5 1e6 1e8 1e10 1e19 1e20 1e30 1e38 3e38 1e100 1e154 1e155 1e200 1e300 inf"
QUARTER_TURNS = "1 2 3 4 5 10 100 1000 10001 1e5 1e6 1e10 1e20"
FEW = "0.1 0.5 1 1.5 2 2.5 3 3.1415926535 7 10 31 100 127 128 1000 1e4 1e10 1e19 1e30 1e38 1e154 1e300 inf"


def signed(values: Iterable[float], dtype: torch.dtype) -> Tensor:
    """The values, their negatives, and NaN."""
    positive = torch.tensor([*values], dtype=torch.float64).to(dtype)
    return torch.cat([positive, -positive, torch.tensor([math.nan], dtype=dtype)])


def integers(dtype: torch.dtype) -> Tensor:
    """Small integers and both ends of the range."""
    if dtype is torch.bool:
        return torch.tensor([False, True])
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = [low, low + 1, -3, -2, -1, 0, 1, 2, 3, 7, 31, 63, high - 1, high]
    return torch.tensor([value for value in values if low <= value <= high], dtype=dtype)


def line(dtype: torch.dtype) -> Tensor:
    """Values for functions of one number."""
    if not dtype.is_floating_point:
        return integers(dtype)
    facts = torch.finfo(dtype)
    least, most, eps, root = facts.smallest_normal, facts.max, facts.eps, math.sqrt(facts.max)
    ends = [0.0, least * eps, least / 2, least * (1 - eps), least, 2 * least, root, 1.01 * root, most / 2, most]
    steps = [
        eps / 2,
        eps,
        1 - eps / 2,
        1 + eps,
        *(k / 2 for k in range(1, 21)),
        *(2.0**k for k in (23, 24, 31, 52, 53, 63)),
    ]
    turns = (math.pi / 2 * float(word) for word in QUARTER_TURNS.split())
    return signed([*ends, *steps, *turns, *map(float, f"{SMALL} {EXPONENTS} {LARGE}".split())], dtype)


def grid(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Values for functions of two numbers, in all pairs, except those that trap: division by zero, or overflow."""
    if dtype.is_floating_point:
        facts = torch.finfo(dtype)
        least, most = facts.smallest_normal, facts.max
        ends = [0.0, least * facts.eps, least / 2, least, facts.eps, 2.0**24, 2.0**31, 2.0**53, most / 2, most]
        values = signed([*ends, *map(float, FEW.split())], dtype)
    else:
        values = integers(dtype)
    x, y = (side.reshape(-1) for side in torch.meshgrid(values, values, indexing="ij"))
    if dtype.is_floating_point:
        return x, y
    wide = [side.long() for side in (x, y)]
    overflows = [(a == values.long().min()) & (b == -1) for a, b in (wide, wide[::-1])]
    traps = (wide[1] == 0) | overflows[0] | overflows[1]
    return x[~traps], y[~traps]


def padded(x: Tensor) -> Tensor:
    """Padded to whole vectors, so that each value goes through the vectorized code."""
    missing = -len(x) % 64
    return torch.cat([x, x[:1].expand(missing)]) if missing else x


def in_gaps(x: Tensor) -> Tensor:
    """The same values in rows of three with a gap, so that they go through the scalar code."""
    rows = -(-len(x) // 3)
    gaps = torch.zeros(rows, 4, dtype=x.dtype)
    gaps[:, :3] = torch.cat([x, x[:1].expand(3 * rows - len(x))]).view(rows, 3)
    return gaps[:, :3]


# -- comparison


def leaves(result: Any, count: int) -> list[Tensor]:
    """The tensors of a result, flattened in the order of the values."""
    tensors = result if isinstance(result, (tuple, list)) else [result]
    return [tensor.contiguous().reshape(-1)[:count] for tensor in tensors]


def kind(x: Tensor) -> Tensor:
    """A different number for NaN, for each infinity, for each zero, and for all others."""
    return x.isnan() + 2 * x.isposinf() + 3 * x.isneginf() + (x == 0) * (4 + x.signbit().long())


def distance(x: Tensor, y: Tensor) -> Tensor:
    """The number of representable numbers between two finite numbers."""
    lowest = torch.iinfo(WORDS[x.itemsize]).min
    a, b = (side.view(WORDS[side.itemsize]).long() for side in (x, y))
    a, b = (torch.where(bits < 0, lowest - bits, bits) for bits in (a, b))
    return torch.where((a < 0) == (b < 0), (a - b).abs().double(), a.abs().double() + b.abs().double())


def judge(eager: Sequence[Tensor], ours: Tensor, exact: Tensor | None, ulps: float) -> tuple[Tensor, float]:
    """The places at which ours agrees with no eager result, and the largest distance from the nearest one in units in
    the last place.
    """
    agrees = torch.zeros(len(ours), dtype=torch.bool)
    nearest = torch.full([len(ours)], math.inf, dtype=torch.float64)
    for theirs in eager:
        if not ours.is_floating_point():
            agrees |= ours == theirs
            continue
        finite = ours.isfinite() & theirs.isfinite()
        away = torch.where(kind(ours) == kind(theirs), torch.where(finite, distance(ours, theirs), 0.0), math.inf)
        agrees |= away <= min(ulps, torch.finfo(torch.float64).max)
        if math.isinf(ulps):
            agrees |= finite
        if exact is not None:
            error, their_error = ((side.double() - exact).abs() for side in (ours, theirs))
            agrees |= finite & (error <= 1.001 * their_error)
        nearest = torch.minimum(nearest, away)
    known = nearest[nearest.isfinite()]
    return ~agrees, float(known.max()) if len(known) else 0.0


def in_doubles(operator: Operator, inputs: tuple[Tensor, ...]) -> list[Tensor] | None:
    """Eager's result in double precision; None if the operands cannot be doubles."""
    try:
        return leaves(operator.function(*(x.double() for x in inputs)), len(inputs[0]))
    except RuntimeError:
        return None


def groups(operators: Iterable[Operator]) -> Iterator[tuple[Operator, ...]]:
    """Splits the operators into groups of one graph each."""
    rest = iter(operators)
    while group := tuple(itertools.islice(rest, GROUP)):
        yield group


def check(operators: Iterable[Operator], inputs: tuple[Tensor, ...], *, gaps: bool) -> None:
    """Compiles the operators in groups and compares them with eager; with ``gaps``, in the scalar layout too."""
    inputs = tuple(padded(x) for x in inputs)
    count = len(inputs[0])
    layouts = [inputs, tuple(in_gaps(x) for x in inputs)]
    narrow = inputs[0].is_floating_point() and inputs[0].dtype is not torch.float64
    found: list[str] = []
    with torch.no_grad():
        for group in groups(operators):
            eager, exact = {}, {}
            for operator in group:
                try:
                    eager[operator] = [leaves(operator.function(*layout), count) for layout in layouts]
                except (RuntimeError, TypeError, ValueError):
                    continue  # not supported for this element type
                exact[operator] = in_doubles(operator, inputs) if narrow else None
            functions = [operator.function for operator in eager]
            for layout in layouts if gaps else layouts[:1]:
                torch._dynamo.reset()
                compiled = torch.compile(lambda *args, fs=functions: [f(*args) for f in fs], backend="dynamlir")
                for operator, result in zip(eager, compiled(*layout)):
                    found += compare(operator, eager[operator], leaves(result, count), exact[operator], inputs)
    assert not found, "\n".join(found)


def compare(
    operator: Operator,
    eager: list[list[Tensor]],
    ours: list[Tensor],
    exact: list[Tensor] | None,
    inputs: tuple[Tensor, ...],
) -> Iterator[str]:
    """Each difference as a line. The distances are also printed, for reference."""
    for at, mine in enumerate(ours):
        theirs = [layout[at] for layout in eager]
        if mine.dtype != theirs[0].dtype:
            yield f"{operator.name}: {mine.dtype} for {theirs[0].dtype}"
            continue
        is_narrow = mine.is_floating_point() and mine.dtype != torch.float64
        wrong, most = judge(theirs, mine, exact[at] if exact is not None and is_narrow else None, operator.ulps)
        print(f"{most:12g} units in the last place: {operator.name} {inputs[0].dtype}")
        for place in wrong.nonzero().flatten().tolist()[:5]:
            arguments = ", ".join(repr(x[place].item()) for x in inputs)
            values = " or ".join(repr(result[place].item()) for result in theirs)
            yield f"{operator.name}({arguments}): {mine[place].item()!r} for {values}"
