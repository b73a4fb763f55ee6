"""The cost of graph breaks: graphs, entries and microseconds per call of programs that run partly as plain Python.

    scripts/bench/breaks.py [--seconds N]

For comparison, TorchDynamo runs with a backend that executes the graph as captured, with its nested breaks off and on.
The tensors have eight elements, so that nearly all of the time is spent around the graphs.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "python")]

import dynamlir  # noqa: E402
import torch  # noqa: E402
from suite import measure  # noqa: E402

X, Y = torch.linspace(0.5, 2.0, 8), torch.linspace(-1.0, 2.0, 8)
LOG: list[Any] = []


@torch.compiler.disable
def act(*given: Any) -> None:
    """A function that has to run as plain Python."""


class Counter:
    """An object with a number."""

    count = 0


COUNTER = Counter()


def no_break(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def one_break(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    act()
    return y + 1


def two_breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    act()
    y = y + 1
    act()
    return y * 3


def four_breaks(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    act()
    y = y + 1
    act()
    y = y * 3
    act()
    y = y - 1
    act()
    return y * 4


def toy_example(a: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if a.sum() < 0:
        a = a * -1
    return x * a


def loop(x: torch.Tensor) -> torch.Tensor:
    for i in range(10):
        act(i)
        x = x + 1
    return x * 2


def item(x: torch.Tensor) -> torch.Tensor:
    peak = x.max().item()
    act(peak)
    return x / (peak + 1e-6)


def caught(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    try:
        number = int("none")
        y = y * number
    except ValueError:
        act()
    return y + 1


def written(x: torch.Tensor) -> torch.Tensor:
    COUNTER.count += 1
    LOG.append(x.mean())
    return x + 1


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    act()
    return y + 1


def middle(x: torch.Tensor) -> torch.Tensor:
    return inner(x - 1) * 3


def deep(x: torch.Tensor) -> torch.Tensor:
    return middle(x + 1) - 2


class Layer(torch.nn.Module):
    """A layer distinguished from others by its attributes."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.number
        act()
        return y + 1


class Layers(torch.nn.Module):
    """Many such layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(map(Layer, range(6)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Talks(torch.nn.Module):
    """A module that has to run partly as plain Python."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        act()
        return y + 1


MODEL = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh(), Talks(), torch.nn.ReLU())


LAYERS = Layers()


def nested(x: torch.Tensor) -> torch.Tensor:
    return MODEL(x)


def layers(x: torch.Tensor) -> torch.Tensor:
    return LAYERS(x)


PROGRAMS = [
    *(no_break, one_break, two_breaks, four_breaks, toy_example),
    *(loop, item, caught, written, deep, nested, layers),
]


def under_dynamo(function: Callable[..., Any], nested_breaks: bool) -> tuple[Callable[..., Any], list[Any]]:
    """Returns the function under TorchDynamo, and its graphs."""
    graphs: list[Any] = []

    def backend(module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(module)
        return module.forward

    with torch._dynamo.config.patch(nested_graph_breaks=nested_breaks):
        compiled = torch.compile(function, backend=backend)
        for _ in range(3):
            compiled(X)
    return compiled, graphs


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time per line")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dynamlir.config.on_plain = "ignore"
    heads = ("graphs", "Dynamo", "nested", "eager us", "ours", "Dynamo", "ours/Dynamo")
    print(f"{'':14}" + "".join(f"{head:>12}" for head in heads))
    for function in PROGRAMS:
        torch._dynamo.reset()
        dynamlir.reset()
        _, nested_graphs = under_dynamo(function, True)
        torch._dynamo.reset()
        theirs, graphs = under_dynamo(function, False)
        ours = dynamlir.compile(function)
        for _ in range(3):
            torch.testing.assert_close(ours(X), function(X))
        contestants = {"eager": function, "ours": ours, "Dynamo": theirs}
        calls = {name: functools.partial(call, X) for name, call in contestants.items()}
        samples = measure.sample(calls, options.seconds, measure.clock(1))
        times = [measure.median(samples[name]) * 1e6 for name in calls]
        counts = (dynamlir.counters()["graphs"], len(graphs), len(nested_graphs))
        numbers = "".join(f"{count:12}" for count in counts) + "".join(f"{time:12.2f}" for time in times)
        print(f"{function.__name__:14}{numbers}{times[1] / times[2]:12.2f}", flush=True)
        LOG.clear()


if __name__ == "__main__":
    main()
