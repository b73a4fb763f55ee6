"""The cost of a call on each CPython: microseconds of small graphs, of the guards of many layers, and of a graph break.

    scripts/bench/pythons.py [PYTHON...] [--rounds N]

Each PYTHON is an interpreter that has torch, such as those of scripts/test-matrix --keep; without any, this one. They
alternate, with one process per round. A figure is the median over the rounds of the minimum of many samples.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1] / "python")]

SAMPLES = 30
CALLS = 400


def least(call: Callable[[], Any]) -> float:
    """Returns the microseconds of a call: the minimum of the samples' means, because other load only adds time."""
    for _ in range(CALLS):
        call()
    found = []
    for _ in range(SAMPLES):
        started = time.process_time()
        for _ in range(CALLS):
            call()
        found.append((time.process_time() - started) / CALLS)
    return min(found) * 1e6


def measured() -> dict[str, float]:
    """Returns the figures of this interpreter."""
    import dynamlir
    import torch
    from torch import nn

    class Sum(nn.Module):
        """Many parameters, each read by the forward."""

        def __init__(self, count: int) -> None:
            super().__init__()
            self.all = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(count)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for parameter in self.all:
                x = x + parameter
            return x

    def add_one(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @torch.compiler.disable
    def nothing() -> None: ...

    def one_break(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        nothing()
        return y + 1

    torch.set_num_threads(1)
    dynamlir.config.on_plain = "ignore"
    x, rows = torch.randn(4), torch.randn(2, 4)
    with torch.no_grad():
        layers = dynamlir.compile(nn.Sequential(*(nn.Linear(4, 4) for _ in range(25))).eval())
        parameters = dynamlir.compile(Sum(50))
        small, broken = dynamlir.compile(add_one), dynamlir.compile(one_break)
        layers(rows)
        guards = layers._cache[0].guards
        return {
            "x + 1": least(lambda: small(x)),
            "50 parameters": least(lambda: parameters(x)),
            "guards of 25 Linear": least(lambda: guards.repeat(10, rows)) / 10,
            "a break": least(lambda: broken(x)) - least(lambda: small(x)),
        }


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", nargs="*", default=[sys.executable])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps([sys.version.split()[0], measured()]))
        return 0
    found: dict[str, list[dict[str, float]]] = {}
    for _ in range(options.rounds):
        for python in options.python:
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            command = [python, str(Path(__file__).resolve()), "--one"]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            version, figures = json.loads(done.stdout.splitlines()[-1])
            found.setdefault(version, []).append(figures)
    names = list(next(iter(found.values()))[0])
    print(f"{'microseconds':14}" + "".join(name.rjust(22) for name in names))
    for version, rounds in found.items():
        cells = (statistics.median(figures[name] for figures in rounds) for name in names)
        print(f"{version:14}" + "".join(f"{cell:22.2f}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
