"""The exported graph against Dynamo's: names, types and order of inputs; nodes, where no variable names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
from torch import nn

pytestmark = pytest.mark.native

X, Y = torch.randn(3, 4), torch.randn(3, 4)
SCALE = torch.ones(4)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.own = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.first(x) * self.own)


LAYERS = Layers().eval()
SEQUENCE = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)).eval()


def dynamos(function: Callable[..., Any], args: Sequence[Any]) -> torch.fx.GraphModule:
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(graph)
        return graph.forward

    torch.compile(function, backend=backend)(*args)
    return seen[0]


def inputs(graph: torch.fx.GraphModule) -> list[tuple[str, Any, Any]]:
    return [(node.name, node.target, node.type) for node in graph.graph.find_nodes(op="placeholder")]


# What no statement of the function, or of one that it calls, stores in a variable.
UNNAMED: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "arithmetic": (lambda x, y: (x + 1, -y, x**2, 1 - x, x > 0), (X, Y)),
    "last use first": (lambda x, y: x @ y.t(), (X, Y)),
    "products": (lambda x, y: torch.matmul(x, y.t()) + y.sum(), (X, Y)),
    "chain": (lambda x: torch.softmax(x * 2, -1).sum(0), (X,)),
    "containers": (lambda d: d["a"] + d["b"][0], ({"a": X, "b": [Y]},)),
    "global": (lambda x: x * SCALE + SCALE, (X,)),
    "dtype": (lambda x: x.to(torch.float64).mean(dim=1, keepdim=True), (X,)),
    "where": (lambda x, y: torch.where(y > 0, torch.sin(x), y), (X, Y)),
    "made": (lambda x: torch.zeros(3) + x.sum(1), (X,)),
    "not used": (lambda x, y: y.relu(), (X, Y)),
}

NAMED: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "module": (LAYERS, (X,)),
    "torch's module": (SEQUENCE, (X,)),
    "global module": (lambda x: LAYERS(x), (X,)),
}


@torch.no_grad()
@pytest.mark.parametrize("name", [*UNNAMED, *NAMED])
def test_inputs_are_dynamos(name: str) -> None:
    function, args = {**UNNAMED, **NAMED}[name]
    assert inputs(dynamlir.explain(function)(*args).graphs[0]) == inputs(dynamos(function, args))


@torch.no_grad()
@pytest.mark.parametrize("name", UNNAMED)
def test_nodes_are_dynamos(name: str) -> None:
    function, args = UNNAMED[name]
    ours, theirs = dynamlir.explain(function)(*args).graphs[0], dynamos(function, args)
    assert ours.code == theirs.code
    text = ours.print_readable(print_output=False)
    lines = [line.strip() for line in theirs.print_readable(print_output=False).splitlines() if "# File: " in line]
    assert lines and all(line in text for line in lines)


@torch.no_grad()
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "callable"])
def test_inputs_reach_their_places(backend: str) -> None:
    """A graph whose inputs come in another order than the capture has them."""
    seen: list[torch.Tensor] = []

    def callable_(graph: torch.fx.GraphModule, examples: list[torch.Tensor]) -> Any:
        seen.extend(examples)
        return graph.forward

    function = UNNAMED["last use first"][0]
    compiled = dynamlir.compile(function, backend=callable_ if backend == "callable" else backend, fullgraph=True)
    for x, y in ((X, Y), (Y, X)):
        assert torch.equal(compiled(x, y), function(x, y))
    assert backend != "callable" or (seen[0] is Y and seen[1] is X)


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    explanation = dynamlir.explain(lambda x, y: torch.add(x, y) * 2)(X, Y)
    explanation.print_tabular()
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert head == ["opcode", "name", "target", "args", "kwargs"]
    assert [row[:2] for row in rows if row[0].startswith("call")] == [
        ["call_function", "add_0"],
        ["call_function", "mul_0"],
    ]
