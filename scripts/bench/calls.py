"""What a call costs when its graph does almost nothing: eager, `dynamlir.compile`, and `torch.compile`.

    scripts/bench/calls.py [--torch] [--models] [--rounds 15]

Each subject is timed in turn, round by round, in CPU seconds of this thread, so that a busy machine disturbs all alike;
median and minimum of the rounds are printed in microseconds. `empty` is `torch.empty`, which is what making the result
costs at least; `dynamo` is `torch.compile` with its "eager" backend, which is its guards and eager's operators. The
last lines are checks of guards alone: of layers described by hand, and with `--models` of captured models.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import dynamlir
import models
import torch
from dynamlir import native
from torch import nn


def add_one(x: torch.Tensor) -> torch.Tensor:
    """The smallest graph."""
    return x + 1


def ten(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any) -> torch.Tensor:
    """Ten inputs, each a parameter."""
    return a + b + c + d + e + f + g + h + i + j


def linears(count: int) -> nn.Module:
    """Many small layers: two parameters each."""
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))).eval()


def guard_set(model: nn.Sequential, x: torch.Tensor) -> Callable[[int], None]:
    """The guards of a call of ``model``, checked so many times without Python in between."""
    builder = native.module().GuardBuilder()
    builder.torch_state()
    source, root = builder.local(1, "x"), builder.local(0, "model")
    builder.tensor(source, x)
    builder.collect(source)
    builder.type_match(root, model)
    builder.dict_keys(builder.attr(root, "_modules"), model._modules)
    for name, layer in model.named_children():
        at = builder.module(root, name)
        builder.type_match(at, layer)
        builder.identity(builder.type_attr(builder.type_of(at), "forward"), type(layer).forward)
        builder.length(builder.attr(at, "_forward_hooks"), 0)
        for member, parameter in layer.named_parameters():
            reached = builder.parameter(at, member)
            builder.tensor(reached, parameter)
            builder.collect(reached)
    guards = builder.build()

    def function(model: Any, x: Any) -> Any:
        return model(x)

    return lambda times: guards.repeat(function, [model, x], times)


def repeat(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[int], None]:
    """Calls of a function."""

    def run(times: int) -> None:
        for _ in range(times):
            function(*arguments)

    return run


def measure(subjects: dict[str, Callable[[int], None]], times: int, rounds: int) -> str:
    """Microseconds per call of interleaved rounds."""
    seconds: dict[str, list[float]] = {name: [] for name in subjects}
    for run in subjects.values():
        run(5)
    for _ in range(rounds):
        for name, run in subjects.items():
            started = time.thread_time()
            run(times)
            seconds[name].append((time.thread_time() - started) / times)
    text = "{} {:.2f} (at least {:.2f})"
    return "  ".join(
        text.format(name, 1e6 * statistics.median(list_), 1e6 * min(list_)) for name, list_ in seconds.items()
    )


def captured_guards(model: nn.Module, arguments: dict[str, Any]) -> tuple[str, Callable[[int], None]]:
    """What the guards of a captured model compare, and their check."""
    compiled = dynamlir.compile(model, backend="python")
    for _ in range(4):
        compiled(**arguments)
    guards = compiled._cache[0].guards
    words, objects, again = guards.remembered
    text = f"{len(guards)} predicates: {words} words, {objects} objects, {len(again)} walks"
    return text, lambda times: guards.repeat(times, **arguments)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", action="store_true", help="compare with torch.compile (slow to start)")
    parser.add_argument("--models", action="store_true", help="check the guards of real models, too")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "x + 1, 8 elements": (add_one, (torch.randn(8),)),
        "10 inputs": (ten, tuple(torch.randn(8) for _ in range(10))),
    }
    with torch.no_grad():
        for name, (function, arguments) in cases.items():
            subjects = {"empty": repeat(torch.empty, (8,)), "eager": repeat(function, arguments)}
            subjects["dynamlir"] = repeat(dynamlir.compile(function), arguments)
            if options.torch:
                subjects["dynamo"] = repeat(torch.compile(function, backend="eager"), arguments)
                subjects["inductor"] = repeat(torch.compile(function), arguments)
            print(f"{name:22}", measure(subjects, 2000, options.rounds))
        for count in (1, 100):
            x = torch.randn(2, 4)
            times = measure({"guards": guard_set(linears(count), x)}, 2000 // count + 50, options.rounds)
            print(f"{f'{count} Linear':22}", times)
        for name, model, inputs in models.all_models() if options.models else ():
            text, check = captured_guards(model, inputs)
            print(f"{name:22}", measure({"guards": check}, 100, options.rounds), f" {text}")
    print("fallbacks:", dynamlir.counters()["fallbacks"])


if __name__ == "__main__":
    main()
