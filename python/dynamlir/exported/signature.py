"""The inputs and outputs of an exported program, against which calls are checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch.utils import _pytree as pytree

from .. import expressions
from .binding import is_size, told
from .declared import Line, in_words

CONSTANTS = (
    *(type(None), bool, int, float, complex, str),
    *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""The types of arguments and results that are not tensors."""


class TensorFacts(NamedTuple):
    """All facts about a tensor that a program relies on."""

    dtype: torch.dtype
    shape: tuple[int | str, ...]
    """Numbers; for dynamic sizes, expressions over the names in `Signature.sizes`."""
    strides: tuple[int | str | None, ...]
    """Like ``shape``; None where the program does not depend on it."""
    device: torch.device
    requires_grad: bool

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorFacts:
        """Returns the facts about this tensor."""
        return TensorFacts(
            tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.device, tensor.requires_grad
        )

    def at(self, values: Mapping[str, int]) -> TensorFacts:
        """Returns the same facts for given sizes."""
        shape = tuple(expressions.at(size, values) for size in self.shape)
        strides = tuple(None if stride is None else expressions.at(stride, values) for stride in self.strides)
        return self._replace(shape=shape, strides=strides)

    def is_laid_out(self, strides: Sequence[int]) -> bool:
        """Returns true if these strides match where they matter: in dimensions with several elements."""
        if 0 in self.shape:
            return True
        wanted = zip(self.shape, self.strides, strides)
        return all((type(size) is int and size <= 1) or stride in (None, other) for size, stride, other in wanted)


@dataclasses.dataclass(frozen=True)
class UserInput:
    """A leaf of the arguments."""

    place: str
    """Its expression: ``args[0]['mask']``, ``kwargs['scale']``."""
    tensor: TensorFacts | None = None
    """The required facts about the tensor; None for a constant."""
    value: Any = None
    """The constant for which the program was built."""
    size: str | None = None
    """The name of a dynamic int in `Signature.sizes`."""
    same_as: int | None = None
    """The earlier leaf that is the same tensor."""
    graph_input: str | None = None
    """The placeholder that represents it; None if the graph does not use it."""


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of a leaf of the result, or of the value that a buffer is set to."""

    kind: Literal["result", "input", "state", "constant", "size"]
    """A result of the graph, a leaf of the arguments, a tensor of the state, a constant, or computed from sizes."""
    at: int = 0
    """The index of the result or leaf."""
    name: str = ""
    """The name of the tensor in the state."""
    value: Any = None
    """The constant; the expression, or a tuple of expressions and ints for a `torch.Size`."""


@dataclasses.dataclass(frozen=True)
class Size:
    """A number that may change from call to call, and is read from one of the arguments."""

    name: str
    """The name of the ``Dim``; for ``Dim.AUTO`` and ``Dim.DYNAMIC`` derived from the place."""
    input: int
    """The leaf of the arguments from which it is read."""
    dim: int | None
    """The dimension of that tensor; None for an int."""
    factor: int
    """The size there is ``factor*name + offset``."""
    offset: int
    least: int
    """The minimum."""
    most: int
    """The maximum."""
    symbol: str
    """The name of the read value in the text of stage 00; empty if it is not needed there."""

    @property
    def line(self) -> Line:
        """The value that is read, as a line over the number."""
        return Line(self.name, self.factor, self.offset)


@dataclasses.dataclass(frozen=True)
class Signature:
    """A program's inputs, state and outputs."""

    user_inputs: tuple[UserInput, ...]
    """The leaves of ``(args, kwargs)``, in order."""
    in_spec: pytree.TreeSpec
    """Their nesting."""
    parameters: dict[str, str]
    """The placeholders that represent parameters, with the parameters' names."""
    buffers: dict[str, str]
    """The placeholders that represent buffers, with the buffers' names."""
    constants: dict[str, str]
    """The placeholders that represent other tensors, with the names given by the program."""
    outputs: tuple[Source, ...]
    """The leaves of the result, in order."""
    out_spec: pytree.TreeSpec
    """Their nesting."""
    mutated_inputs: tuple[int, ...]
    """The leaves of the arguments that are written in place."""
    mutated_state: tuple[str, ...]
    """The names of parameters, buffers and constants that are written in place."""
    assigned: dict[str, Source]
    """The buffers that are set to another tensor, in order."""
    graph_inputs: tuple[str, ...]
    """The placeholders, in order."""
    entry_inputs: tuple[str, ...]
    """The arguments of ``@main`` in the text of stage 00, in order: placeholders, and names of constants."""
    grad_enabled: bool
    """True if grad mode was on."""
    autocast: dict[str, str]
    """The autocast element types, for each device type with autocast on."""
    training: bool | None
    """For a module, true if it was in training mode."""
    sizes: tuple[Size, ...] = ()
    """The dynamic numbers."""
    assumed: tuple[str, ...] = ()
    """The conditions for a call besides the ranges of the sizes, as relations over their names."""

    def state_of(self, placeholder: str) -> str | None:
        """Returns the name of the parameter, buffer or constant that a placeholder represents."""
        for group in (self.parameters, self.buffers, self.constants):
            if placeholder in group:
                return group[placeholder]
        return None

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Returns the leaves of a call's arguments; raises `TypeError` or `ValueError` if they do not match."""
        if (now := autocast()) != self.autocast:
            raise ValueError(f"the program was made under autocast {self.autocast or 'off'}, and it is {now or 'off'}")
        expected = self.in_spec.unflatten([None] * self.in_spec.num_leaves)[1]
        if set(kwargs) == set(expected):
            kwargs = {name: kwargs[name] for name in expected}
        leaves, spec = flatten((args, kwargs))
        if spec != self.in_spec:
            raise TypeError(
                f"the program takes {described(self.in_spec)}, and was given {described(spec)} (a * is a leaf)"
            )
        values = self.values(leaves)
        tensors: list[tuple[Any, int]] = []
        for at, (leaf, wanted) in enumerate(zip(leaves, self.user_inputs, strict=True)):
            self._check(leaf, wanted, values)
            if wanted.tensor is None:
                continue
            # Not by address, which another capture of a call of the program cannot know.
            first = next((before for tensor, before in tensors if tensor is leaf), at)
            tensors.append((leaf, at))
            same_as = at if wanted.same_as is None else wanted.same_as
            if first != same_as:
                same, other = self.user_inputs[min(first, same_as)].place, wanted.place
                apart = "two tensors" if wanted.same_as is None else "one tensor"
                raise ValueError(f"the program was made for {same} and {other} being {apart}")
        for rule in self.assumed:
            if not expressions.at(rule, values):
                raise ValueError(f"the program is right only where {rule}{self._read(rule, values)}")
        return leaves

    def values(self, leaves: Sequence[Any]) -> dict[str, int]:
        """Returns the values of the dynamic sizes; raises `TypeError` or `ValueError` if an argument does not match."""
        found: dict[str, int] = {}
        for one in self.sizes:
            leaf, wanted = leaves[one.input], self.user_inputs[one.input]
            _check_kind(leaf, wanted)
            size = leaf if one.dim is None else leaf.shape[one.dim]
            number, where = one.line.number(size), told(wanted.place, one.dim)
            if number is None or not one.least <= number <= one.most:
                takes = in_words(one.line.of(one.least), one.line.of(one.most))
                raise ValueError(
                    f"{where} is {size}, and the program takes {one.line} there: {takes}"
                    + (f" for a whole {one.name}" if one.factor > 1 else "")
                )
            found[one.name] = number
        return found

    def varying_places(self) -> list[str]:
        """Returns the sources of dynamic sizes in the frame of the graph."""
        found: list[str] = []
        for one in self.user_inputs:
            place = f"L[{one.graph_input!r}]"
            if one.graph_input is not None and one.size is not None:
                found.append(place)
            elif one.graph_input is not None and one.tensor is not None:
                found += [f"{place}.size()[{d}]" for d, size in enumerate(one.tensor.shape) if type(size) is str]
        return found

    def size(self, told: str | tuple[int | str, ...], values: dict[str, int]) -> int | torch.Size:
        """Evaluates an expression over sizes."""
        if isinstance(told, tuple):
            return torch.Size([expressions.at(one, values) for one in told])
        found: int = expressions.at(told, values)
        return found

    def _read(self, text: int | str, values: dict[str, int]) -> str:
        """Returns as text the places where the names in an expression were read."""
        names = expressions.names_in(text)
        read = [
            f"{one.name} is {values[one.name]} by {told(self.user_inputs[one.input].place, one.dim)}"
            for one in self.sizes
            if one.name in names
        ]
        return f": {', '.join(read)}" if read else ""

    def _check(self, leaf: Any, wanted: UserInput, values: dict[str, int]) -> None:
        _check_kind(leaf, wanted)
        place, facts = wanted.place, wanted.tensor
        if facts is None:
            return
        found, now = TensorFacts.of(leaf), facts.at(values)
        if found.shape != now.shape:
            if now is facts or not self.sizes:
                raise ValueError(f"{place} has the shape {found.shape}, and the program takes {facts.shape}")
            dim = next(at for at, sizes in enumerate(zip(found.shape, now.shape)) if sizes[0] != sizes[1])
            takes, size = facts.shape[dim], now.shape[dim]
            told_ = f"{takes}, which is {size}{self._read(takes, values)}" if type(takes) is str else f"{size}"
            raise ValueError(f"{told(place, dim)} is {found.shape[dim]}, and the program takes {told_}")
        if found.device != facts.device:
            raise ValueError(f"{place} is on {found.device}, and the program takes {facts.device}")
        if not now.is_laid_out(found.strides):  # type: ignore[arg-type]
            raise ValueError(f"{place} has the strides {found.strides}, and the program takes {now.strides}")
        if found.requires_grad and not facts.requires_grad and self.grad_enabled and torch.is_grad_enabled():
            raise ValueError(f"{place} requires a gradient, and did not where the program was made")

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for at, one in enumerate(self.user_inputs):
            constant = f"constant {one.value!r}" if one.size is None else f"int {one.size}"
            what = constant if one.tensor is None else _shown(one.tensor)
            name = f" as {one.graph_input}" if one.graph_input else ""
            written = ", written in place" if at in self.mutated_inputs else ""
            yield f"input {one.place}: {what}{name}{written}"
        for size in self.sizes:
            read = "" if size.line == Line(size.name) else f", by {told(self.user_inputs[size.input].place, size.dim)}"
            yield f"size {size.name}: {in_words(size.least, size.most)}{read}{size.symbol and f' as {size.symbol}'}"
        for rule in self.assumed:
            yield f"rule {rule}"
        for kind, group in (("parameter", self.parameters), ("buffer", self.buffers), ("constant", self.constants)):
            for placeholder, name in group.items():
                written = ", written in place" if name in self.mutated_state else ""
                yield f"{kind} {name} as {placeholder}{written}"
        for name, source in self.assigned.items():
            yield f"buffer {name} is set to {_told(source, self)}"
        for place, source in zip(places(self.out_spec, "result"), self.outputs):
            yield f"output {place}: {_told(source, self)}"


def autocast() -> dict[str, str]:
    """Returns the autocast element types, for each device type with autocast on."""
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in kinds}


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Returns the leaves of a tree, and their nesting. A `torch.Size` is a leaf: torch would return a tuple for it."""
    return pytree.tree_flatten(tree, is_leaf=is_size)


def places(spec: pytree.TreeSpec, name: str = "") -> list[str]:
    """Returns the places of a tree's leaves, as Python expressions. Without a name it is the tree of the arguments."""
    paths, _ = pytree.tree_flatten_with_path(spec.unflatten(range(spec.num_leaves)))
    found = [pytree.keystr(path) for path, _ in paths]
    if name:
        return [name + place for place in found]
    return [("args" if place.startswith("[0]") else "kwargs") + place[3:] for place in found]


def described(spec: pytree.TreeSpec) -> str:
    """Returns the tree of the arguments as it looks in a call."""
    args, kwargs = spec.unflatten([_STAR] * spec.num_leaves)
    given = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    return f"({', '.join(given)})"


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def is_same_constant(left: Any, right: Any) -> bool:
    """Returns true if two constants are indistinguishable, NaN and signed zeros included."""
    return type(left) is type(right) and repr(left) == repr(right)


def _check_kind(leaf: Any, wanted: UserInput) -> None:
    """Checks that a leaf is a constant, an int or a tensor, with the number of dimensions, as required."""
    place, facts = wanted.place, wanted.tensor
    if wanted.size is not None:
        if type(leaf) is not int:
            raise TypeError(f"{place} is a {type(leaf).__name__}, and the program takes an int")
        return
    if facts is None:
        if not is_same_constant(leaf, wanted.value):
            raise ValueError(f"{place} is {leaf!r}, and the program was made for the constant {wanted.value!r}")
        return
    if not isinstance(leaf, torch.Tensor):
        raise TypeError(f"{place} is a {type(leaf).__name__}, and the program takes a tensor: {_shown(facts)}")
    if leaf.dtype != facts.dtype:
        raise TypeError(f"{place} is of {leaf.dtype}, and the program takes {facts.dtype}")
    if leaf.dim() != len(facts.shape):
        shape = ", ".join(map(str, facts.shape))
        raise ValueError(f"{place} has the shape {tuple(leaf.shape)}, and the program takes ({shape})")


def _shown(facts: TensorFacts) -> str:
    return f"{str(facts.dtype).removeprefix('torch.')}[{', '.join(map(str, facts.shape))}]"


def _told(source: Source, signature: Signature) -> str:
    if source.kind == "result":
        return f"result {source.at} of the graph"
    if source.kind == "input":
        return f"the input {signature.user_inputs[source.at].place}"
    if source.kind == "size":
        return f"size {source.value}" if type(source.value) is str else f"sizes ({', '.join(map(str, source.value))})"
    return source.name if source.kind == "state" else f"constant {source.value!r}"


def leaf_places(leaves: Sequence[Any], place: list[str]) -> list[UserInput]:
    """Returns the user's inputs, without placeholders; raises `TypeError` for a leaf of an unsupported type."""
    found: list[UserInput] = []
    first: dict[int, int] = {}
    for at, (leaf, where) in enumerate(zip(leaves, place, strict=True)):
        if isinstance(leaf, torch.Tensor):
            known = first.setdefault(id(leaf), at)
            found.append(UserInput(where, TensorFacts.of(leaf), same_as=None if known == at else known))
        elif isinstance(leaf, CONSTANTS):
            found.append(UserInput(where, value=leaf))
        else:
            kind = type(leaf).__qualname__
            raise TypeError(
                f"dynamlir.export: {where} is a {kind}; arguments are tensors and constants, and containers of these"
            )
    return found
