"""The method of taking and comparing times.

Contestants alternate, one sample each per round, so that a busy machine slows them alike; the one to begin changes from
round to round. Ratios within a round are compared. Their median is the figure, and its 95 % interval comes from drawing
the rounds again with replacement (the bootstrap), with a fixed seed, so that the same times give the same interval.

On one thread the clock is the processor time of the process: it excludes other processes, but includes other threads of
a contestant. On more threads it is wall time.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

SAMPLE = 2e-4
"""The minimum seconds of a sample: a faster call is made several times."""

ROUNDS = 7
"""The minimum number of rounds, however long they take."""

DRAWS = 1000

Clock = Callable[[], float]
Samples = dict[str, list[float]]


def clock(threads: int) -> Clock:
    """Returns the clock to use."""
    return time.process_time if threads == 1 else time.perf_counter


def sample(contestants: Mapping[str, Callable[[], object]], seconds: float, now: Clock) -> Samples:
    """Returns the seconds per call of each, round by round, for about ``seconds``."""
    calls = {name: repeats(function, now) for name, function in contestants.items()}
    order = list(contestants)
    samples: Samples = {name: [] for name in order}
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end or len(samples[order[-1]]) < ROUNDS:
            for name in order:
                function, times = contestants[name], range(calls[name])
                start = now()
                for _ in times:
                    function()
                samples[name].append((now() - start) / len(times))
            order.append(order.pop(0))
            if len(set(map(len, samples.values()))) != 1:
                raise AssertionError("a round is whole")
    finally:
        if was_enabled:
            gc.enable()
    return samples


def keep_memory() -> None:
    """Makes the C library retain freed memory, if it supports that.

    Otherwise it depends on the heap's layout whether a large block is returned to the system. The next user of 16 MiB
    then waits for 4,096 page faults, which can take five times as long as the kernel that writes it.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        trim_threshold, mmap_max = -1, -4
        mallopt(trim_threshold, -1)
        mallopt(mmap_max, 0)


def repeats(function: Callable[[], object], now: Clock) -> int:
    """Returns the number of calls in a sample; warms up on the way."""
    quickest = math.inf
    for _ in range(3):
        start = now()
        function()
        quickest = min(quickest, now() - start)
    return max(1, math.ceil(SAMPLE / max(quickest, 1e-7)))


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def json(self) -> dict[str, float]:
        """Returns it for the record."""
        return {name: round(number, 6) for name, number in dataclasses.asdict(self).items()}


def draws(values: Sequence[float], seed: int = 0) -> np.ndarray:
    """Returns the medians of `DRAWS` samples, each drawn from ``values`` with replacement."""
    known = np.asarray(values, dtype=np.float64)
    chosen = np.random.default_rng(seed).integers(0, len(known), (DRAWS, len(known)))
    return np.median(known[chosen], axis=1)


def interval(value: float, drawn: np.ndarray) -> Estimate:
    """Returns a figure with the interval that contains 95 % of the drawn values."""
    low, high = np.quantile(drawn, (0.025, 0.975))
    return Estimate(float(value), float(low), float(high))


def median(values: Sequence[float]) -> float:
    """Returns the median."""
    return statistics.median(values)


def ratios(samples: Samples, name: str, base: str) -> list[float]:
    """Returns one contestant's times divided by another's, round by round."""
    return [a / b for a, b in zip(samples[name], samples[base], strict=True)]


def ratio(samples: Samples, name: str, base: str) -> Estimate:
    """Returns the median of the ratios of two contestants."""
    values = ratios(samples, name, base)
    return interval(median(values), draws(values))


def geometric_mean(values: Sequence[float]) -> float:
    """Returns the geometric mean, which suits ratios."""
    return math.exp(statistics.fmean(map(math.log, values)))


def mean_ratio(lists: Sequence[Sequence[float]]) -> Estimate:
    """Returns the geometric mean of the median ratios of many lines, with an interval from the lines' noise."""
    value = geometric_mean([median(values) for values in lists])
    drawn = np.exp(np.mean([np.log(draws(values, seed)) for seed, values in enumerate(lists)], axis=0))
    return interval(value, drawn)
