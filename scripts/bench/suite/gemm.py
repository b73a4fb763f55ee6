"""`gemm`: float32 matrix products, cubes and those of a few rows, as rates compared with torch's own.

A product of a few rows is memory-bound: its rate is that of reading the weights. It is measured in both forms that
models use, `x @ w` and `linear(x, w)`, whose weights are transposed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from . import contestants, measure, record

TOLERANCE = 1e-5

CUBES = (256, 384, 512, 768, 1024)
ROWS = (1, 4, 8, 16)
WEIGHTS = ((768, 768), (768, 3072), (3072, 768))
"""The columns of the rows, and of the result."""


def product(x: Tensor, w: Tensor) -> Tensor:
    """Multiplies rows by columns."""
    return torch.mm(x, w)


def linear(x: Tensor, w: Tensor) -> Tensor:
    """Multiplies rows by rows."""
    return F.linear(x, w)


def cases() -> dict[str, tuple[Callable[..., Tensor], int, int, int]]:
    """Returns, by name, the function, and rows, depth and columns of the product."""
    made = {f"mm {side}x{side}x{side}": (product, side, side, side) for side in CUBES}
    for rows in ROWS:
        for depth, columns in WEIGHTS:
            made[f"mm {rows}x{depth}x{columns}"] = (product, rows, depth, columns)
            made[f"linear {rows}x{depth}x{columns}"] = (linear, rows, depth, columns)
    return made


def run(output: record.Record, field: contestants.Field, only: str, threads: Sequence[int], seconds: float) -> None:
    """Prints and records the table, and the geometric mean of each half."""
    heads = "".join(f"{name:>10}" for name in ["torch", *field.compilers])
    output.part(
        "gemm",
        f"gemm: float32, GFLOP per second, dynamlir through {field.door}; ratios of times with 95 % intervals",
        f"{'':26}{'threads':>8}{heads}  {'  '.join(pair.ljust(22) for pair in field.pairs)} {'error':>8}{'rate':>7}",
    )
    rates: dict[tuple[str, int], list[float]] = {}
    for count in threads:
        torch.set_num_threads(count)
        for name, (function, rows, depth, columns) in cases().items():
            if only not in name:
                continue
            line, text = one(field, name, function, (rows, depth, columns), count, seconds)
            output.add(line, text)
            half = "cubes" if rows == columns else f"at most {max(ROWS)} rows"
            rates.setdefault((half, count), []).append(line.figures["rate"])
    for (half, count), list_ in rates.items():
        mean = measure.geometric_mean(list_)
        label = f"rate over torch's, {half}, {count} thread(s)"
        output.summary(label, mean, f"{label}: geometric mean {mean:.3f}, least {min(list_):.3f}")


def one(
    field: contestants.Field,
    name: str,
    function: Callable[..., Tensor],
    sizes: tuple[int, int, int],
    threads: int,
    seconds: float,
) -> tuple[record.Line, str]:
    """Returns one line; the caller has set the number of threads."""
    rows, depth, columns = sizes
    with torch.no_grad():
        torch.manual_seed(0)
        w = torch.randn(depth, columns) if function is product else torch.randn(columns, depth)
        operands = [torch.randn(rows, depth), w]
        entered = contestants.enter(field, function, operands, tolerance=TOLERANCE)
        calls = {who: partial(call, *operands) for who, call in entered.functions.items()}
        samples = measure.sample(calls, seconds, measure.clock(threads))
    line = record.timed(name, {"threads": threads, "rows": rows}, samples, field.pairs, unit="us")
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    giga = {who: 2 * rows * depth * columns / microseconds / 1e3 for who, microseconds in line.times.items()}
    line.figures = {**giga, "rate": 1 / line.ratios["dynamlir/eager"]["value"]}
    cells = "".join(f"{giga[who]:10.1f}" for who in ["eager", *field.compilers])
    text = f"{name:26}{threads:8}{cells}  {line.compared()} {max(line.errors.values()):8.1e}{line.figures['rate']:7.2f}"
    return line, text
