"""Functions that our own formulas compute in vectors agree with eager: common arguments, and rare ones among them."""

from __future__ import annotations

import math
from collections.abc import Callable

import dynamlir
import mpmath
import pytest
import torch
from torch import Tensor

FLOATS = [torch.float32, torch.float64]
BITS = {torch.float32: torch.int32, torch.float64: torch.int64}
COUNT = 4099


def bits(dtype: torch.dtype, seed: int) -> Tensor:
    """Numbers of all magnitudes, including infinities and NaN."""
    word = BITS[dtype]
    generator = torch.Generator().manual_seed(seed)
    limits = torch.iinfo(word)
    return torch.randint(limits.min, limits.max, (COUNT,), dtype=word, generator=generator).view(dtype)


def between(dtype: torch.dtype, low: float, high: float) -> Tensor:
    return torch.linspace(low, high, COUNT, dtype=torch.float64).to(dtype)


def pairs(dtype: torch.dtype) -> dict[str, tuple[Tensor, Tensor]]:
    divisor = between(dtype, 0.01, 3.0)
    whole = torch.arange(COUNT, dtype=dtype) * 37
    tiny = torch.finfo(dtype).smallest_normal
    special = torch.tensor([0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, math.nan, tiny / 8, -tiny], dtype=dtype)
    return {
        "common": (between(dtype, -300.0, 300.0), divisor),
        "multiples": (whole * divisor, divisor),
        "just below multiples": (torch.nextafter(whole * divisor, torch.zeros_like(whole)), divisor),
        "one far lane": (between(dtype, -9.0, 9.0).index_fill(0, torch.arange(0, COUNT, 40), 1e30), divisor),
        "all magnitudes": (bits(dtype, 1), bits(dtype, 2)),
        "subnormal": (between(dtype, -tiny, tiny), between(dtype, tiny / 1000, tiny / 10)),
        "special": (special.repeat(9), special.repeat_interleave(9)),
    }


def remainder(x: float, y: float) -> float:
    """The remainder as in C."""
    return math.fmod(x, y) if math.isfinite(x) and y and not math.isnan(y) else math.nan


def same(a: Tensor, b: Tensor) -> bool:
    """Returns true if both are bitwise equal, except for the bits of NaN."""
    word = BITS[a.dtype]
    return bool(((a.view(word) == b.view(word)) | (a.isnan() & b.isnan())).all())


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_are_exact(dtype: torch.dtype) -> None:
    """For infinite quotients and divisors eager's vectors give NaN and its scalars the remainder, as the C function
    does.
    """
    compiled = dynamlir.compile(torch.fmod)
    for name, (x, y) in pairs(dtype).items():
        wanted = [remainder(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        assert same(compiled(x, y), torch.tensor(wanted, dtype=dtype)), name


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("function", [torch.remainder, torch.floor_divide, torch.nextafter])
def test_pairs_are_eagers(function: Callable[..., Tensor], dtype: torch.dtype) -> None:
    compiled = dynamlir.compile(function)
    for name, (x, y) in pairs(dtype).items():
        if name not in ("all magnitudes", "special") or function is torch.nextafter:
            assert same(compiled(x, y), function(x, y)), name


@pytest.mark.parametrize("function", [torch.sin, torch.cos, torch.tan, torch.lgamma])
@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_at_any_distance(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    compiled = dynamlir.compile(function)
    quarters = (torch.arange(COUNT, dtype=torch.float64) * (math.pi / 2)).to(dtype)
    special = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, 1e-40, -1e30], dtype=dtype).repeat(8)
    sets = {
        "near": between(dtype, -7.0, 7.0),
        "far": between(dtype, -3e5, 3e5),
        "very far": between(dtype, -3e12, 3e12),
        "quarters": quarters,
        "one far lane": between(dtype, -9.0, 9.0).index_fill(0, torch.arange(0, COUNT, 40), 3e30),
        "special": special,
    }
    for name, x in sets.items():
        ours, wanted = compiled(x), function(x)
        torch.testing.assert_close(ours, wanted, equal_nan=True, msg=lambda text, name=name: f"{name}: {text}")
        zeros = wanted == 0
        assert torch.equal(torch.signbit(ours[zeros]), torch.signbit(wanted[zeros])), name


DOUBLES: dict[Callable[[Tensor], Tensor], tuple[float, float, float]] = {
    torch.exp: (-709.0, 709.7, 1.1),
    torch.log: (0.0, 5.0, 1.0),
    torch.log2: (0.0, 5.0, 1.0),
    torch.log10: (0.0, 5.0, 1.0),
    torch.sin: (-2000.0, 2000.0, 1.6),
    torch.cos: (-2000.0, 2000.0, 1.7),
    torch.atan: (-6.0, 6.0, 1.3),
    torch.asin: (-1.0, 1.0, 1.3),
    torch.acos: (-1.0, 1.0, 1.4),
    torch.tan: (-2000.0, 2000.0, 2.0),
    torch.tanh: (-22.0, 22.0, 1.5),
    torch.erf: (-4.0, 4.0, 1.1),
    torch.erfc: (-6.0, 26.0, 4.2),
    torch.erfinv: (-1.0, 1.0, 3.4),
}
"""For functions of `f64`, the range of common arguments, and the allowed error in units in the last place."""


@pytest.mark.parametrize("function", DOUBLES, ids=lambda function: function.__name__)
def test_doubles_within_units_in_the_last_place(function: Callable[[Tensor], Tensor]) -> None:
    low, high, limit = DOUBLES[function]
    near = torch.exp(between(torch.float64, -30.0, math.log(min(high, 3.0)))[::11])
    near = torch.cat([near, -near]) if low < 0 else near
    x = torch.cat([between(torch.float64, low, high)[1:-1:3], near])
    exactly = getattr(mpmath, function.__name__, lambda x: mpmath.log(x, 2))
    with mpmath.workdps(30):
        wanted = [exactly(mpmath.mpf(number)) for number in x.tolist()]
        found = dynamlir.compile(function)(x).tolist()
        off = [float(abs(a - b) / mpmath.mpf(math.ulp(float(b)))) for a, b in zip(found, wanted, strict=True)]
    assert max(off) <= limit, x[off.index(max(off))].item()


@pytest.mark.parametrize("function", DOUBLES, ids=lambda function: function.__name__)
def test_rare_doubles_among_others(function: Callable[[Tensor], Tensor]) -> None:
    """Each rare number occurs alone among common ones, and in whole vectors."""
    _, high, _ = DOUBLES[function]
    tiny = torch.finfo(torch.float64).smallest_normal
    special = [
        0.0,
        1.0,
        0.5,
        math.inf,
        math.nan,
        tiny,
        tiny / 8,
        5e-324,
        1e300,
        750.0,
        30.0,
        6.1,
        26.7,
        1e7,
        709.75,
        740.0,
        1.0 - 2**-53,
    ]
    rare = torch.tensor([*special, *(-number for number in special)], dtype=torch.float64)
    alone = torch.full((len(rare), 17), min(high, 1.0) / 3, dtype=torch.float64)
    alone[:, 5] = rare
    compiled = dynamlir.compile(function)
    for x in (alone.flatten(), rare.repeat_interleave(16)):
        ours, wanted = compiled(x), function(x)
        torch.testing.assert_close(ours, wanted, rtol=1e-15, atol=5e-324, equal_nan=True)
        assert torch.equal(ours.signbit() & (ours == 0), wanted.signbit() & (wanted == 0))


def test_a_remainder_in_the_middle_of_a_kernel() -> None:
    x = between(torch.float32, -50.0, 50.0).reshape(-1, 1).expand(-1, 3)

    def wave(x: Tensor) -> Tensor:
        return ((x * 440.0) % 1.3 - 0.65).sin().sum(0)

    torch.testing.assert_close(dynamlir.compile(wave)(x), wave(x), atol=1e-3, rtol=1e-5)
