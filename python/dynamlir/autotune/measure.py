"""Compiles a problem with each of its strategies, and races them.

Strategies alternate, so that other load on the machine affects them equally; the winner is decided by medians of ratios
within a round. Weights change from call to call, because in a model they come from memory, not from the cache.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from .. import logs, native
from .problem import Layout, Problem, extent
from .record import Entry

SECONDS = 0.05
"""Approximate time for each strategy."""
SAMPLE = 0.0005
"""Shortest time worth measuring."""
ROUNDS = (9, 40)
"""Fewest and most rounds."""
SIFTED, SLOW = 5, 1.5
"""The round after which strategies are dropped that take longer than this multiple of the fastest one's time."""
MARGIN = 0.97
"""A strategy other than the expected one has to take at most this share of the expected one's time."""
MOST_WORK = 1 << 33
"""The number of multiplications above which measuring takes too long: the cost model decides."""
MOST_BYTES = 1 << 28
"""The same limit for memory."""
ROTATED_BYTES, MOST_SETS = 1 << 25, 8
"""The limits on the total size and the number of the sets of weights that calls alternate between."""

Run = Callable[[], Any]


def measure(problem: Problem) -> Entry | None:
    """Returns the fastest strategy; None if the cost model is to decide."""
    log = logs.logger("autotune")
    if problem.work > MOST_WORK or problem.bytes() > MOST_BYTES:
        log.info("%s: too large to measure", problem.text)
        return None
    runs: dict[str, Run] = {}
    failure = "there is none"
    # A user's modes must not see this, and it must not change the random state.
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad(), torch.inference_mode(False):
        sets = _sets(problem)
        for strategy in problem.strategies:
            try:
                runs[strategy] = _compiled(problem, strategy, sets)
            except Exception as error:
                failure = f"{problem.text}: {strategy}: {type(error).__name__}: {error}"
                log.info("%s", failure)
        if not runs:
            logs.warn_once(
                "autotune", "no strategy", f"no strategy can be measured, so the cost model decides: {failure}"
            )
        if problem.strategies[0] not in runs or len(runs) < 2:
            return None
        seconds, ratios = race(list(runs.values()))
    best = min(range(len(ratios)), key=ratios.__getitem__)
    strategy = list(runs)[best if ratios[best] < MARGIN else 0]
    return Entry(strategy, {name: round(1000 * value, 6) for name, value in zip(runs, seconds)})


def _compiled(problem: Problem, strategy: str, sets: Sequence[Sequence[torch.Tensor]]) -> Run:
    """Returns a call of the problem with this strategy; each call uses another set of operands."""
    executable = native.module().compile_trace(problem.trace(), {"choices": {problem.text: strategy}})
    is_library = any(extern["schema"] == problem.schema for extern in executable.report()["externs"])
    if is_library != (strategy == "library"):
        raise RuntimeError("the choice was not obeyed")
    tensors = itertools.cycle(sets)
    return lambda: executable(*next(tensors))


def _sets(problem: Problem) -> list[list[torch.Tensor]]:
    """Returns operands for several calls, with different weights."""
    generator = torch.Generator().manual_seed(0)
    fixed = [_random(layout, generator) for layout in problem.operands]
    at = problem.weights()
    size = max(4 * extent(problem.operands[at]), 1)
    count = max(1, min(ROTATED_BYTES // size, MOST_SETS))
    others = [_random(problem.operands[at], generator) for _ in range(count - 1)]
    return [fixed, *([*fixed[:at], weights, *fixed[at + 1 :]] for weights in others)]


def _random(layout: Layout, generator: torch.Generator) -> torch.Tensor:
    memory = torch.empty(extent(layout), dtype=torch.float32, device="cpu").normal_(generator=generator)
    return memory.as_strided(*layout)


def race(runs: Sequence[Run]) -> tuple[list[float], list[float]]:
    """Returns the seconds per call of each, and the median of its ratio to the first."""
    repeats = []
    for run in runs:
        run()
        repeats.append(max(1, round(SAMPLE / max(_timed(run, 1), 1e-7))))
    samples: list[list[float]] = [[] for _ in runs]

    def ratios() -> list[float]:
        return [statistics.median(a / b for a, b in zip(own, samples[0])) for own in samples]

    alive = list(range(len(runs)))
    until = time.perf_counter() + SECONDS * len(runs)
    for number in range(ROUNDS[1]):
        if number >= ROUNDS[0] and time.perf_counter() > until:
            break
        if number == SIFTED:
            now = ratios()
            alive = [at for at in alive if at == 0 or now[at] <= SLOW * min(now)]
        for step in range(len(alive)):
            at = alive[(number + step) % len(alive)]
            samples[at].append(_timed(runs[at], repeats[at]) / repeats[at])
    return [statistics.median(own) for own in samples], ratios()


def _timed(run: Run, times: int) -> float:
    start = time.perf_counter()
    for _ in range(times):
        run()
    return time.perf_counter() - start
