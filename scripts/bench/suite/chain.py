"""`chain`: eleven elementwise operations on 256 by 256 elements, by each backend; the cost of each layer.

Graph capture alone gains next to nothing; the gain comes from what a backend does with the graph. `python` and `eager`
call the same operators from a function without the user's code, `jit` has TorchScript call them, `inductor` and
`dynamlir` generate one kernel from them.

The layers are differences, per operation. On one element kernel time is negligible: eager's time beyond TorchScript's
is the interpreter with torch's bindings, TorchScript's time is the dispatcher. The kernel is eager's additional time on
all elements. A CPU has no launches; they are represented by one whole call of the compiled graph on one element, with
its guards.
"""

from __future__ import annotations

from functools import partial

import torch

from . import agree, contestants, measure, record

BACKENDS = ("python", "jit", "eager", "inductor", "dynamlir")
OPERATIONS = 11
SIZE = 256


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Eleven operations, each of which reads the result of the previous one."""
    x = torch.add(x, y)
    x = torch.mul(x, 0.5)
    x = torch.sub(x, y)
    x = torch.relu(x)
    x = torch.add(x, 1.0)
    x = torch.mul(x, y)
    x = torch.neg(x)
    x = torch.abs(x)
    x = torch.sub(x, 0.25)
    x = torch.mul(x, x)
    return torch.add(x, y)


def run(output: record.Record, field: contestants.Field, seconds: float) -> None:
    """Prints and records the tables, on one thread."""
    import dynamlir

    torch.set_num_threads(1)
    names = [name for name in BACKENDS if field.inductor or name != "inductor"]
    compared = [f"{name}/plain" for name in names]
    output.part(
        "chain",
        f"chain: microseconds per call of {OPERATIONS} elementwise operations, and as a share of plain Python's",
        f"{'':16}{''.join(name.rjust(10) for name in ('plain', *names))}",
    )
    lines = {}
    with torch.no_grad():
        for size in (SIZE, 1):
            arguments = (torch.randn(size, size), torch.randn(size, size))
            wanted = chain(*arguments)
            functions = {"plain": chain} | {name: dynamlir.compile(chain, backend=name) for name in names}
            errors = {name: agree.worst_error(functions[name](*arguments), wanted) for name in names}
            called = {name: partial(function, *arguments) for name, function in functions.items()}
            samples = measure.sample(called, seconds, measure.clock(1))
            line = lines[size] = record.timed(f"{size} x {size}", {"threads": 1}, samples, compared, unit="us")
            line.errors, line.right = errors, max(errors.values()) <= agree.TOLERANCE
            shares = "".join(f"{line.ratios[pair]['value']:10.2f}" for pair in compared)
            cells = "".join(f"{line.times[name]:10.2f}" for name in functions)
            output.add(line, f"{line.name:16}{cells}\n{'share':26}{shares}")
    whole, one = lines[SIZE].times, lines[1].times
    layers = {
        "interpreter and bindings": (one["plain"] - one["jit"]) / OPERATIONS,
        "dispatcher": one["jit"] / OPERATIONS,
        "kernel": (whole["plain"] - one["plain"]) / OPERATIONS,
        "a compiled call": one["dynamlir"],
    }
    line = record.Line("layers", {"threads": 1}, "us", figures=layers)
    output.add(line, "\n".join(f"{name:28}{value:8.2f}" for name, value in layers.items()))
