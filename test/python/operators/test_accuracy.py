"""The accuracy of generated math against double precision, on every 997th float32.

`scripts/bench/ulp.py` tabulates all functions.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

SMALLEST_NORMAL = 2.0**-126


def every_float(step: int = 997) -> Tensor:
    """Floats of all signs, exponents and kinds, built from their bits."""
    return torch.arange(-(2**31), 2**31, step).to(torch.int32).view(torch.float32)


def units(found: Tensor, wanted: Tensor) -> Tensor:
    """The distance in units in the last place of the expected number; 0 for equal infinities."""
    last = torch.exp2(torch.floor(torch.log2(wanted.abs().clamp(min=SMALLEST_NORMAL))) - 23)
    distance = (found.double() - wanted).abs() / last
    return torch.where(found == wanted.float(), 0.0, distance)


@pytest.mark.parametrize(
    ("function", "limit"),
    [
        (torch.exp, 0.95),
        (torch.exp2, 0.95),
        (torch.erf, 1.05),
        (torch.sinh, 1.9),
        (torch.acosh, 1.9),
        (torch.log, 0.95),
        (torch.log2, 0.95),
        (torch.log10, 0.95),
        (torch.sin, 0.95),
        (torch.cos, 0.95),
        (torch.tan, 1.05),
        (torch.atan, 1.5),
        (torch.tanh, 1.7),
        (torch.asin, 2.2),
        (torch.acos, 1.3),
        (torch.erfinv, 3.3),
        (torch.erfc, 4.2),
    ],
)
def test_within_units_in_the_last_place(function: Callable[[Tensor], Tensor], limit: float) -> None:
    x = every_float()
    found, wanted = torch.compile(function, backend="dynamlir")(x), function(x.double())
    defined = ~wanted.isnan()
    torch.testing.assert_close(found.isnan(), ~defined)
    error = units(found, wanted)[defined]
    assert error.max() <= limit, x[defined][error.argmax()]


def test_powers_of_two_are_exact() -> None:
    x = torch.arange(-160.0, 140.0)
    x = torch.cat([x, torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0, 127.99999, -149.5])])
    found = torch.compile(torch.exp2, backend="dynamlir")(x)
    torch.testing.assert_close(found, torch.exp2(x.double()).float(), rtol=0, atol=0, equal_nan=True)


def test_the_ends_are_exact() -> None:
    x = torch.tensor([float("inf"), -float("inf"), 0.0, -0.0, 88.75, -104.0, 4.0, -4.0, 1e-45])
    compiled = torch.compile(lambda x: (torch.exp(x), torch.erf(x)), backend="dynamlir")
    exp, erf = compiled(x)
    assert exp[:6].tolist() == [float("inf"), 0.0, 1.0, 1.0, float("inf"), 0.0]
    assert erf[[0, 1, 6, 7]].tolist() == [1.0, -1.0, 1.0, -1.0]
    assert erf[2:4].signbit().tolist() == [False, True]
    assert erf[8] == 1e-45
