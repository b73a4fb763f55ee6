"""Sizes as expressions over names, and relations between them: as text, and for given numbers.

The text may come from anywhere: it is checked against a small grammar, and never executed.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_RELATIONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"min": min, "max": max}
LARGEST_SIZE = 1 << 48
"""The upper bound of sizes, as `crates/shapes` has it: no tensor has so many elements."""

_LONGEST = 4000
_DEEPEST = 60


def of_native(text: str, names: Mapping[str, str] | None = None) -> str:
    """Converts an expression or relation of the native part to Python syntax, with other names for its symbols."""
    text = text.replace(" mod ", " % ").replace(" floordiv ", " // ")
    if names is None:
        return text

    def word(found: re.Match[str]) -> str:
        name = names[found[0]]
        return name if name.isidentifier() or name.isdigit() else f"({name})"

    alone = names.get(text)
    return re.sub(r"\bs\d+\b", word, text) if alone is None else alone


def check(text: Any, names: Mapping[str, Any] | frozenset[str], *, relation: bool = False) -> None:
    """Raises `ValueError` unless this is an expression over these names, or with ``relation`` a comparison of two."""
    if type(text) is not str or len(text) > _LONGEST:
        raise ValueError(f"{text!r:.60} is no expression")
    tree = _parsed(text)
    if isinstance(tree, ast.Compare) != relation:
        raise ValueError(f"{text!r:.60} is no {'relation' if relation else 'expression'} of sizes")
    for name in _names(tree):
        if name not in names:
            raise ValueError(f"{text!r:.60} is about {name}, which is no size")


def at(text: str | int, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] = _FUNCTIONS) -> Any:
    """Returns the value of an expression for these values of the names, or whether a relation is true. Division by zero
    raises `ValueError`, and makes a relation false."""
    if isinstance(text, int):
        return text
    tree = _parsed(text)
    try:
        return _value(tree, values, functions)
    except ZeroDivisionError:
        if isinstance(tree, ast.Compare):
            return False
        raise ValueError(f"{text} divides by zero") from None


def names_in(text: str | int) -> set[str]:
    """Returns the names in an expression."""
    return set() if isinstance(text, int) else set(_names(_parsed(text)))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    for child in node.args if isinstance(node, ast.Call) else ast.iter_child_nodes(node):
        yield from _names(child)


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr:
    try:
        tree = ast.parse(text, mode="eval").body
        if isinstance(tree, ast.Compare):
            sides = [tree.left, *tree.comparators]
            fits = len(sides) == 2 and type(tree.ops[0]) in _RELATIONS and all(_fits(side, 0) for side in sides)
        else:
            fits = _fits(tree, 0)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        fits = False
    if not fits:
        raise ValueError(f"{text!r:.60} is no expression of sizes")
    return tree


def _fits(node: ast.expr, depth: int) -> bool:
    """Returns true if the tree contains only the parts of an expression."""
    if depth > _DEEPEST:
        return False
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.Name():
            return True
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _fits(operand, depth + 1)
        case ast.BinOp(left=left, op=op, right=right):
            return type(op) in _ARITHMETIC and _fits(left, depth + 1) and _fits(right, depth + 1)
        case ast.Call(func=ast.Name(id=name), args=[_, _, *_] as args, keywords=[]):
            return name in _FUNCTIONS and all(_fits(argument, depth + 1) for argument in args)
    return False


def _value(node: ast.expr, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return values[name]
        case ast.UnaryOp(operand=operand):
            return -_value(operand, values, functions)
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_value(left, values, functions), _value(right, values, functions))
        case ast.Call(func=ast.Name(id=name), args=args):
            return functools.reduce(functions[name], [_value(argument, values, functions) for argument in args])
        case ast.Compare(left=left, ops=[relation], comparators=[right]):
            return _RELATIONS[type(relation)](_value(left, values, functions), _value(right, values, functions))
    raise ValueError("no expression of sizes")
