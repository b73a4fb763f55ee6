"""``dynamic_shapes`` of `dynamlir.export`: the sizes that are dynamic, specified as for `torch.export.export`.

Each dynamic size is a line over a *number*, which has a name: that of a ``Dim``, or for ``Dim.AUTO`` and
``Dim.DYNAMIC`` one derived from its place. A number is read where a size, or an int, is the number itself. If all sizes
are derived from a ``Dim`` that is not itself a size, the first of them is used.
"""

from __future__ import annotations

import dataclasses
import keyword
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from ..capture.session import Session
from ..expressions import LARGEST_SIZE
from .binding import Arguments

LEAST, MOST = 2, LARGEST_SIZE
"""Dynamic sizes are at least 2, since 0 and 1 behave differently in broadcasts; no tensor has more elements."""

RESERVED = frozenset(["min", "max"])
"""Names with a meaning in expressions."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A dynamic size: ``factor*name + offset``."""

    name: str
    factor: int = 1
    offset: int = 0

    def __str__(self) -> str:
        product = self.name if self.factor == 1 else f"{self.factor}*{self.name}"
        if self.offset == 0:
            return product
        return f"{product} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    def of(self, number: int) -> int:
        """Returns the size for this number."""
        return self.factor * number + self.offset

    def number(self, size: int) -> int | None:
        """Returns the number for this size; None if it is not an integer."""
        number, rest = divmod(size - self.offset, self.factor)
        return None if rest else number


Place = tuple[int, int | None]
"""A leaf of the arguments, and its dimension; None for an int itself."""


@dataclasses.dataclass
class Number:
    """A dynamic number."""

    name: str
    kind: str
    """``named``, ``dynamic`` or ``auto``."""
    least: int
    most: int
    uses: list[tuple[Place, Line]] = dataclasses.field(default_factory=list)
    """Its occurrences; a call reads it at the first one."""

    @property
    def found(self) -> tuple[Place, Line]:
        """The occurrence where it is read."""
        return self.uses[0]


class Declaration:
    """``dynamic_shapes`` for the arguments of one call; raises `TypeError` and `ValueError` if it does not fit."""

    def __init__(self, dynamic_shapes: Any, function: Callable[..., Any], arguments: Arguments) -> None:
        self._arguments = arguments
        self.numbers: dict[str, Number] = {}
        self._ranges: dict[str, tuple[int | None, int | None]] = {}
        if hasattr(dynamic_shapes, "dynamic_shapes"):  # torch.export's ShapesCollection and AdditionalInputs
            dynamic_shapes = dynamic_shapes.dynamic_shapes(function, arguments.args, arguments.kwargs)
        for leaf, spec in arguments.leaves_of(dynamic_shapes):
            self._leaf(leaf, spec)
        for number in self.numbers.values():
            self._settle(number)
        self._check_twins()

    def lines(self, leaf: int) -> dict[int | None, Line]:
        """Returns the dynamic sizes of a leaf."""
        uses = (use for number in self.numbers.values() for use in number.uses)
        return {dim: line for (at, dim), line in uses if at == leaf}

    def value(self, name: str) -> int:
        """Returns the value of a number at the captured call."""
        (leaf, dim), line = self.numbers[name].found
        number = line.number(self._arguments.size(leaf, dim))
        assert number is not None
        return number

    def ints(self) -> dict[str, int]:
        """Returns the leaves that are dynamic ints, by their sources in the captured frame."""
        uses = (use for number in self.numbers.values() for use in number.uses)
        return {self._arguments.source(leaf): leaf for (leaf, dim), _ in uses if dim is None}

    def met(self, session: Session) -> set[int]:
        """Returns the dynamic leaves that a captured frame has read."""
        of_ints = session.lengths.values()
        return {
            leaf
            for number in self.numbers.values()
            for (leaf, dim), _ in number.uses
            if (self._arguments.source(leaf) in of_ints if dim is None else self._has_met(session, leaf))
        }

    def _has_met(self, session: Session, leaf: int) -> bool:
        return session.faker.known(self._arguments.leaves[leaf]) is not None

    def read_from(self, met: Collection[int]) -> bool:
        """Prefers reading numbers from leaves that the frame reads; returns true if that changed anything."""
        before = [number.found for number in self.numbers.values()]
        for number in self.numbers.values():
            number.uses.sort(key=lambda use: use[0][0] not in met)
        now = [number.found for number in self.numbers.values()]
        return any(one != other and one[0][0] in met for one, other in zip(now, before))

    def forget_ints(self, met: Collection[int]) -> None:
        """Makes the ints that the frame does not read constants."""
        for name, number in [*self.numbers.items()]:
            number.uses = [(place, line) for place, line in number.uses if place[1] is not None or place[0] in met]
            if not number.uses:
                del self.numbers[name]

    def drop(self, name: str) -> None:
        """Declares a number static after all."""
        del self.numbers[name]

    def _leaf(self, leaf: int, spec: Any) -> None:
        value, place = self._arguments.leaves[leaf], self._arguments.places[leaf]
        if isinstance(value, torch.Tensor):
            for dim, one in _sizes(spec, value, place):
                self._declare((leaf, dim), one)
            if self.lines(leaf) and (
                type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided
            ):
                raise TypeError(f"{place} is a {type(value).__name__} ({value.layout}), whose sizes cannot vary")
        elif spec is None or spec is torch.export.Dim.STATIC:
            pass
        elif type(value) is int and not isinstance(spec, (dict, list, tuple)):
            self._declare((leaf, None), spec)
        else:
            raise TypeError(f"dynamic_shapes says {spec!r} of {place}, which is a {type(value).__name__}")

    def _declare(self, place: Place, spec: Any) -> None:
        # torch.export takes half a second to import.
        from torch.export.dynamic_shapes import Dim, _DerivedDim, _DimHint

        told, size = self._arguments.told(place), self._arguments.size(*place)
        if spec is None or (isinstance(spec, _DimHint) and spec.type.name == "STATIC"):
            return
        if type(spec) is int:
            if spec != size:
                raise ValueError(f"{told} is {size}, and dynamic_shapes says that it is {spec}")
        elif isinstance(spec, _DimHint):
            kind = spec.type.name.lower()
            if size >= LEAST:
                name = self._free_name(self._arguments.name(place))
                self._use(Number(name, kind, *_range(spec.min, spec.max)), place, Line(name))
            elif kind != "auto":
                raise ValueError(f"{told} is {size}. {_LEAST}")
        elif isinstance(spec, Dim):
            root: Any = spec.root if isinstance(spec, _DerivedDim) else spec
            name, least, most = root.__name__, *_bounds(root)
            if keyword.iskeyword(name) or name in RESERVED or not name.isascii():
                raise ValueError(f"{name} cannot be the name of a size")
            if self._ranges.setdefault(name, (least, most)) != (least, most):
                raise ValueError(f"there are two Dims with the name {name} and other bounds")
            line = _line(name, spec.fn) if isinstance(spec, _DerivedDim) else Line(name)
            if place[1] is None and line != Line(name):
                raise TypeError(f"{told} is an int, which may be a Dim, and not one that is derived: {line}")
            if size < LEAST:
                raise ValueError(f"{told} is {size}, and dynamic_shapes says that it is {line}. {_LEAST}")
            self._use(self.numbers.get(name) or Number(name, "named", *_range(least, most)), place, line)
        else:
            raise TypeError(
                f"dynamic_shapes says {spec!r} of {told}: a Dim, Dim.AUTO, DYNAMIC or STATIC, an int or None"
            )

    def _use(self, number: Number, place: Place, line: Line) -> None:
        self.numbers[number.name] = number
        number.uses.append((place, line))

    def _free_name(self, name: str) -> str:
        taken, at, free = {*self.numbers, *RESERVED}, 1, name
        while free in taken or keyword.iskeyword(free):
            free, at = f"{name}_{at}", at + 1
        return free

    def _settle(self, number: Number) -> None:
        """Chooses where a number is read, and checks the sizes of this call against it."""
        number.uses.sort(key=lambda use: (use[1] != Line(number.name), use[0][1] is None))
        number.least = max([number.least, *(-((line.offset - LEAST) // line.factor) for _, line in number.uses)])
        number.most = min([number.most, *((MOST - line.offset) // line.factor for _, line in number.uses)])
        place, line = number.found
        size = self._arguments.size(*place)
        value, told = line.number(size), self._arguments.told(place)
        if value is None:
            raise ValueError(f"{told} is {size}, which is {line} for no whole {number.name}")
        if not number.least <= value <= number.most:
            allowed = in_words(number.least, number.most)
            raise ValueError(f"{told} is {size}: {number.name} is {value}, and dynamic_shapes allows {allowed}")
        for other, its in number.uses:
            if (size := self._arguments.size(*other)) != its.of(value):
                raise ValueError(
                    f"{self._arguments.told(other)} is {size}, and dynamic_shapes says that it is {its}, which is "
                    f"{its.of(value)}: {number.name} is {value} by {told}"
                )

    def _check_twins(self) -> None:
        """Checks that a tensor passed at two places has the same declaration at both."""
        leaves = self._arguments.leaves
        first: dict[int, int] = {}
        for at, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                twin = first.setdefault(id(leaf), at)
                if self.lines(twin) != self.lines(at):
                    places = self._arguments.places
                    raise ValueError(
                        f"{places[twin]} and {places[at]} are one tensor, and dynamic_shapes says other things of them"
                    )

    def native(self) -> tuple[Any, Any, Any] | None:
        """Returns the declaration in the form of the native capture; None if nothing is dynamic."""
        if not self.numbers:
            return None
        order = {name: at for at, name in enumerate(self.numbers)}
        numbers, tensors, ints = [], [], []
        for number in self.numbers.values():
            place, line = number.found
            size, limits = self._arguments.size(*place), (line.of(number.least), line.of(number.most))
            numbers.append((size, *limits, line.factor, line.offset))
        seen: set[int] = set()
        for at, leaf in enumerate(self._arguments.leaves):
            lines = self.lines(at)
            if not isinstance(leaf, torch.Tensor):
                ints += [(self._arguments.source(at), order[line.name]) for line in lines.values()]
            elif lines and id(leaf) not in seen:
                seen.add(id(leaf))
                rows = [(dim, order[line.name], line.factor, line.offset) for dim, line in lines.items()]
                tensors.append((leaf, rows))
        return numbers, tensors, ints


_LEAST = "Sizes that vary are at least 2: give it more, or declare it Dim.STATIC or Dim.AUTO"


def in_words(least: int, most: int) -> str:
    """Returns a range as text."""
    return f"{least} or more" if most > MOST >> 12 else f"{least} to {most}"


def _range(least: int | None, most: int | None) -> tuple[int, int]:
    return max(0, least or 0), MOST if most is None else min(most, MOST)


def _bounds(dim: Any) -> tuple[int | None, int | None]:
    """Returns the bounds of a Dim, without torch's placeholder numbers for unbounded."""
    return tuple(bound if isinstance(bound, int) else None for bound in (dim.min, dim.max))  # type: ignore[return-value]


def _line(name: str, function: Callable[[int], int]) -> Line:
    """Converts the function of a derived Dim; torch ensures that it is an increasing line."""
    offset = function(0)
    factor = function(1) - offset
    if factor < 1 or function(5) != 5 * factor + offset:
        raise ValueError(f"a Dim derived from {name} is no line that rises")
    return Line(name, factor, offset)


def _sizes(spec: Any, tensor: torch.Tensor, place: str) -> Iterator[tuple[int, Any]]:
    """Yields each size of a tensor with its specification."""
    if spec is None:
        return
    if isinstance(spec, dict):
        for dim, one in spec.items():
            if type(dim) is not int or not -tensor.dim() <= dim < tensor.dim():
                raise ValueError(
                    f"dynamic_shapes says something of {place}.size({dim!r}), and it has {tensor.dim()} sizes"
                )
            yield dim % tensor.dim(), one
    elif isinstance(spec, (list, tuple)):
        if len(spec) != tensor.dim():
            raise ValueError(f"dynamic_shapes says {len(spec)} sizes of {place}, which has {tensor.dim()}")
        yield from enumerate(spec)
    else:
        raise TypeError(f"dynamic_shapes says {spec!r} of {place}: a dict, tuple or list of its sizes, or None")
