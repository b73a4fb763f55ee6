"""Translates Dynamo's dynamic sizes to ours.

Dynamo's `torch.SymInt`s are sympy expressions over the symbols of a ``ShapeEnv``. Each of these symbols that is a size
of an input becomes one of ours, and expressions over them become ours. A symbol that is an int input and not a tensor's
size becomes the size of an extra tensor input. Anything without such a form is specialised to its value, under a guard
of Dynamo's. Our own assumptions during recording are guarded as well: `Translation.install_guards` asks Dynamo's
`torch.SymInt`s the same questions, which makes the answers guards.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensor

from . import native
from .expressions import LARGEST_SIZE
from .reasons import Fallback

Sized = tuple[list[Any], list[Any]]
"""Sizes and strides."""


class Translation:
    """The sizes of a graph's inputs as ours."""

    def __init__(self, module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        nodes = module.graph.find_nodes(op="placeholder")
        self._inputs = [node.meta.get("example_value", value) for node, value in zip(nodes, inputs)]
        self.sizes = native.module().Sizes()
        self.bound: list[tuple[int, int]] = []
        """The tensor input, and its dimension, for each symbol."""
        self.lengths: list[int] = []
        """The int inputs for each of which the graph gets a tensor of that length, after all others."""
        self._ours: dict[Any, Any] = {}
        """Our symbols by Dynamo's."""
        self._theirs: list[torch.SymInt] = []
        """Dynamo's symbols by the numbers of ours."""
        self._required: list[Callable[[], torch.SymBool]] = []
        """The conditions on Dynamo's symbols besides the assumptions made during recording."""
        tensors = [value for value in self._inputs if isinstance(value, torch.Tensor)]
        for position, tensor in enumerate(tensors):
            for dim, size in enumerate(_shape(tensor)):
                self._bind(position, dim, size)
        for at, value in enumerate(self._inputs):
            self._bind_int(at, value, len(tensors))

    def _bind(self, position: int, dim: int, size: Any) -> None:
        """Makes a size that is a symbol one of our symbols."""
        if not isinstance(size, torch.SymInt):
            return
        expression = _expression(size)
        if not getattr(expression, "is_Symbol", False) or expression in self._ours or size.node.hint is None:
            return
        low, high = _range(size, expression)
        hint = int(size.node.hint)
        if hint < 2 or not low <= hint <= high:
            return
        self._ours[expression] = self.sizes.size(hint, low, None if high >= LARGEST_SIZE else high)
        self._theirs.append(size)
        self.bound.append((position, dim))

    def _bind_int(self, at: int, value: Any, tensors: int) -> None:
        """Makes an int input that is a symbol one of our symbols, without its sign, which Dynamo then guards."""
        if not isinstance(value, torch.SymInt):
            return
        expression, hint = _expression(value), value.node.hint
        if not getattr(expression, "is_Symbol", False) or expression in self._ours or hint is None:
            return
        hint = int(hint)
        if not 2 <= abs(hint) <= LARGEST_SIZE:
            return
        size = self.sizes.size(abs(hint), 2, None)
        self._ours[expression] = -size if hint < 0 else size
        self._theirs.append(-value if hint < 0 else value)
        length = self._theirs[-1]
        self._required += [lambda: length >= 2, lambda: length <= LARGEST_SIZE]
        self.bound.append((tensors + len(self.lengths), 0))
        self.lengths.append(at)

    @property
    def any(self) -> bool:
        """True if a size is dynamic."""
        return bool(self.bound)

    def number(self, at: int) -> Any:
        """Returns an input that is a size, as one of ours; None for other inputs."""
        value = self._inputs[at] if at < len(self._inputs) else None
        return self._value(value) if isinstance(value, torch.SymInt) else None

    def tensor(self, at: int) -> Sized | None:
        """Returns the sizes and strides of an input, if some are dynamic."""
        value = self._inputs[at] if at < len(self._inputs) else None
        if not isinstance(value, torch.Tensor):
            return None
        sizes, strides = ([self._value(number) for number in numbers] for numbers in (_shape(value), _strides(value)))
        return (sizes, strides) if any(isinstance(number, torch.SymInt) for number in (*sizes, *strides)) else None

    def stand_ins(self) -> list[tuple[torch.Tensor, Sized]]:
        """Returns a tensor for each of the ints, with its sizes and strides."""
        found = []
        for at in self.lengths:
            size = self.number(at)
            found.append(
                (of_length(torch.zeros(1, dtype=torch.int64, device="cpu"), self._now(at)), ([abs(size)], [0]))
            )
        return found

    def _now(self, at: int) -> int:
        return int(self._inputs[at].node.hint)

    def _value(self, size: Any) -> Any:
        """Returns one of Dynamo's numbers as one of ours."""
        if not isinstance(size, torch.SymInt):
            return size
        made = self._made(_expression(size))
        return int(size) if made is None else made

    def install_guards(self) -> None:
        """Has Dynamo guard the assumptions; raises `Fallback` if they are false for Dynamo's sizes."""
        if self.sizes.failed is not None:
            raise Fallback("dynamic-shape", self.sizes.failed)
        if not all(bool(holds()) for holds in self._required):
            raise Fallback("dynamic-shape", "an int that is out of the range of sizes")
        names: dict[str, Any] = {f"s{number}": size for number, size in enumerate(self._theirs)}
        names.update(min=_smallest, max=_largest)
        for text, location in self.sizes.guards:
            question = text.replace(" mod ", " % ").replace(" floordiv ", " // ")
            if not bool(eval(question, {"__builtins__": {}}, names)):
                raise Fallback("dynamic-shape", f"{text} does not hold of Dynamo's sizes", location)

    def _made(self, expression: Any) -> Any:
        """Returns a sympy expression as ours; None if there is no equivalent."""
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            return self._ours.get(expression)
        operands = [self._made(operand) for operand in expression.args]
        if not operands or any(operand is None for operand in operands):
            return None
        return _compute(type(expression).__name__, operands)


def of_length(element: torch.Tensor, value: int) -> torch.Tensor:
    """Returns a tensor whose length passes an int to a graph: all its elements are this one."""
    return element.expand(abs(value))


def _smallest(*sizes: Any) -> Any:
    return functools.reduce(torch.sym_min, sizes)


def _largest(*sizes: Any) -> Any:
    return functools.reduce(torch.sym_max, sizes)


def _compute(name: str, operands: list[Any]) -> Any:
    """Applies one of sympy's functions to these; returns None for an unknown one."""
    first, *rest = operands
    if name == "Pow":
        return first ** rest[0] if isinstance(rest[0], int) and 0 <= rest[0] <= 8 else None
    if name in ("FloorDiv", "CleanDiv"):
        return first // rest[0]
    if name in ("Mod", "PythonMod"):
        return first % rest[0]
    for other in rest:
        match name:
            case "Add":
                first = first + other
            case "Mul":
                first = first * other
            case "Min":
                first = _smallest(first, other)
            case "Max":
                first = _largest(first, other)
            case _:
                return None
    return first


def _expression(size: torch.SymInt) -> Any:
    return _environment(size).replace(size.node.expr)


def _environment(size: torch.SymInt) -> Any:
    return size.node.shape_env


def _range(size: torch.SymInt, symbol: Any) -> tuple[int, int]:
    """Returns the range of values that Dynamo allows for the symbol, without 0 and 1."""
    known = _environment(size).var_to_range.get(symbol)
    lower, upper = (2, LARGEST_SIZE) if known is None else (known.lower, known.upper)
    return max(2, int(lower)), int(upper) if getattr(upper, "is_Integer", isinstance(upper, int)) else LARGEST_SIZE


def _shape(tensor: torch.Tensor) -> Sequence[Any]:
    return tensor.shape if _is_sized(tensor) else ()


def _strides(tensor: torch.Tensor) -> Sequence[Any]:
    return tensor.stride() if _is_sized(tensor) else ()


def _is_sized(tensor: torch.Tensor) -> bool:
    return type(tensor) is FakeTensor and tensor.layout is torch.strided
