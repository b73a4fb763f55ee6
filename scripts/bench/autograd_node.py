"""The cost of a compiled graph's autograd node, in addition to the graphs that it runs and the engine that calls it.

    PYTHONPATH=python .venv/bin/python scripts/bench/autograd_node.py [--repeats 30]

Prints microseconds, the best of many loops, of graphs over single elements, so that kernel time is negligible. Per
graph: the graph alone (`no_grad`), the same as a node, `torch.autograd.grad` of it, and the graph of the gradients
called separately. The engine column is the time of `torch.autograd.grad` beyond the kernel for an eager operation with
one input; with more inputs, for an eager operation with the same number of edges (`torch.stack`). The last two columns
are the cost of the node: in the forward, and in both.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import torch


def text(inputs: int, results: int) -> str:
    """Returns a graph that sums the sines of the inputs and saves all inputs, and this many cosines, as results."""
    value = "tensor<1xf32>"
    arguments = ", ".join(f"%x{i}: {value} {{dynamo.requires_grad}}" for i in range(inputs))
    kept = [f"#dynamo.output<arg {i}>" for i in range(inputs)]
    kept += [f"#dynamo.output<result {1 + i}>" for i in range(results)]
    lines = [f"%s{i} = dynamo.sin %x{i} : {value}" for i in range(inputs)]
    lines += [f"%c{i} = dynamo.cos %x{i} : {value}" for i in range(results)]
    lines += [f"%y0 = dynamo.add %s0, %s0 : {value}"]
    lines += [f"%y{i} = dynamo.add %y{i - 1}, %s{i} : {value}" for i in range(1, inputs)]
    returned = ", ".join([f"%y{inputs - 1}", *(f"%c{i}" for i in range(results))])
    types = ", ".join([value] * (1 + results))
    taken = ", ".join([f"%x{i}: {value}" for i in range(inputs)] + [f"%c{i}: {value}" for i in range(results)])
    back = [
        f"%g{i} = dynamo.mul %t, %c{i} : {value}" if i < results else f"%g{i} = dynamo.mul %t, %x{i} : {value}"
        for i in range(inputs)
    ]
    given = ", ".join(f"{value} {{dynamo.gradient = {i} : i64}}" for i in range(inputs))
    outputs = ", ".join(f"#dynamo.output<result {i}>" for i in range(inputs))
    newline = "\n    "
    return f"""module {{
  func.func @main({arguments}) -> ({types})
      attributes {{dynamo.entry, dynamo.differentiable = array<i64: 0>, dynamo.vjp = @main_vjp,
                  dynamo.saved = {len(kept)} : i64, dynamo.outputs = [#dynamo.output<result 0>, {", ".join(kept)}]}} {{
    {newline.join(lines)}
    return {returned} : {types}
  }}
  func.func @main_vjp({taken}, %t: {value} {{dynamo.tangent = 0 : i64}}) -> ({given})
      attributes {{dynamo.entry, dynamo.outputs = [{outputs}]}} {{
    {newline.join(back)}
    return {", ".join(f"%g{i}" for i in range(inputs))} : {", ".join([value] * inputs)}
  }}
}}
"""


def load(inputs: int, results: int) -> dict[str, Any]:
    """The two entries."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "02-prims.mlir"
        path.write_text(text(inputs, results))
        return dynamlir.load_entries(path)


def best(function: Callable[[], Any], repeats: int, times: int = 2000) -> float:
    """Returns the microseconds of a call."""
    shortest = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        for _ in range(times):
            function()
        shortest = min(shortest, time.perf_counter() - started)
    return 1e6 * shortest / times


def row(inputs: int, results: int, repeats: int) -> list[float]:
    """Returns the times of graph, node, gradients, graph of gradients, engine, and the cost of the node."""
    entries = load(inputs, results)
    graph, vjp = entries["main"], entries["main_vjp"]
    given = [torch.randn(1, requires_grad=True) for _ in range(inputs)]
    detached, tangent = [x.detach() for x in given], torch.ones(1)
    saved = [*detached, *detached[:results], tangent]
    (y,) = graph(*given)

    def operation(values: list[torch.Tensor]) -> torch.Tensor:
        return values[0].neg() if inputs == 1 else torch.stack(values)

    eager = operation(given)
    tangents = torch.ones_like(eager)
    with torch.no_grad():
        alone = best(lambda: graph(*given), repeats)
        back = best(lambda: vjp(*saved), repeats)
        # The computation of the operation's gradient.
        kernel = best(lambda: tangents.neg() if inputs == 1 else tangents.unbind(), repeats)
    node = best(lambda: graph(*given), repeats)
    gradients = best(lambda: torch.autograd.grad(y, given, tangent, retain_graph=True), repeats)
    engine = best(lambda: torch.autograd.grad(eager, given, tangents, retain_graph=True), repeats) - kernel
    forward = node - alone
    return [alone, node, gradients, back, engine, forward, forward + gradients - back - engine]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=30)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    header = ("graph", "node", "gradients", "their graph", "engine", "+ forward", "+ both")
    print(f"{'':24}" + "".join(f"{name:>12}" for name in header))
    for inputs, results in ((1, 0), (1, 1), (20, 18)):
        label = f"{inputs} in, {inputs + results} kept"
        print(f"{label:24}" + "".join(f"{value:12.2f}" for value in row(inputs, results, repeats)))


if __name__ == "__main__":
    main()
