"""`sizes`: kernels of one size against kernels of all sizes.

Each function is compiled three times: with ``dynamic=False``, so that its sizes are static (``one``); by default, after
calls with other sizes, so that the changed size is a symbol (``varied``); and with ``dynamic=True``, so that all of
them are (``all``). They are timed at one size. Then new sizes are called, once each: the figure is the additional time
of such a call compared with a known size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import agree, contestants, kernels, measure, record

CODE: dict[str, bool | None] = {"one": False, "varied": None, "all": True}
"""The value of ``dynamic`` for each."""

PAIRS = ["varied/one", "all/one"]

NEW = 40
"""The number of new sizes, and of known ones, alternating."""

Operands = Callable[[int], list[Tensor]]


@dataclasses.dataclass(frozen=True)
class Case:
    """A function, its operands for a size, and the size."""

    function: Callable[..., Any]
    operands: Operands
    size: int = 512


def rows(*more: int) -> Operands:
    """Returns one matrix, whose other side is 512, and vectors along rows or numbers of other sizes."""
    return lambda size: [torch.randn(size, 512), *(torch.randn(side) for side in more)]


def heads(size: int) -> list[Tensor]:
    """Returns queries, keys and values of four heads."""
    return [torch.randn(1, 4, size, 64) for _ in range(3)]


def cached(size: int) -> list[Tensor]:
    """Returns the query of one token, and a cache."""
    return [torch.randn(1, 8, 1, 64), *(torch.randn(1, 8, size, 64) for _ in range(2))]


def picked(size: int) -> list[Tensor]:
    """Returns a table, and rows of it."""
    return [torch.randn(1000, 512), torch.randint(1000, (size,))]


def images(size: int) -> list[Tensor]:
    """Returns a batch of images, and weights."""
    return [torch.randn(size, 16, 28, 28), torch.randn(32, 16, 3, 3)]


CASES: dict[str, Case] = {
    "chain": Case(kernels.chain, lambda size: [torch.randn(size, 512) for _ in range(2)]),
    "gelu": Case(kernels.gelu, rows()),
    "bias and gelu": Case(lambda x, b: F.gelu(x + b), rows(512)),
    "masked": Case(lambda x: torch.softmax(x.masked_fill(x > 1, -1e4), -1), rows()),
    "softmax": Case(kernels.softmax, rows()),
    "layer norm": Case(kernels.layer_norm, rows(512, 512)),
    "rms norm": Case(lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w, rows(512)),
    "cross entropy": Case(kernels.cross_entropy, lambda size: [torch.randn(size, 512), torch.randint(512, (size,))]),
    "sums of rows": Case(lambda x: x.sum(-1), rows()),
    "sums of columns": Case(lambda x: x.sum(0), rows()),
    "sum of all": Case(lambda x: (x * x).sum(), rows()),
    "largest of all": Case(lambda x: x.amax(), rows()),
    "where the largest is": Case(lambda x: x.argmax(-1), rows()),
    "running sums": Case(lambda x: x.cumsum(-1), rows()),
    "joined": Case(lambda x: torch.cat([x, x * 2], 1), rows()),
    "transposed": Case(lambda x: x.t() + 1.0, rows()),
    "embedding": Case(lambda table, i: F.embedding(i, table) * 2.0, picked),
    "rows added": Case(lambda table, i: table.index_add(0, i, table[i]), picked),
    "product": Case(lambda x, w: F.relu(x @ w), lambda size: [torch.randn(size, 512), torch.randn(512, 512)]),
    "products": Case(lambda x, y: torch.bmm(x, y), lambda size: [torch.randn(8, size, 64), torch.randn(8, 64, size)]),
    "product with a vector": Case(lambda x, v: x @ v, rows(512)),
    "attention": Case(F.scaled_dot_product_attention, heads, 256),
    "attention of one query": Case(F.scaled_dot_product_attention, cached),
    "convolution": Case(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), images, 8),
}
"""By name."""


def run(output: record.Record, only: str, threads: Sequence[int], seconds: float) -> None:
    """Prints and records the table."""
    heads = "".join(f"{who:>10}" for who in CODE)
    output.part(
        "sizes",
        "sizes: microseconds per call of code for one size, for any of what changes and for all; medians and 95 %"
        " intervals of the ratios;"
        " what a new size costs",
        f"{'':26}{'threads':>8}{heads}  {'  '.join(pair.ljust(22) for pair in PAIRS)} {'error':>8}{'new':>8}",
    )
    measure.keep_memory()
    ratios: dict[str, list[float]] = {pair: [] for pair in PAIRS}
    for count in threads:
        torch.set_num_threads(count)
        for name, case in CASES.items():
            if only in name:
                line = one(name, case, count, seconds)
                for pair, seen in ratios.items():
                    seen.append(line.ratios[pair]["value"])
                times = "".join(f"{line.times[who]:10.1f}" for who in CODE)
                text = f"{name:26}{count:8}{times}  {line.compared()} {max(line.errors.values()):8.1e}"
                output.add(line, f"{text}{line.figures['new size']:8.1f}")
    for pair, seen in ratios.items():
        if seen:
            mean = measure.geometric_mean(seen)
            output.summary(pair, mean, f"{pair}: geometric mean {mean:.3f}, largest {max(seen):.3f}")


def one(name: str, case: Case, threads: int, seconds: float) -> record.Line:
    """Returns one line; the caller has set the number of threads."""
    import dynamlir

    contestants.forget()
    torch.manual_seed(0)
    operands = case.operands(case.size)
    functions = {who: dynamlir.compile(case.function, dynamic=dynamic) for who, dynamic in CODE.items()}
    with torch.no_grad():
        for size in (case.size // 2 + 1, case.size + 3, case.size + 5):
            for who in ("varied", "all"):
                functions[who](*case.operands(size))
        wanted = [case.function(*operands)]
        errors = {who: agree.worst_error([function(*operands)], wanted) for who, function in functions.items()}
        calls = {who: partial(function, *operands) for who, function in functions.items()}
        samples = measure.sample(calls, seconds, measure.clock(threads))
        line = record.timed(name, {"threads": threads}, samples, PAIRS, unit="us")
        line.figures = {"new size": new(functions["varied"], case, operands, measure.clock(threads))}
    line.errors = errors
    line.notes = [note for note in contestants.notes() if "graphs" not in note]
    line.right = all(error <= agree.TOLERANCE for error in errors.values())
    return line


def new(function: Callable[..., Any], case: Case, operands: list[Tensor], now: Callable[[], float]) -> float:
    """Returns the additional microseconds of a call with a new, small size: less of the time is varying kernel time."""
    least = max(case.size // 32, 2)
    known = case.operands(least)
    function(*known)
    times: dict[str, list[float]] = {"new": [], "known": []}
    for size in range(least + 1, least + 1 + NEW):
        for kind, given in (("new", case.operands(size)), ("known", known)):
            start = now()
            function(*given)
            times[kind].append(now() - start)
    return (measure.median(times["new"]) - measure.median(times["known"])) * 1e6
