"""The demo: BERT, GPT-2 and ResNet-18 with random weights, compiled and compared with eager.

Each is compiled through both front doors: `torch.compile(model, backend="dynamlir")`, and `dynamlir.compile(model)`
with dynamlir's own capture. Prints per model and front door: graphs, generated operators and extern calls (names and
routes), seconds of the first call and of the backend by stage, time per call compared with eager's (medians of
interleaved runs), worst relative error. Exits 1 when a result differs.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import dynamlir
import torch
from dynamlir import native
from suite import catalog, measure
from suite.agree import TOLERANCE, worst_error

VIEWS = frozenset(
    [
        "view",
        "_unsafe_view",
        "reshape",
        "transpose",
        "t",
        "permute",
        "expand",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "unbind",
        "unsqueeze",
        "squeeze",
        "alias",
        "detach",
        "as_strided",
        "narrow",
        "chunk",
        "empty",
    ]
)
"""Operators without computation; they do not count in the share of generated ones."""

HEAVY = ("mm", "addmm", "bmm", "baddbmm", "convolution", "scaled_dot_product", "_scaled_dot_product")
"""Matrix products, convolution and attention, which torch's library computes."""


def base_name(schema: str) -> str:
    """Returns `add` for `aten.add.Tensor`."""
    return schema.split(".")[1]


def share_generated(report: dynamlir.CompileReport) -> tuple[int, int]:
    """Returns generated and total calls, of those that compute something and are not a matrix product or the like."""
    left = collections.Counter(base_name(extern.schema) for extern in report.externs for _ in range(extern.count))
    counted = collections.Counter[str]()
    for schema, calls in report.recorded.items():
        name = base_name(schema)
        if name not in VIEWS and not name.startswith(HEAVY):
            counted[name] += calls
    total = sum(counted.values())
    return total - sum(min(left[name], calls) for name, calls in counted.items()), total


@dataclasses.dataclass
class Door:
    """A model compiled through one front door."""

    name: str
    compiled: Callable[..., Any]
    cold: float
    """Seconds of the first call."""
    error: float
    reports: list[dynamlir.CompileReport]
    repeated: int
    """The number of calls that failed and were repeated as plain eager."""

    @property
    def right(self) -> bool:
        """True if graphs ran, without failures, and gave eager's results."""
        compiled = bool(self.reports) and all(report.eager is None for report in self.reports)
        return self.error <= TOLERANCE and compiled and not self.repeated


def enter(name: str, compiled: Callable[..., Any], inputs: dict[str, Any], wanted: Any) -> Door:
    """Makes the first call."""
    dynamlir.reset()
    native.module().clear_kernel_cache()
    start = time.perf_counter()
    found = compiled(**inputs)
    cold = time.perf_counter() - start
    repeated = dynamlir.counters().get("calls_repeated_eagerly", 0)
    return Door(name, compiled, cold, worst_error(found, wanted), dynamlir.compiles(), repeated)


def run(name: str, module: torch.nn.Module, inputs: dict[str, Any]) -> bool:
    """Runs one model; returns True if its results agree."""
    with torch.no_grad():
        wanted = module(**inputs)
        doors = [
            enter("torch.compile", torch.compile(module, backend="dynamlir"), inputs, wanted),
            enter("dynamlir.compile", dynamlir.compile(module), inputs, wanted),
        ]
        calls = {"eager": partial(module, **inputs), **{door.name: partial(door.compiled, **inputs) for door in doors}}
        samples = measure.sample(calls, 3.0, measure.clock(torch.get_num_threads()))
    eager_ms, *each_ms = (1e3 * measure.median(seen) for seen in samples.values())
    print(f"\n{name}: eager {eager_ms:.2f} ms")
    for door, ms in zip(doors, each_ms, strict=True):
        print(
            f"  through {door.name}: {len(door.reports)} graph(s), first call {door.cold:.2f} s, then {ms:.2f} ms "
            f"({eager_ms / ms:.2f}×), worst relative error {door.error:.1e}"
        )
        for report in door.reports:
            show(report)
        if door.repeated:
            print(f"    {door.repeated} calls failed and were repeated as plain eager")
    return all(door.right for door in doors)


def show(report: dynamlir.CompileReport) -> None:
    """Prints the report of one graph."""
    if report.eager is not None:
        print(f"    ran as plain eager: {report.eager}")
        return
    generated, total = share_generated(report)
    print(
        f"    {report.kernels} kernels; {generated} of {total} operators generated that are not a view, matrix "
        f"product, convolution or attention ({100 * generated / max(total, 1):.1f} %)"
    )
    routes = collections.Counter((extern.schema, extern.route) for extern in report.externs)
    for (schema, route), calls in routes.most_common():
        print(f"      extern {schema} by {route}: {calls}")
    stages = ", ".join(f"{stage} {seconds * 1e3:.0f}" for stage, seconds in report.stages.items() if seconds >= 0.0005)
    print(f"    backend {report.seconds:.3f} s; ms by stage: {stages}")


def main() -> int:
    """Runs the models named on the command line, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=catalog.DEMO, help="only this one")
    chosen = parser.parse_args().model
    right = True
    for name in catalog.DEMO:
        if chosen and name not in chosen:
            continue
        module, inputs = catalog.MODELS[name].make(batch=2)
        torch._dynamo.reset()
        right &= run(name, module, inputs)
    print("\nall results agree with eager" if right else "\nSOME RESULTS DIFFER FROM EAGER OR RAN AS EAGER")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
