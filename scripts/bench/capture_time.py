"""Capture seconds of dynamlir and of TorchDynamo on the demo's models: from the first call to the finished graph.

Each capture runs in a fresh process, the two in turn. Both hand their graph to the same backend, which notes the time
and runs the graph as it is; what the modules `torch._dynamo` and `dynamlir` need to be imported is not counted. Prints
the medians and their ratio.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

MODELS = ("bert", "gpt2", "resnet18")
DOORS = ("dynamlir", "dynamo")


def measure(model: str, door: str) -> float:
    """Seconds from the call of a compiled model to the backend's."""
    import models
    import torch

    torch.manual_seed(0)
    module, inputs = getattr(models, model)()
    finished: list[float] = []

    def backend(graph: torch.fx.GraphModule, _examples: Sequence[Any]) -> Callable[..., Any]:
        finished.append(time.perf_counter())
        return graph.forward

    if door == "dynamlir":
        import dynamlir

        compiled = dynamlir.compile(module, backend=backend, fullgraph=True)
    else:
        import torch._dynamo

        compiled = torch.compile(module, backend=backend, fullgraph=True)
    with torch.no_grad():
        # What the first operation of a process sets up is nobody's capture.
        module(**inputs)
        started = time.perf_counter()
        compiled(**inputs)
    return finished[-1] - started


def main() -> int:
    """Runs the captures in turn and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", action="append", choices=MODELS)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "DOOR"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(*options.child)))
        return 0
    print(f"{'model':10} {'dynamlir s':>11} {'dynamo s':>9} {'ratio':>6}")
    for model in options.model or MODELS:
        seconds: dict[str, list[float]] = {door: [] for door in DOORS}
        for _ in range(options.rounds):
            for door in DOORS:
                command = [sys.executable, __file__, "--child", model, door]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                seconds[door].append(json.loads(done.stdout.splitlines()[-1]))
        ours, theirs = (statistics.median(seconds[door]) for door in DOORS)
        print(f"{model:10} {ours:11.3f} {theirs:9.3f} {ours / theirs:6.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
