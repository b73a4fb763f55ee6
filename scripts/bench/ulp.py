"""The accuracy of generated functions: the worst distance from the true value, in units in its last place (ulp).

    scripts/bench/ulp.py [--step 101] [--only exp] [--limit 2]

float32: every step-th of all floats by their bits (`--step 1` takes them all: a minute or two per function), against
double precision; float64: two million drawn over all signs and exponents, against numpy's extended precision, for the
functions that it has. Eager is shown for comparison. Exits 1 when ours is worse than both the limit and eager.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sqrt",
            "rsqrt",
            "reciprocal",
            "sigmoid",
            "tanh",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "erf",
            "erfc",
            "erfinv",
            "lgamma",
            "digamma",
            "i0",
            "sinc",
            "logit",
        ]
    },
    "cube root": lambda x: x.abs() ** (1 / 3),
    "x ** 2.5": lambda x: x**2.5,
    "2.5 ** x": lambda x: 2.5**x,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "softplus": F.softplus,
    "mish": F.mish,
    "elu": F.elu,
    "log sigmoid": F.logsigmoid,
}
"""By name."""

CHUNK = 1 << 22


def floats(step: int) -> Iterator[Tensor]:
    """Yields float32 numbers by their bits, in chunks of equal length."""
    count = 2**32 // (CHUNK * step) + 1
    for number in range(count):
        bits = (torch.arange(CHUNK, dtype=torch.int64) + number * CHUNK) * step % 2**32
        yield (bits - 2**31).to(torch.int32).view(torch.float32)


def doubles() -> Tensor:
    """Returns float64 numbers of all signs, exponents and kinds."""
    bits = torch.randint(-(2**63), 2**63 - 1, (CHUNK // 2,), generator=torch.Generator().manual_seed(0))
    moderate = torch.randn(CHUNK // 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 20
    return torch.cat([bits.view(torch.float64), moderate])


def worst(found: np.ndarray, wanted: np.ndarray, digits: int, smallest: float, largest: float) -> tuple[float, int]:
    """Returns the worst distance and its position; infinite for a NaN or an infinity on one side only.

    ``digits`` are the format's bits after the leading one; values beyond ``largest`` are infinities in it.
    """
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.clip(np.abs(wanted), smallest, largest)))
        distance = np.abs(found.astype(wanted.dtype) - wanted) / np.exp2(exponent - digits)
        beyond = np.abs(wanted) > largest
        same = (np.isnan(found) & np.isnan(wanted)) | (found == wanted) | (beyond & np.isinf(found))
        distance = np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))
    at = int(distance.argmax())
    return float(distance[at]), at


def single(
    function: Callable[[Tensor], Tensor], compiled: Callable[[Tensor], Tensor], step: int
) -> list[tuple[float, float]]:
    """Returns, for float32, eager's worst and ours, each with its position."""
    seen = [(0.0, 0.0), (0.0, 0.0)]
    largest = float(torch.finfo(torch.float32).max)
    for x in floats(step):
        wanted = function(x.double()).numpy()
        for i, call in enumerate((function, compiled)):
            distance, at = worst(call(x).numpy(), wanted, 23, 2.0**-126, largest)
            if distance > seen[i][0]:
                seen[i] = (distance, float(x[at]))
    return seen


def double(
    name: str, function: Callable[[Tensor], Tensor], compiled: Callable[[Tensor], Tensor]
) -> list[tuple[float, float]]:
    """Does the same for float64, if numpy has the function in extended precision."""
    ufunc = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan"}.get(name, name), None)
    if not isinstance(ufunc, np.ufunc) or np.finfo(np.longdouble).nmant < 63:
        return []
    x = doubles()
    with np.errstate(all="ignore"):
        wanted = ufunc(x.numpy().astype(np.longdouble))
    largest = float(np.finfo(np.float64).max)
    seen = []
    for call in (function, compiled):
        distance, at = worst(call(x).numpy(), wanted, 52, 2.0**-1022, largest)
        seen.append((distance, float(x[at])))
    return seen


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=101)
    parser.add_argument("--only", help="this function")
    parser.add_argument("--limit", type=float, default=2.0)
    options = parser.parse_args()
    over = []
    print(
        f"{'':12} {'float32: eager':>15} {'dynamlir':>9} {'at':>13}   {'float64: eager':>15} {'dynamlir':>9} {'at':>13}"
    )
    for name, function in FUNCTIONS.items():
        if options.only not in (None, name):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(function, backend="dynamlir", dynamic=False)
        rows = [single(function, compiled, options.step), double(name, function, compiled)]
        cells = [f"{e[0]:15.2f} {o[0]:9.2f} {o[1]:13.6g}" for e, o in filter(None, rows)]
        print(f"{name:12} {'   '.join(cells)}", flush=True)
        if any(ours[0] > max(options.limit, eager[0]) for eager, ours in filter(None, rows)):
            over.append(name)
    print(f"worse than {options.limit} ulp and than eager: {', '.join(over) or 'none'}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
