"""Dynamo's graph of the ``backward`` of a `torch.autograd.Function`, and whether it may be differentiated.

Dynamo traces it with grad mode off, as it runs without ``create_graph``. So its graph does not show where the user's
code itself switches grad mode off, nor a function that it applies: it has only their values. Whether there are any is
looked up in the source that the nodes come from; where there may be, it is differentiated only once.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Iterator

import torch
import torch.fx
from torch._functorch.autograd_function import autograd_function_apply

from .source_lines import Line, parse_stack

_SWITCHES = re.compile(r"\b(no_grad|enable_grad|set_grad_enabled|inference_mode|\w*[Cc]heckpoint\w*|apply)\b")


def free(module: torch.fx.GraphModule) -> None:
    """Makes backwards differentiable, as in eager, wherever their meaning is clear."""
    for node in module.graph.find_nodes(op="call_function", target=autograd_function_apply):
        inner = getattr(module, str(node.args[1].target))
        calls = [call for call in inner.graph.nodes if call.op not in ("placeholder", "get_attr", "output")]
        switches = [call for call in calls[:1] + calls[-1:] if call.target is torch._C._set_grad_enabled]
        if [call.args[0] for call in switches] == [False, True] and not is_unseen(node, inner.graph):
            for switch in switches:
                inner.graph.erase_node(switch)
            inner.recompile()
    for child in module.children():
        if isinstance(child, torch.fx.GraphModule):
            free(child)


def is_once(node: torch.fx.Node, graph: torch.fx.Graph) -> bool:
    """Returns true if the backward of the function applied by ``node`` is once differentiable: torch's code runs it."""
    return any(frame[0] == torch.autograd.function.__file__ for _, own in _frames(node, graph) for frame in own)


def is_unseen(node: torch.fx.Node, graph: torch.fx.Graph) -> bool:
    """Returns true if the graph does not show enough of the backward to differentiate it."""
    for inner, own in _frames(node, graph):
        is_call = inner.op in ("call_function", "call_method") and inner.target is not torch._C._set_grad_enabled
        if any(map(_switches, own)) or (is_call and not own):
            return True
    return False


def _frames(node: torch.fx.Node, graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, list[Line]]]:
    """Yields the nodes of a backward with their places in the user's code, innermost first, below the call's frame."""
    around = len(parse_stack(node.stack_trace))
    for inner in graph.nodes:
        frames = parse_stack(inner.stack_trace)
        yield inner, list(frames[: max(0, len(frames) - around)])


def _switches(frame: Line) -> bool:
    file, line, name, _ = frame
    if file == torch.autograd.function.__file__ or name in ("forward", "setup_context"):
        return True
    lines = linecache.getlines(file)
    start = line - 1
    while 0 <= start < len(lines) and not re.match(rf"\s*(async\s+)?def\s+{re.escape(name)}\b", lines[start]):
        start -= 1
    if not 0 <= start < len(lines):
        return name != "<lambda>" or not lines
    return _SWITCHES.search("".join(inspect.getblock(lines[start:]))) is not None
