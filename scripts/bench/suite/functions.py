"""`functions`: single operations on operands of all kinds, each against eager.

Every elementwise operation, reduction, scan, sort, copy and index operation, over operands that are contiguous,
transposed, sliced, channels-last or broadcast, of four types and three sizes, and functions of large arguments: some
thousands of lines, from which a sample is run within `--within` seconds. The contestants alternate, and the minimum
times of each are compared, which a busy machine disturbs least; a line slower than eager is timed again before it is
reported as such.

Freed memory is retained meanwhile, and one thread is used, so that only kernels and call overhead are timed.
"""

from __future__ import annotations

import dataclasses
import gc
import random
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import contestants, measure, operations, record

LAYOUTS = ("contiguous", "transposed", "sliced", "channels-last", "broadcast")
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64}
SIZES = (64, 256, 1024)
"""Sides of the square operands."""
LARGE = 1000.0
"""The factor for large arguments."""

LEAST, NOISE = 0.95, 0.05
"""The target speed of each line relative to eager's, and the difference allowed between two equal runs."""
SHOWN = 20
TIME, AGAIN = 0.04, 0.4
"""Seconds per line, and for lines that are timed again."""
FEWEST = 3
"""The minimum number of rounds."""
TOLERANCE = {"bf16": 2e-2, "f32": 2e-5, "f64": 2e-5, "i64": 0.0}


@dataclasses.dataclass(frozen=True)
class Case:
    """One line."""

    operation: operations.Operation
    layout: str
    dtype: str
    side: int
    far: bool = False

    @property
    def name(self) -> str:
        """The name in the table."""
        return f"{self.operation.name}{', far' * self.far}; {self.layout} {self.dtype} {self.side}"

    def operands(self) -> list[Tensor]:
        """Returns the same numbers each time. If there are several operands, the first one has the layout."""
        generator = torch.Generator().manual_seed(self.side)
        first = self._laid_out(generator)
        others = [torch.randn(first.shape, generator=generator) for _ in range(self.operation.others)]
        numbers = [self._number(x) for x in (first, *others)]
        last = first.shape[-1]
        return [*numbers, *(torch.randint(last, (last,), generator=generator) for _ in range(self.operation.indices))]

    def _number(self, x: Tensor) -> Tensor:
        """Returns the tensor in the operation's domain and type, with its strides."""
        made = operations.in_domain(x, self.operation.domain) * (LARGE if self.far else 1.0)
        dtype = DTYPES[self.dtype]
        if not dtype.is_floating_point:
            made = made * 10
        if 0 in x.stride():
            return made[:, :1].to(dtype).expand(x.shape)
        return torch.empty_strided(x.shape, x.stride(), dtype=dtype).copy_(made)

    def _laid_out(self, generator: torch.Generator) -> Tensor:
        """Returns a square of random numbers, or as many in four dimensions for channels-last."""
        side = self.side
        if self.layout == "transposed":
            return torch.randn(side, side, generator=generator).t()
        if self.layout == "sliced":
            return torch.randn(side, 2 * side, generator=generator)[:, ::2]
        if self.layout == "broadcast":
            return torch.randn(side, 1, generator=generator).expand(side, side)
        if self.layout == "channels-last":
            x = torch.randn(4, 16, side // 8, side // 8, generator=generator)
            return x.contiguous(memory_format=torch.channels_last)
        return torch.randn(side, side, generator=generator)


def cases(only: str) -> list[Case]:
    """Returns all lines whose name contains this."""
    made = [
        Case(operation, layout, dtype, side, far)
        for operation in operations.all_of_them()
        for layout in LAYOUTS
        for dtype in DTYPES
        if operation.integers or dtype != "i64"
        for side in SIZES
        for far in ((False, True) if operation.far and side == SIZES[1] else (False,))
    ]
    return [case for case in made if only in case.name]


@dataclasses.dataclass
class Timed:
    """A line with the calls that it times."""

    case: Case
    calls: dict[str, Callable[[], Any]]
    entered: contestants.Entered
    best: dict[str, float] = dataclasses.field(default_factory=dict)
    repeats: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def speed(self) -> float:
        """The speed relative to eager's."""
        return self.best["eager"] / self.best["dynamlir"]

    def sample(self, seconds: float) -> None:
        """Times the line, with the contestants alternating."""
        now = measure.clock(1)
        if not self.best:
            self.repeats = {who: measure.repeats(call, now) for who, call in self.calls.items()}
            self.best = dict.fromkeys(self.calls, float("inf"))
        end = time.perf_counter() + seconds
        rounds = 0
        while rounds < FEWEST or time.perf_counter() < end:
            rounds += 1
            for who, call in self.calls.items():
                times = range(self.repeats[who])
                start = now()
                for _ in times:
                    call()
                self.best[who] = min(self.best[who], (now() - start) / len(times))

    def line(self) -> record.Line:
        """Returns the line for the record."""
        case = {"layout": self.case.layout, "dtype": self.case.dtype, "side": self.case.side, "far": self.case.far}
        line = record.Line(self.case.name, case, "us")
        line.times = {who: seconds * 1e6 for who, seconds in self.best.items()}
        line.errors, line.right = self.entered.errors, self.entered.right
        line.notes, line.figures = self.entered.notes, {"speed": self.speed}
        return line


def entered(field: contestants.Field, case: Case) -> Timed | None:
    """Returns the line, compiled and checked; None if eager does not support it."""
    operands, function = case.operands(), case.operation.function
    try:
        function(*operands)
    except (RuntimeError, NotImplementedError):
        return None
    made = contestants.enter(field, function, operands, tolerance=TOLERANCE[case.dtype])
    return Timed(case, {who: partial(call, *operands) for who, call in made.functions.items()}, made)


def run(output: record.Record, field: contestants.Field, only: str, within: float) -> None:
    """Prints and records the lines that are slower than eager, the worst of all, and the mean."""
    torch.set_num_threads(1)
    measure.keep_memory()
    field = dataclasses.replace(field, inductor=False)
    chosen = cases(only)
    random.Random(0).shuffle(chosen)
    output.part("functions", f"functions: speed over eager's, through {field.door}; {len(chosen)} lines", "")
    end = time.perf_counter() + within * 0.8
    done: list[Timed] = []
    gc.disable()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for case in chosen:
            if time.perf_counter() > end:
                break
            timed = entered(field, case)
            if timed is not None:
                timed.sample(TIME)
                if timed.speed < LEAST:
                    timed.sample(AGAIN)
                done.append(timed)
                output.collect(timed.line())
                timed.calls = {}
    gc.enable()
    told(output, done, len(chosen))


def told(output: record.Record, done: Sequence[Timed], of: int) -> None:
    """Prints the end of the table."""
    done = sorted(done, key=lambda timed: timed.speed)
    for timed in done[:SHOWN]:
        eager, ours = (timed.best[who] * 1e6 for who in ("eager", "dynamlir"))
        notes = "; ".join(timed.entered.notes)[:80]
        print(f"{timed.case.name:52}{eager:10.1f}{ours:10.1f}{timed.speed:7.2f}  {notes}")
    wrong = [timed.case.name for timed in done if not timed.entered.right]
    below = sum(timed.speed < LEAST - NOISE for timed in done)
    mean = measure.geometric_mean([timed.speed for timed in done]) if done else float("nan")
    output.summary("lines", len(done), f"{len(done)} of {of} lines")
    output.summary("below", below, f"{below} below {LEAST} by more than {NOISE}")
    output.summary("wrong", wrong, f"{len(wrong)} differ from eager: {', '.join(wrong[:5])}")
    output.summary("speed", mean, f"speed over eager's: geometric mean {mean:.3f}")
