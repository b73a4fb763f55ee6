"""Constants, trees and graphs as JSON. Everything read is validated; names are looked up only in fixed tables."""

from __future__ import annotations

import collections
import json
import keyword
from collections.abc import Callable
from typing import Any

import torch
import torch.fx
from torch.utils import _pytree as pytree

from . import targets

_OF_TORCH: dict[str, type] = {
    "dtype": torch.dtype,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


class Unreadable(ValueError):
    """A part of a file that is invalid."""


def constant(value: Any, node: Callable[[torch.fx.Node], str] | None = None) -> Any:
    """Returns a constant, or an argument of a node, as JSON; raises `ValueError` if it has no such form."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is complex:
        return {"complex": [value.real.hex(), value.imag.hex()]}
    if type(value) in (tuple, torch.Size, list, torch.fx.immutable_collections.immutable_list):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {"Size" if type(value) is torch.Size else kind: [constant(item, node) for item in value]}
    if type(value) in (dict, torch.fx.immutable_collections.immutable_dict):
        return {"dict": [[constant(key), constant(item, node)] for key, item in value.items()]}
    if type(value) is slice:
        return {"slice": [constant(part, node) for part in (value.start, value.stop, value.step)]}
    if type(value) is range:
        return {"range": [value.start, value.stop, value.step]}
    if value is ...:
        return {"ellipsis": None}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    for name, kind_ in _OF_TORCH.items():
        if isinstance(value, kind_):
            return {name: str(value).removeprefix("torch.")}
    if node is not None and isinstance(value, torch.fx.Node):
        return {"node": node(value)}
    raise ValueError(f"a {type(value).__module__}.{type(value).__qualname__}")


def read_constant(text: Any, node: Callable[[str], Any] | None = None) -> Any:
    """The inverse of `constant`; ``node`` returns the node of a name."""
    if text is None or type(text) in (bool, int, str):
        return text
    if type(text) is not dict or len(text) != 1:
        raise Unreadable(f"{_short(text)} is no constant")
    ((kind, given),) = text.items()

    def items() -> list[Any]:
        return [read_constant(item, node) for item in _list(given)]

    if kind == "node" and node is not None and type(given) is str:
        return node(given)
    if kind == "float":
        return _float(given)
    if kind == "complex":
        real, imaginary = _list(given, 2)
        return complex(_float(real), _float(imaginary))
    if kind in ("tuple", "list"):
        return tuple(items()) if kind == "tuple" else items()
    if kind == "Size":
        return torch.Size(_whole(items()))
    if kind == "dict":
        return {
            read_constant(key): read_constant(item, node) for key, item in (_list(pair, 2) for pair in _list(given))
        }
    if kind == "slice":
        return slice(*(read_constant(part, node) for part in _list(given, 3)))
    if kind == "range":
        return range(*_whole(_list(given, 3)))
    if kind == "ellipsis" and given is None:
        return ...
    if kind == "device" and type(given) is str:
        return torch.device(given)
    if kind in _OF_TORCH and type(given) is str:
        found = getattr(torch, given, None)
        if isinstance(found, _OF_TORCH[kind]):
            return found
    raise Unreadable(f"{_short(text)} is no constant")


def tree(spec: pytree.TreeSpec) -> Any:
    """Returns the nesting of leaves as JSON; raises `ValueError` for a class that is not known to every torch."""
    if spec.is_leaf():
        return "*"
    children = [tree(child) for child in spec.children()]
    if spec.type in (tuple, list):
        return {spec.type.__name__: children}
    if spec.type in _DICTS.values():
        keys = [constant(key) for key in spec.context]
        return {spec.type.__name__: [list(pair) for pair in zip(keys, children)]}
    known = pytree.SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None or _registered(known.serialized_type_name) is not spec.type:
        raise ValueError(f"a {spec.type.__module__}.{spec.type.__qualname__}, which torch cannot name in a file")
    context = spec.context if known.to_dumpable_context is None else known.to_dumpable_context(spec.context)
    try:
        written = json.loads(json.dumps(context))
    except (TypeError, ValueError) as error:
        raise ValueError(f"a {spec.type.__qualname__}: {error}") from None
    return {"registered": [known.serialized_type_name, written, children]}


def read_tree(text: Any) -> pytree.TreeSpec:
    """The inverse of `tree`. Classes are those registered by torch or by the reading program."""
    return pytree.tree_structure(_read_tree(text))


def _read_tree(text: Any) -> Any:
    """Returns a tree with this structure."""
    if text == "*":
        return 0
    if type(text) is not dict or len(text) != 1:
        raise Unreadable(f"{_short(text)} is no tree")
    ((kind, given),) = text.items()
    if kind in ("tuple", "list"):
        children = [_read_tree(child) for child in _list(given)]
        return tuple(children) if kind == "tuple" else children
    if kind in _DICTS:
        pairs = [_list(pair, 2) for pair in _list(given)]
        return _DICTS[kind]((read_constant(key), _read_tree(child)) for key, child in pairs)
    if kind == "registered":
        name, context, children = _list(given, 3)
        found = _registered(name)
        if found is None:
            raise Unreadable(f"no class is registered with torch's pytrees as {_short(name)}")
        known = pytree.SUPPORTED_SERIALIZED_TYPES[found]
        if known.from_dumpable_context is not None:
            context = known.from_dumpable_context(context)
        return pytree.SUPPORTED_NODES[found].unflatten_fn([_read_tree(child) for child in _list(children)], context)
    raise Unreadable(f"{_short(text)} is no tree")


_DICTS: dict[str, Any] = {"dict": dict, "OrderedDict": collections.OrderedDict}


def _registered(name: Any) -> Any:
    """Returns a class by its registered name. Classes whose contexts name code are left out."""
    found = pytree.SERIALIZED_TYPE_TO_PYTHON_TYPE.get(name) if type(name) is str else None
    if found is None or name.startswith(("builtins.", "collections.", "NO_SERIALIZED")):
        return None
    return found if found in pytree.SUPPORTED_NODES and found in pytree.SUPPORTED_SERIALIZED_TYPES else None


def graph(module: torch.fx.GraphModule) -> list[Any]:
    """Returns the nodes of a graph, one per row; raises `ValueError` if one has no such form."""
    rows = []
    for node in module.graph.nodes:
        target: Any = node.target
        if node.op == "call_function":
            target = targets.name_of(node.target)
            if target is None:
                raise ValueError(f"{node.name} calls {torch.typename(node.target)}, which is no function of torch's")
            if target == "builtins.getattr" and node.args[1] not in targets.ATTRIBUTES:
                raise ValueError(f"{node.name} gets the attribute {node.args[1]}")
        elif node.op == "call_method" and target not in targets.methods():
            raise ValueError(f"{node.name} calls the method {target}")
        elif node.op == "get_attr":
            raise ValueError(f"{node.name} is {type(getattr(module, target, None)).__qualname__} object")
        try:
            args = constant(tuple(node.args), lambda other: other.name)
            kwargs = constant(dict(node.kwargs), lambda other: other.name)
        except ValueError as error:
            raise ValueError(f"{node.name} is given {error}") from None
        rows.append([node.op, node.name, target, args, kwargs])
    return rows


def read_graph(rows: Any, name: str = "GraphModule") -> torch.fx.GraphModule:
    """The inverse of `graph`."""
    made: dict[str, torch.fx.Node] = {}
    graph = torch.fx.Graph()

    def node_of(name: str) -> torch.fx.Node:
        if name not in made:
            raise Unreadable(f"the graph uses {_short(name)} before it is made")
        return made[name]

    open_: list[str] = []
    for row in _list(rows):
        op, own, target, args, kwargs = _list(row, 5)
        if type(own) is not str or not _is_name(own) or own in made:
            raise Unreadable(f"{_short(own)} is no name for a new node")
        args, kwargs = read_constant(args, node_of), read_constant(kwargs, node_of)
        if type(args) is not tuple or type(kwargs) is not dict or not all(map(_is_name, kwargs)):
            raise Unreadable(f"the arguments of {own} are no arguments")
        made[own] = _node(graph, op, own, target, args, kwargs)
        for begins, ends in targets.BALANCED:
            if target == begins:
                open_.append(ends)
            elif target == ends and (not open_ or open_.pop() != ends):
                raise Unreadable(f"{own} ends a transform that was not begun")
    if open_:
        raise Unreadable("the graph leaves a transform open")
    if [node.op for node in graph.nodes].count("output") != 1 or next(iter(reversed(graph.nodes))).op != "output":
        raise Unreadable("the graph does not end with its one output")
    graph.lint()
    return torch.fx.GraphModule(torch.nn.Module(), graph, name)


def _node(
    graph: torch.fx.Graph, op: Any, name: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.fx.Node:
    found: Any = None
    is_input = op == "placeholder" and _is_name(target) and not args and not kwargs
    if is_input or (op == "call_method" and type(target) is str and target in targets.methods() and args):
        found = target
    elif op == "call_function" and type(target) is str:
        found = targets.function_of(target)
        if found is getattr:
            allowed = len(args) == 2 and type(args[1]) is str and args[1] in targets.ATTRIBUTES and not kwargs
            found = getattr if allowed and isinstance(args[0], torch.fx.Node) else None
    elif op == "output" and len(args) == 1 and type(args[0]) is tuple and not kwargs:
        found = "output"
    if found is None:
        raise Unreadable(f"{name} is {_short(op)} of {_short(target)}, which is not among what a saved graph may do")
    node = graph.create_node(op, found, args, kwargs, name)
    if node.name != name:
        raise Unreadable(f"{name} is no name that a node can have")
    return node


def _is_name(text: Any) -> bool:
    return type(text) is str and text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _list(given: Any, length: int | None = None) -> list[Any]:
    if type(given) is not list or (length is not None and len(given) != length):
        raise Unreadable(f"{_short(given)} is no list{'' if length is None else f' of {length}'}")
    return given


def _whole(given: list[Any]) -> list[int]:
    if not all(type(item) is int for item in given):
        raise Unreadable(f"{_short(given)} are no whole numbers")
    return given


def _float(given: Any) -> float:
    if type(given) is not str:
        raise Unreadable(f"{_short(given)} is no number")
    try:
        return float.fromhex(given)
    except (ValueError, OverflowError):
        raise Unreadable(f"{_short(given)} is no number") from None


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}…"
