"""The exported graph against Dynamo's: names, types and order of inputs; names, targets, types and lines of nodes.

The programs whose variables name nodes are in `named_programs`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
from named_programs import OTHERWISE, PROGRAMS, Program
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

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


# Values that no statement of the function, or of a function that it calls, stores in a variable.
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

MODULES: dict[str, tuple[Callable[..., Any], Sequence[Any]]] = {
    "module": (LAYERS, (X,)),
    "torch's module": (SEQUENCE, (X,)),
    "global module": (lambda x: LAYERS(x), (X,)),
}


@torch.no_grad()
@pytest.mark.parametrize("name", [*UNNAMED, *MODULES])
def test_inputs_are_dynamos(name: str) -> None:
    function, args = {**UNNAMED, **MODULES}[name]
    assert inputs(dynamlir.explain(function)(*args).graphs[0]) == inputs(dynamos(function, args))


NODES: dict[str, Program] = {**UNNAMED, **MODULES, **PROGRAMS}


def nodes(graph: torch.fx.GraphModule) -> list[tuple[str, str, Any]]:
    return [(node.op, node.name, node.target) for node in graph.graph.nodes]


def text(graph: torch.fx.GraphModule) -> list[str]:
    """The nodes with types and lines; without the first line, which names the class and differs."""
    return graph.print_readable(print_output=False).splitlines()[1:]


def exported(function: Callable[..., Any], args: Sequence[Any]) -> torch.fx.GraphModule:
    seen: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        seen.append(graph)
        return graph.forward

    dynamlir.compile(function, backend=backend, fullgraph=True)(*args)
    return seen[0]


@torch.no_grad()
@pytest.mark.parametrize("name", NODES)
def test_nodes_are_dynamos(name: str) -> None:
    function, args = NODES[name]
    ours, theirs = dynamlir.explain(function)(*args).graphs[0], dynamos(function, args)
    assert nodes(ours) == nodes(theirs)
    assert ours.code == theirs.code
    assert text(ours) == text(theirs)


@torch.no_grad()
@pytest.mark.parametrize("name", ["stored_again", "equal layers", "equal layers that unpack"])
def test_backends_get_what_is_explained(name: str) -> None:
    function, args = PROGRAMS[name]
    assert text(exported(function, args)) == text(dynamlir.explain(function)(*args).graphs[0])


@torch.no_grad()
@pytest.mark.parametrize("name", OTHERWISE)
def test_what_is_otherwise_is_known(name: str) -> None:
    """An entry whose graph now equals Dynamo's belongs in the other tables."""
    (function, args), _ = OTHERWISE[name]
    ours, theirs = exported(function, args), dynamos(function, args)
    assert text(ours) != text(theirs)
    inputs = {node.target: node.meta["example_value"] for node in theirs.graph.find_nodes(op="placeholder")}
    assert set(inputs) == {node.target for node in ours.graph.find_nodes(op="placeholder")}
    torch.testing.assert_close(dynamlir.compile(function, backend="eager", fullgraph=True)(*args), function(*args))


@torch.no_grad()
@pytest.mark.parametrize("name", NODES)
def test_examples_look_like_the_values(name: str) -> None:
    function, args = NODES[name]
    ours, theirs = exported(function, args), dynamos(function, args)
    for own, other in zip(ours.graph.nodes, theirs.graph.nodes, strict=True):
        seen, expected = own.meta.get("example_value"), other.meta.get("example_value")
        if isinstance(expected, torch.Tensor):
            assert type(seen) is FakeTensor, own
            assert (seen.shape, seen.dtype, seen.stride()) == (expected.shape, expected.dtype, expected.stride()), own


@torch.no_grad()
def test_an_exported_graph_keeps_no_tensor_of_the_users() -> None:
    weights = [torch.randn(4, 4) for _ in range(3)]

    def function(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = x @ weight
        return x

    graph = dynamlir.explain(function)(X).graphs[0]
    gone = [weakref.ref(tensor) for tensor in weights]
    weights.clear()
    assert [ref() for ref in gone] == [None] * 3
    assert "x_1" in graph.code


@torch.no_grad()
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "callable"])
def test_inputs_reach_their_places(backend: str) -> None:
    """A graph whose inputs are in a different order than in the capture."""
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
