"""Compares two builds of dynamlir: the cost of calls, guards, captures, compilations and runs, as ratios.

    scripts/bench/builds.py BEFORE AFTER [--rounds N] [--models bert,resnet18]

BEFORE and AFTER are folders containing a package `dynamlir`, such as `pip install --target DIR WHEEL` creates. Each
round starts a fresh process for each build, alternating, on one thread and on the process clock, so that a busy machine
slows both alike. A figure is the median over the rounds of the ratio within a round, with a bootstrap interval; each
group ends with the geometric mean of its lines. Above 1 is slower than before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

TIMES = 2000
"""The number of calls in a sample."""

SAMPLES = 15
"""The number of samples of a call in one process; the minimum counts."""

RUNS = 25
"""The number of runs of a compiled model in one process; the minimum counts."""


def least(run: Callable[[int], None]) -> float:
    """Returns the seconds per call, from the fastest sample."""
    seen = []
    for _ in range(SAMPLES):
        start = time.process_time()
        run(TIMES)
        seen.append((time.process_time() - start) / TIMES)
    return min(seen)


def once(function: Callable[[], object]) -> float:
    """Returns the seconds of a single call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def figures(chosen: list[str]) -> Iterator[tuple[str, str, float]]:
    """Yields group, name and seconds of each measurement; runs in a separate process."""
    import dynamlir
    import torch
    from suite import calls, catalog
    from torch import nn

    torch.set_num_threads(1)
    x, ten = torch.randn(8), tuple(torch.randn(8) for _ in range(10))
    layers = nn.Sequential(nn.ReLU(), nn.Tanh()).eval()
    with torch.no_grad():
        for name, function, arguments in (
            ("x + 1, 8 elements", calls.add_one, (x,)),
            ("10 inputs", calls.ten, ten),
            ("a module", layers, (x,)),
        ):
            compiled = dynamlir.compile(function)
            calls.repeat(compiled, arguments)(200)
            yield "calls", name, least(calls.repeat(compiled, arguments))
        yield "guards", "100 Linear", least(calls.guard_set(calls.linears(100), torch.randn(2, 4)))
        for name in chosen:
            yield "guards", name, least(calls.captured_guards(name)[1])
        for name in chosen:
            model, inputs = catalog.MODELS[name].make()
            captured = dynamlir.compile(model, backend=lambda graph, _: graph)
            yield "capture", name, once(lambda captured=captured, inputs=inputs: captured(**inputs))
        for name in chosen:
            model, inputs = catalog.MODELS[name].make()
            whole = dynamlir.compile(model, options={"no_cache": True, "threads": 1})
            yield "compile", name, once(lambda whole=whole, inputs=inputs: whole(**inputs))
            yield "run", name, min(once(lambda whole=whole, inputs=inputs: whole(**inputs)) for _ in range(RUNS))


def ask(folder: str, chosen: list[str]) -> dict[tuple[str, str], float]:
    """Returns the figures of the build in a folder."""
    settings = {"PYTHONPATH": os.pathsep.join([folder, str(HERE)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", folder, folder, "--models", ",".join(chosen)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})
    if done.returncode:
        raise RuntimeError(f"{folder}: {done.stderr[-2000:]}")
    return {(group, name): seconds for group, name, seconds in json.loads(done.stdout.splitlines()[-1])}


def child(options: argparse.Namespace) -> None:
    """Prints the figures of the build that is on the path."""
    import dynamlir

    found, named = Path(dynamlir.__file__).resolve(), Path(options.before).resolve()
    if not found.is_relative_to(named):
        raise RuntimeError(f"{found} is not the build in {named}")
    print(json.dumps(list(figures(options.models.split(",")))))


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--models", default="bert,gpt2,resnet18,mobilenetv3_large_100,t5,vit")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options)
    # Only here: the path decides which dynamlir a process imports.
    sys.path.insert(0, str(HERE))
    from suite import measure

    builds: dict[str, str] = {"before": options.before, "after": options.after}
    answers: dict[str, list[Any]] = {who: [] for who in builds}
    for number in range(options.rounds):
        for who in sorted(builds, reverse=number % 2 == 0):
            answers[who].append(ask(builds[who], options.models.split(",")))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
    groups: dict[str, list[Any]] = {}
    print(f"{'':34}{'before':>12}{'after':>12}  after/before")
    for group, name in answers["before"][0]:
        samples = {who: [answer[group, name] for answer in list_] for who, list_ in answers.items()}
        groups.setdefault(group, []).append(measure.ratios(samples, "after", "before"))
        before, after = (measure.median(samples[who]) * 1e6 for who in builds)
        ratio = measure.ratio(samples, "after", "before")
        print(f"{group + ': ' + name:34}{before:10.2f}us{after:10.2f}us  {ratio}")
    for group, ratios in groups.items():
        print(f"geometric mean of {group}: {measure.mean_ratio(ratios)}")


if __name__ == "__main__":
    main()
