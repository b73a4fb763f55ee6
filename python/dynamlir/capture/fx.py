"""The captured graph as a `torch.fx.GraphModule`, with torch's own targets and names."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx


class Ref(int):
    """Stands for the value of a node, by its position, in the arguments that the native graph hands over."""


@dataclasses.dataclass(frozen=True)
class GraphNode:
    """A node as the native graph hands it over."""

    kind: str
    name: str
    base: str
    target: str
    object: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    location: Sequence[tuple[str, int, str]]


def export(nodes: Sequence[GraphNode], examples: Sequence[Any], name: str = "Captured") -> torch.fx.GraphModule:
    """Build the module; ``examples`` are the placeholders' fakes, in order."""
    graph = torch.fx.Graph()
    made: list[torch.fx.Node] = []
    supply = iter(examples)

    def value(argument: Any) -> Any:
        if type(argument) is Ref:
            return made[argument]
        if type(argument) in (list, tuple):
            return type(argument)(value(item) for item in argument)
        if type(argument) is dict:
            return {key: value(item) for key, item in argument.items()}
        if type(argument) is slice:
            return slice(value(argument.start), value(argument.stop), value(argument.step))
        return argument

    for node in nodes:
        args = tuple(value(argument) for argument in node.args)
        kwargs = {key: value(argument) for key, argument in node.kwargs.items()}
        if node.kind == "placeholder":
            new = graph.placeholder(f"L_{node.base}_")
            new.meta["example_value"] = next(supply, None)
        elif node.kind == "call_function":
            new = graph.call_function(node.object, args, kwargs)
        elif node.kind == "call_method":
            new = graph.call_method(node.target, args, kwargs)
        elif node.kind == "output":
            results = args[0]
            new = graph.output(tuple(results) if isinstance(results, (list, tuple)) else (results,))
        else:
            raise ValueError(f"a node of kind {node.kind} cannot be exported")
        new.meta["stack_trace"] = _stack_trace(node.location)
        made.append(new)
    graph.lint()
    return torch.fx.GraphModule(torch.nn.Module(), graph, name)


def _stack_trace(location: Sequence[tuple[str, int, str]]) -> str:
    return "".join(f'  File "{file}", line {line}, in {function}\n' for file, line, function in reversed(location))
