"""Special functions agree with eager over dense ranges, and poolings with windows of all shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from harness import check
from torch import Tensor

SPECIALS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    5.0,
    8.0,
    -3.0,
    10.0,
    1e-30,
    -1e-30,
    float("inf"),
    float("-inf"),
    float("nan"),
]

UNARY: dict[str, tuple[Callable[[Tensor], Tensor], float, float]] = {
    "digamma": (torch.digamma, -12, 40),
    "erfinv": (torch.erfinv, -1.1, 1.1),
    "erfcx": (torch.special.erfcx, -9, 120),
    "ndtri": (torch.special.ndtri, -0.1, 1.1),
    "log_ndtr": (torch.special.log_ndtr, -60, 12),
    "i0": (torch.i0, -20, 20),
    "i0e": (torch.special.i0e, -60, 60),
    "i1": (torch.special.i1, -20, 20),
    "i1e": (torch.special.i1e, -60, 60),
    "modified_bessel_k0": (torch.special.modified_bessel_k0, -1, 30),
    "modified_bessel_k1": (torch.special.modified_bessel_k1, -1, 30),
    "scaled_modified_bessel_k0": (torch.special.scaled_modified_bessel_k0, -1, 60),
    "scaled_modified_bessel_k1": (torch.special.scaled_modified_bessel_k1, -1, 60),
    "bessel_j0": (torch.special.bessel_j0, -60, 60),
    "bessel_j1": (torch.special.bessel_j1, -60, 60),
    "bessel_y0": (torch.special.bessel_y0, -1, 60),
    "bessel_y1": (torch.special.bessel_y1, -1, 60),
    "spherical_bessel_j0": (torch.special.spherical_bessel_j0, -30, 30),
    "airy_ai": (torch.special.airy_ai, -20, 120),
    "polygamma_1": (lambda x: torch.polygamma(1, x), -5, 30),
    "polygamma_2": (lambda x: torch.polygamma(2, x), -5, 30),
    "polygamma_3": (lambda x: torch.polygamma(3, x), -5, 30),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", UNARY)
def test_dense(name: str, dtype: torch.dtype) -> None:
    function, low, high = UNARY[name]
    check(function, torch.cat([torch.linspace(low, high, 4001, dtype=dtype), torch.tensor(SPECIALS, dtype=dtype)]))


def test_zeta_of_all_signs() -> None:
    s = torch.tensor([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 7.5, 30.0], dtype=torch.float64)[:, None]
    check(torch.special.zeta, s, torch.linspace(-7.3, 30, 300, dtype=torch.float64))


@pytest.mark.parametrize(
    "name", [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
)
def test_chebyshev_polynomials(name: str) -> None:
    x = torch.linspace(-3, 3, 97)[:, None]
    check(getattr(torch.special, name), x, torch.arange(-2.0, 12.0))


def test_parts_of_floats() -> None:
    x = torch.tensor([*SPECIALS, 1e-40, -3e-45, 3e38, 1.5, -7.0])
    check(torch.frexp, x)
    check(torch.frexp, x.double() * 1e-300)
    check(torch.frexp, torch.tensor([0.5, 6e-8, -65504.0], dtype=torch.float16))
    check(torch.nextafter, torch.randn(64), torch.randn(64))


def image(*shape: int) -> Tensor:
    """Few distinct values, so that maxima are not unique; with a NaN and an infinity."""
    x = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(3)).float()
    x.view(-1)[7] = float("nan")
    x.view(-1)[11:19] = float("-inf")
    return x


@pytest.mark.parametrize("indices", [False, True])
@pytest.mark.parametrize(
    "window",
    [
        {"kernel_size": 3, "stride": 2, "padding": 1},
        {"kernel_size": (2, 5), "stride": (1, 2), "padding": (1, 2), "ceil_mode": True},
        {"kernel_size": 2, "stride": 3, "dilation": (2, 3), "padding": 1},
    ],
)
def test_max_pool(window: dict[str, object], indices: bool) -> None:
    check(lambda x: F.max_pool2d(x, **window, return_indices=indices), image(2, 3, 9, 11))
    check(lambda x: F.max_pool2d(x, **window, return_indices=indices), image(3, 9, 11).to(torch.bfloat16))
    check(lambda x: F.max_pool3d(x, 2, 1, 1, return_indices=indices), image(1, 2, 4, 5, 6))
    check(lambda x: F.adaptive_max_pool2d(x, (4, 3), return_indices=indices), image(2, 3, 9, 11))


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
def test_avg_pool(include: bool, ceil: bool) -> None:
    x = torch.randn(2, 3, 9, 11)
    check(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil, include), x)
    check(lambda x: F.avg_pool2d(x, (2, 4), (3, 1), (0, 2), ceil, include, 5), x)
    check(lambda x: F.avg_pool1d(x, 3, 2, 1, ceil, include), x[0])
    check(lambda x: F.avg_pool3d(x, 2, 3, 1, ceil, include), torch.randn(1, 2, 5, 6, 7))
    check(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), x)


@pytest.mark.parametrize("p", [0.0, 1.0, 1.5, 2.0, float("inf")])
def test_cdist(p: float) -> None:
    check(lambda a, b: torch.cdist(a, b, p), torch.randn(2, 7, 5), torch.randn(4, 5))


def test_isin() -> None:
    check(lambda x, s: torch.isin(x, s, invert=True), torch.arange(20).reshape(4, 5), torch.tensor([3, 3, 17]))
