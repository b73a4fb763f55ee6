"""Sizes that vary as Dynamo has them, made ours.

Dynamo's `torch.SymInt`s are sympy expressions over the symbols of a ``ShapeEnv``. Each of these symbols that is a size
of an input becomes one of ours, and expressions over them become ours. One that is an int among the inputs and no
tensor's size becomes the size of a tensor that the graph is given for it. What has no such form is taken for the number
that it is, under a guard of Dynamo's. So is what we assume while we record: `Translation.install_guards` asks Dynamo's
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
        """Which input, of those that are tensors, and which size of that, each symbol is."""
        self.lengths: list[int] = []
        """Which inputs are ints as long as which the graph has a tensor each, behind all others."""
        self._ours: dict[Any, Any] = {}
        """Ours by Dynamo's symbols."""
        self._theirs: list[torch.SymInt] = []
        """Dynamo's by the numbers of ours."""
        self._required: list[Callable[[], torch.SymBool]] = []
        """What has to hold of Dynamo's beside what is assumed on the way."""
        tensors = [value for value in self._inputs if isinstance(value, torch.Tensor)]
        for position, tensor in enumerate(tensors):
            for dim, size in enumerate(_shape(tensor)):
                self._bind(position, dim, size)
        for at, value in enumerate(self._inputs):
            self._bind_int(at, value, len(tensors))

    def _bind(self, position: int, dim: int, size: Any) -> None:
        """Make the symbol that a size is one of ours."""
        if not isinstance(size, torch.SymInt):
            return
        expression = _expression(size)
        if not getattr(expression, "is_Symbol", False) or expression in self._ours or size.node.hint is None:
            return
        low, high = _range(size, expression)
        hint = int(size.node.hint)
        if hint < 2 or not low <= hint <= high:
            return
        self._ours[expression] = self.sizes.size(hint, low, None if high >= _MANY else high)
        self._theirs.append(size)
        self.bound.append((position, dim))

    def _bind_int(self, at: int, value: Any, tensors: int) -> None:
        """Make the symbol that an input is one of ours, without its sign, which Dynamo then guards."""
        if not isinstance(value, torch.SymInt):
            return
        expression, hint = _expression(value), value.node.hint
        if not getattr(expression, "is_Symbol", False) or expression in self._ours or hint is None:
            return
        hint = int(hint)
        if not 2 <= abs(hint) <= _MANY:
            return
        size = self.sizes.size(abs(hint), 2, None)
        self._ours[expression] = -size if hint < 0 else size
        self._theirs.append(-value if hint < 0 else value)
        length = self._theirs[-1]
        self._required += [lambda: length >= 2, lambda: length <= _MANY]
        self.bound.append((tensors + len(self.lengths), 0))
        self.lengths.append(at)

    @property
    def any(self) -> bool:
        """Whether a size varies."""
        return bool(self.bound)

    def number(self, at: int) -> Any:
        """An input that is a size, as one of ours; None where it is something else."""
        value = self._inputs[at] if at < len(self._inputs) else None
        return self._value(value) if isinstance(value, torch.SymInt) else None

    def tensor(self, at: int) -> Sized | None:
        """The sizes and strides of an input, if some vary."""
        value = self._inputs[at] if at < len(self._inputs) else None
        if not isinstance(value, torch.Tensor):
            return None
        sizes, strides = ([self._value(number) for number in numbers] for numbers in (_shape(value), _strides(value)))
        return (sizes, strides) if any(isinstance(number, torch.SymInt) for number in (*sizes, *strides)) else None

    def stand_ins(self) -> list[tuple[torch.Tensor, Sized]]:
        """A tensor for each of the ints, with its sizes and strides."""
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
        """A number of Dynamo's as one of ours."""
        if not isinstance(size, torch.SymInt):
            return size
        made = self._made(_expression(size))
        return int(size) if made is None else made

    def install_guards(self) -> None:
        """Have Dynamo guard what was assumed; `Fallback` where it is not so for the sizes that Dynamo has."""
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
        """An expression of sympy's as ours; None where there is none."""
        if expression.is_Integer:
            return int(expression)
        if expression.is_Symbol:
            return self._ours.get(expression)
        operands = [self._made(operand) for operand in expression.args]
        if not operands or any(operand is None for operand in operands):
            return None
        return _compute(type(expression).__name__, operands)


def of_length(element: torch.Tensor, value: int) -> torch.Tensor:
    """A tensor that is as long as an int says, by which a graph is told of that: all its elements are this one."""
    return element.expand(abs(value))


def _smallest(*sizes: Any) -> Any:
    return functools.reduce(torch.sym_min, sizes)


def _largest(*sizes: Any) -> Any:
    return functools.reduce(torch.sym_max, sizes)


_MANY = 1 << 48
"""No tensor has so many elements."""


def _compute(name: str, operands: list[Any]) -> Any:
    """What a function of sympy's makes of these; None for one that is not known."""
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
    """The values that Dynamo has the symbol have, of those that are neither 0 nor 1."""
    known = _environment(size).var_to_range.get(symbol)
    lower, upper = (2, _MANY) if known is None else (known.lower, known.upper)
    return max(2, int(lower)), int(upper) if getattr(upper, "is_Integer", isinstance(upper, int)) else _MANY


def _shape(tensor: torch.Tensor) -> Sequence[Any]:
    return tensor.shape if _is_sized(tensor) else ()


def _strides(tensor: torch.Tensor) -> Sequence[Any]:
    return tensor.stride() if _is_sized(tensor) else ()


def _is_sized(tensor: torch.Tensor) -> bool:
    return type(tensor) is FakeTensor and tensor.layout is torch.strided
