"""Backend compile seconds of dynamlir and of inductor on the demo's models, Dynamo's own time left out.

Each compilation runs in a fresh process with an empty cache, the two backends in turn. What is timed is the call that
Dynamo makes to the backend, with everything the backend loads on that occasion, plus what it puts off to the first run:
the first run's time less the second's. Prints the medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

MODELS = ("bert", "gpt2", "resnet18")
BACKENDS = ("dynamlir", "inductor")


def load_backend(name: str) -> Callable[..., Any]:
    """The function that Dynamo would call."""
    if name == "inductor":
        from torch._inductor.compile_fx import compile_fx

        return compile_fx
    import dynamlir

    return dynamlir.backend


def measure(model: str, name: str) -> float:
    """Seconds that one backend takes for one model in this process."""
    import models
    import torch

    torch.manual_seed(0)
    module, inputs = getattr(models, model)()
    backend = load_backend(name)
    compiling = 0.0
    runs: list[list[float]] = []

    def timed(gm: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
        nonlocal compiling
        start = time.perf_counter()
        compiled = backend(gm, examples)
        compiling += time.perf_counter() - start
        times: list[float] = []
        runs.append(times)

        def call(*args: Any) -> Any:
            start = time.perf_counter()
            result = compiled(*args)
            times.append(time.perf_counter() - start)
            return result

        return call

    function = torch.compile(module, backend=timed)
    with torch.no_grad():
        for _ in range(3):
            function(**inputs)
    return compiling + sum(max(0.0, times[0] - min(times[1:])) for times in runs)


def in_fresh_process(model: str, backend: str) -> float:
    """`measure` with nothing in any cache."""
    with tempfile.TemporaryDirectory() as folder:
        caches = {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1"}
        command = [sys.executable, __file__, "--child", model, backend]
        made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **caches})
    return float(json.loads(made.stdout.splitlines()[-1]))


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="compilations of each kind")
    parser.add_argument("--model", action="append", choices=MODELS, help="only this one")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(measure(*arguments.child)))
        return 0
    print(f"{'model':10} {'dynamlir s':>11} {'inductor s':>11} {'ratio':>6}", flush=True)
    for model in arguments.model or MODELS:
        seen: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
        for _ in range(arguments.rounds):
            for backend in BACKENDS:
                seen[backend].append(in_fresh_process(model, backend))
        ours, theirs = (statistics.median(seen[backend]) for backend in BACKENDS)
        print(f"{model:10} {ours:11.3f} {theirs:11.3f} {ours / theirs:6.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
