"""Milliseconds per call of eager and dynamlir, and of inductor if asked for, on the demo's models and 1 and 2 threads.

The contestants run in turn, so that a busy machine slows them alike. Prints medians and their ratio to eager's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import models
import torch


def interleaved(functions: Mapping[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median milliseconds of each function, all run in turn for about ``seconds``."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or min(map(len, times.values())) < 5:
        for name, function in functions.items():
            start = time.perf_counter()
            function()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(seen) for name, seen in times.items()}


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", action="append", choices=["bert", "gpt2", "resnet18"], help="only this one")
    parser.add_argument("--seconds", type=float, default=5.0, help="time per line of the table")
    parser.add_argument("--inductor", action="store_true", help="inductor as well")
    arguments = parser.parse_args()
    backends = ["dynamlir", *(["inductor"] if arguments.inductor else [])]
    print(
        f"{'model':10} {'threads':>7} {'eager ms':>9}"
        + "".join(f" {name + ' ms':>12} {'ratio':>6}" for name in backends)
    )
    for name, module, inputs in models.all_models():
        if arguments.model and name not in arguments.model:
            continue
        torch._dynamo.reset()
        contestants = {"eager": module, **{backend: torch.compile(module, backend=backend) for backend in backends}}
        for threads in (1, 2):
            torch.set_num_threads(threads)
            functions = {
                label: (lambda call=call, inputs=inputs: call(**inputs)) for label, call in contestants.items()
            }
            with torch.no_grad():
                medians = interleaved(functions, arguments.seconds)
            row = "".join(f" {medians[b]:12.2f} {medians[b] / medians['eager']:6.2f}" for b in backends)
            print(f"{name:10} {threads:7} {medians['eager']:9.2f}{row}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
