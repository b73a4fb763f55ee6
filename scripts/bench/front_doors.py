"""Both front doors on the small networks and on twelve models picked by a rule: what they capture, and in what time.

Both use a backend that runs the graphs as they are. Prints per model and front door: graphs, breaks, seconds of the
first call; then the ratio of these and whether both results are eager's. The front doors alternate in going first, in
one process, after a model that loads their dependencies. Breaks are listed below the table.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import capture_models
import compile_models
import dynamlir
import small_networks
import torch
from suite.agree import TOLERANCE, worst_error


def models() -> Iterator[compile_models.Model]:
    """Yields the small networks, then the twelve."""
    for name, make in small_networks.MODELS.items():
        torch.manual_seed(0)
        module, inputs = make()
        yield name, module.eval(), inputs
    yield from capture_models.from_timm()
    yield from capture_models.from_transformers()


class Door:
    """One way to compile, with its results for the last model."""

    def __init__(self, compile_: Callable[..., Any]) -> None:
        self.compile = compile_
        self.graphs = 0
        self.seconds = 0.0
        self.error = 0.0
        self.breaks: list[str] = []

    def backend(self, graph: torch.fx.GraphModule, _examples: Sequence[Any]) -> Callable[..., Any]:
        """Counts, and runs the graph as it is."""
        self.graphs += 1
        return graph.forward

    def run(self, module: torch.nn.Module, inputs: dict[str, Any], wanted: Any) -> None:
        """Makes the first call."""
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        dynamlir.reset()
        self.graphs = 0
        compiled = self.compile(module, backend=self.backend)
        torch.manual_seed(1)
        started = time.perf_counter()
        seen = compiled(**inputs)
        self.seconds = time.perf_counter() - started
        self.error = worst_error(seen, wanted)
        self.breaks = [*torch._dynamo.utils.counters["graph_break"], *map(str, dynamlir.fallbacks())]


def main() -> int:
    """Prints the table; returns 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of a model's name")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    doors = {"dynamlir.compile": Door(dynamlir.compile), "torch.compile": Door(torch.compile)}
    heads = "".join(f" {name:>16} {'breaks':>6} {'s':>6}" for name in doors)
    right, broken, whole = True, [], dict.fromkeys(doors, 0)
    with torch.no_grad():
        module, inputs = small_networks.torch_mlp()
        for door in doors.values():
            door.run(module.eval(), inputs, module(**inputs))
        print(f"{'graphs':32}{heads} {'ratio':>6}")
        for number, (name, module, inputs) in enumerate(models()):
            if options.only not in name:
                continue
            torch.manual_seed(1)
            wanted = module(**inputs)
            for door in list(doors.values())[:: 1 if number % 2 else -1]:
                door.run(module, inputs, wanted)
            ours, theirs = doors.values()
            cells = "".join(f" {door.graphs:16} {len(door.breaks):6} {door.seconds:6.2f}" for door in doors.values())
            agree = max(door.error for door in doors.values()) <= TOLERANCE
            flag = "" if agree else "  DIFFERS FROM EAGER"
            print(f"{name:32}{cells} {ours.seconds / theirs.seconds:6.2f}{flag}", flush=True)
            right &= agree
            for label, door in doors.items():
                whole[label] += door.graphs == 1 and not door.breaks
                broken += [f"{name}, {label}: {reason}" for reason in door.breaks]
    print("one graph each: " + ", ".join(f"{label} {count}" for label, count in whole.items()))
    print("\n".join(broken))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
