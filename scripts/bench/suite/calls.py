"""`calls`: the cost of a call whose graph does almost nothing, and the cost of guards alone.

`empty` is `torch.empty`, the minimum cost of creating the result; `dynamo` is `torch.compile` with its "eager" backend,
which measures its guards and eager's operators. The last lines are checks of guards: of layers described by hand, and
of captured models. `scripts/bench/call_instructions.py` counts instructions of the same subjects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from . import catalog, contestants, measure, record


def add_one(x: torch.Tensor) -> torch.Tensor:
    """The smallest graph."""
    return x + 1


def ten(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any, i: Any, j: Any) -> torch.Tensor:
    """A graph with ten inputs, each a parameter."""
    return a + b + c + d + e + f + g + h + i + j


def linears(count: int) -> nn.Sequential:
    """Returns many small layers: two parameters each."""
    return nn.Sequential(*(nn.Linear(4, 4) for _ in range(count))).eval()


def guard_set(model: nn.Sequential, x: torch.Tensor) -> Callable[[int], None]:
    """Returns a function that checks the guards of a call of ``model`` this many times, without Python in between."""
    from dynamlir import native

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
    """Returns a function that calls another one this many times."""

    def run(times: int) -> None:
        for _ in range(times):
            function(*arguments)

    return run


def captured_guards(name: str) -> tuple[str, Callable[[int], None]]:
    """Returns a description of a captured model's guards, and their check."""
    import dynamlir

    model, inputs = catalog.MODELS[name].make()
    compiled = dynamlir.compile(model, backend="python")
    for _ in range(4):
        compiled(**inputs)
    guards = compiled._cache[0].guards
    words, objects, again = guards.remembered
    text = f"{len(guards)} predicates: {words} words, {objects} objects, {len(again)} walks"
    return text, lambda times: guards.repeat(times, **inputs)


TIMES = 500
"""The number of calls in a sample."""


def run(output: record.Record, field: contestants.Field, chosen: Sequence[str], seconds: float) -> None:
    """Prints and records the table, on one thread."""
    torch.set_num_threads(1)
    names = ["empty", "eager", "dynamlir", "dynamo", *(["inductor"] * field.inductor)]
    output.part(
        "calls",
        f"calls: microseconds per call, dynamlir through {field.door}",
        f"{'':24}{''.join(name.rjust(10) for name in names)}  {'  '.join(field.pairs)}",
    )
    with torch.no_grad():
        for name, function, arguments in (
            ("x + 1, 8 elements", add_one, (torch.randn(8),)),
            ("10 inputs", ten, tuple(torch.randn(8) for _ in range(10))),
        ):
            entered = contestants.enter(field, function, arguments)
            functions = {"empty": repeat(torch.empty, (8,))}
            functions |= {who: repeat(call, arguments) for who, call in entered.functions.items()}
            functions["dynamo"] = repeat(torch.compile(function, backend="eager", dynamic=False), arguments)
            line = timed(name, functions, field.pairs, seconds)
            line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
            cells = "".join(f"{line.times[who]:10.2f}" for who in names)
            output.add(line, f"{name:24}{cells}  {line.compared()}")
        for count in (1, 100):
            guards = guard_set(linears(count), torch.randn(2, 4))
            line = timed(f"guards of {count} Linear", {"guards": guards}, [], seconds)
            output.add(line, f"{line.name:24}{line.times['guards']:10.2f}")
        for name in chosen:
            text, guards = captured_guards(name)
            line = timed(f"guards of {name}", {"guards": guards}, [], seconds)
            output.add(line, f"{line.name:24}{line.times['guards']:10.2f}  {text}")


def timed(name: str, functions: dict[str, Callable[[int], None]], compared: list[str], seconds: float) -> record.Line:
    """Returns a line with the cost of a call, for functions that take the number of calls."""
    samples = measure.sample({who: partial(run, TIMES) for who, run in functions.items()}, seconds, measure.clock(1))
    each = {who: [time / TIMES for time in seen] for who, seen in samples.items()}
    return record.timed(name, {"threads": 1}, each, compared, unit="us")
