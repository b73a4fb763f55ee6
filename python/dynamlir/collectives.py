"""Dynamo's graphs in which processes exchange tensors: the parts between the exchanges are compiled.

The result of such an operator is still being written until ``wait_tensor`` is called on that very memory, and its call
cannot be repeated, because all processes of the group take part. So no compiled graph contains any (`aten.table`).
Instead, a graph is cut around these operators. They are called in the graph's order, as in eager, and the parts between
them are separate graphs, each compiled at its first call.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from . import reasons
from .aten.table import COLLECTIVES
from .reasons import Fallback
from .source_lines import parse_stack

Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def cut(module: torch.fx.GraphModule, compile: Compile) -> torch.fx.GraphModule | None:
    """Returns the graph with everything between exchanges compiled. None if there is no exchange."""
    exchanges = [node for node in module.graph.nodes if node.op != "get_attr" and _exchanges(node, module)]
    if not exchanges:
        return None
    location = parse_stack(exchanges[0].stack_trace)
    message = str(exchanges[0].target)
    if any(node.target is torch.amp.autocast_mode._enter_autocast for node in module.graph.nodes):
        raise Fallback("collective", f"{message} in a function that switches autocast", location)
    reasons.note("collective", message, location)
    parts = _parts(module, set(exchanges))

    from torch.fx.passes.split_module import split_module  # only graphs with collectives need it

    whole = split_module(module, module, parts.__getitem__, keep_original_order=True)
    plain = {parts[node] for node in exchanges}
    for number in set(parts.values()) - plain:
        name = f"submod_{number}"
        setattr(whole, name, _Part(getattr(whole, name), compile))
    return whole


def _exchanges(node: torch.fx.Node, module: torch.fx.GraphModule) -> bool:
    """Returns true if a node, or a graph among its arguments, has processes exchange tensors."""
    target: Any = node.target
    if isinstance(target, torch._ops.OpOverloadPacket):
        return target._qualified_op_name.partition("::")[0] in COLLECTIVES
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace in COLLECTIVES
    if node.op != "get_attr":
        return any(_exchanges(given, module) for given in node.all_input_nodes if given.op == "get_attr")
    inner = getattr(module, str(target), None)
    return isinstance(inner, torch.fx.GraphModule) and any(_exchanges(each, inner) for each in inner.graph.nodes)


def _parts(module: torch.fx.GraphModule, exchanges: set[torch.fx.Node]) -> dict[torch.fx.Node, int]:
    """Returns the number of each node's part. Parts are runs of nodes, alternately without and with exchanges.

    Items of an exchange's result belong to its part, so that lists are not passed between parts.
    """
    found: dict[torch.fx.Node, int] = {}
    part, plain = 0, False
    items: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        is_item = node.target is operator.getitem and node.args[0] in exchanges | items
        if is_item:
            items.add(node)
        if (node in exchanges or is_item) != plain:
            part, plain = part + 1, not plain
        found[node] = part
    return found


class _Part(torch.nn.Module):
    """The operations between two exchanges. Compiled for the tensors of its first call; Dynamo's guards ensure that
    those of later calls are alike."""

    def __init__(self, module: torch.fx.GraphModule, compile: Compile) -> None:
        super().__init__()
        self._module = module
        self._compile = compile
        self._compiled: Callable[..., Any] | None = None

    def forward(self, *args: Any) -> Any:
        """Runs the part."""
        if self._compiled is None:
            self._compiled = self._compile(self._module, args)
        return self._compiled(*args)
