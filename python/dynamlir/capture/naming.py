"""The names and order of the inputs of an exported graph: those that Dynamo gives for the same function.

A name is the source with all characters except letters and digits as ``_``: ``L_x_``,
``L_self_modules_fc_parameters_weight_``, ``G_scale_``. Dynamo creates an input for a local or a global when an
operation takes it, and for a module's parameter or buffer when it is read. This matters where one operation takes
several.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Iterator, Sequence
from typing import Any

from .. import source_lines
from .fx import GraphNode, Ref


def names(sources: Sequence[str], forward: types.FunctionType | None = None) -> list[str]:
    """Returns the names of inputs with these sources. ``forward`` is the module's, if a module was called."""
    known = None if forward is None else _parameters(forward)
    return [_NO_NAME.sub("_", source if known is None else _of_forward(source, known)) for source in sources]


_NO_NAME = re.compile(r"[^a-zA-Z0-9]+")


def order(nodes: Sequence[GraphNode], names: Sequence[str]) -> list[int]:
    """Returns the inputs, as indices of the first nodes, in order of first use; ``names`` are their names."""
    found: dict[int, None] = {}
    read = [bool(re.search("_(parameters|buffers)_", name)) for name in names]
    for node in nodes[len(names) :]:
        used = [at for at in _refs((node.args, node.kwargs)) if at < len(names)]
        if node.kind != "output":
            found |= dict.fromkeys(sorted(at for at in used if read[at]))
        found |= dict.fromkeys(used)
    return [*found, *(at for at in range(len(names)) if at not in found)]


def _refs(argument: Any) -> Iterator[int]:
    if type(argument) is Ref:
        yield int(argument)
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from _refs(item)
    elif isinstance(argument, dict):
        yield from _refs(tuple(argument.values()))
    elif isinstance(argument, slice):
        yield from _refs((argument.start, argument.stop, argument.step))


def _parameters(forward: types.FunctionType) -> list[str]:
    """Returns the names of the positional parameters of a module's ``forward``, the module first.

    Empty for torch's own modules, whose code Dynamo does not call by its parameters.
    """
    if not source_lines.is_users(forward.__code__.co_filename):
        return []
    return [
        name
        for name, parameter in inspect.signature(forward).parameters.items()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _of_forward(source: str, parameters: Sequence[str]) -> str:
    """Rewrites a source found in a call of a module in terms of the parameter names of its ``forward``."""
    if not parameters:
        return re.sub(r"^L\['self'\]", "L['fn']", source)
    if found := re.match(r"L\['args'\]\[(\d+)\]", source):
        at = int(found[1]) + 1
        return f"L['{parameters[at]}']{source[found.end() :]}" if at < len(parameters) else source
    source = re.sub(r"^L\['kwargs'\]\['(\w+)'\]", r"L['\1']", source)
    return re.sub(r"^L\['self'\]", f"L['{parameters[0]}']", source)
