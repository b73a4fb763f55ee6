"""What an exported program is given and gives back: what calls are held against."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch.utils import _pytree as pytree

CONSTANTS = (
    *(type(None), bool, int, float, complex, str),
    *(torch.Size, torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""What an argument or a result may be that is no tensor."""


class TensorFacts(NamedTuple):
    """All that a program relies on of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: torch.device
    requires_grad: bool

    @staticmethod
    def of(tensor: torch.Tensor) -> TensorFacts:
        """Those of this tensor."""
        return TensorFacts(
            tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.device, tensor.requires_grad
        )

    @property
    def stepped(self) -> list[tuple[int, int]]:
        """Sizes and strides of the dimensions that have several elements: the strides of others mean nothing."""
        if 0 in self.shape:
            return []
        return [(size, stride) for size, stride in zip(self.shape, self.strides) if size > 1]


@dataclasses.dataclass(frozen=True)
class UserInput:
    """A leaf of the arguments."""

    place: str
    """Where it is: ``args[0]['mask']``, ``kwargs['scale']``."""
    tensor: TensorFacts | None = None
    """What the tensor is like that has to be there; None where there is a constant."""
    value: Any = None
    """The constant: the program is made for this one."""
    same_as: int | None = None
    """The earlier leaf that is the same tensor."""
    graph_input: str | None = None
    """The placeholder that stands for it; None where the graph does not use it."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a leaf of the result, or what a buffer is set to, comes from."""

    kind: Literal["result", "input", "state", "constant"]
    """A result of the graph, a leaf of the arguments, a tensor of the state, or a constant."""
    at: int = 0
    """Which result or leaf."""
    name: str = ""
    """Of the state: the name."""
    value: Any = None
    """The constant."""


@dataclasses.dataclass(frozen=True)
class Signature:
    """A program's inputs, state and outputs."""

    user_inputs: tuple[UserInput, ...]
    """The leaves of ``(args, kwargs)``, in order."""
    in_spec: pytree.TreeSpec
    """How they are nested."""
    parameters: dict[str, str]
    """The placeholders that stand for parameters, with the parameters' names."""
    buffers: dict[str, str]
    """Those that stand for buffers, with the buffers' names."""
    constants: dict[str, str]
    """Those that stand for tensors that are neither, with the names that the program has given them."""
    outputs: tuple[Source, ...]
    """The leaves of the result, in order."""
    out_spec: pytree.TreeSpec
    """How they are nested."""
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
    """Whether grad mode was on."""
    autocast: dict[str, str]
    """The element types of autocast, for each kind of device that it was on for."""
    training: bool | None
    """Of a module: whether it was in training mode."""

    def state_of(self, placeholder: str) -> str | None:
        """The name of the parameter, buffer or constant that a placeholder stands for."""
        for group in (self.parameters, self.buffers, self.constants):
            if placeholder in group:
                return group[placeholder]
        return None

    def match(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The leaves of a call's arguments; `TypeError` or `ValueError` where the program is for others."""
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
        tensors: dict[int, int] = {}
        for at, (leaf, wanted) in enumerate(zip(leaves, self.user_inputs, strict=True)):
            _check(leaf, wanted, self.grad_enabled)
            if wanted.tensor is None:
                continue
            first = tensors.setdefault(id(leaf), at)
            same_as = at if wanted.same_as is None else wanted.same_as
            if first != same_as:
                same, other = self.user_inputs[min(first, same_as)].place, wanted.place
                apart = "two tensors" if wanted.same_as is None else "one tensor"
                raise ValueError(f"the program was made for {same} and {other} being {apart}")
        return leaves

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for at, one in enumerate(self.user_inputs):
            what = f"constant {one.value!r}" if one.tensor is None else _shown(one.tensor)
            name = f" as {one.graph_input}" if one.graph_input else ""
            written = ", written in place" if at in self.mutated_inputs else ""
            yield f"input {one.place}: {what}{name}{written}"
        for kind, group in (("parameter", self.parameters), ("buffer", self.buffers), ("constant", self.constants)):
            for placeholder, name in group.items():
                written = ", written in place" if name in self.mutated_state else ""
                yield f"{kind} {name} as {placeholder}{written}"
        for name, source in self.assigned.items():
            yield f"buffer {name} is set to {_told(source, self)}"
        for place, source in zip(places(self.out_spec, "result"), self.outputs):
            yield f"output {place}: {_told(source, self)}"


def autocast() -> dict[str, str]:
    """The element types of autocast, for each kind of device that it is on for."""
    kinds = [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    return {kind: str(torch.get_autocast_dtype(kind)).removeprefix("torch.") for kind in kinds}


def flatten(tree: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a tree, and how they are nested. A `torch.Size` is one: torch would give a tuple back for it."""
    return pytree.tree_flatten(tree, is_leaf=lambda node: type(node) is torch.Size)


def places(spec: pytree.TreeSpec, name: str = "") -> list[str]:
    """Where the leaves of a tree are, as Python expressions. Without a name it is the tree of the arguments."""
    paths, _ = pytree.tree_flatten_with_path(spec.unflatten(range(spec.num_leaves)))
    found = [pytree.keystr(path) for path, _ in paths]
    if name:
        return [name + place for place in found]
    return [("args" if place.startswith("[0]") else "kwargs") + place[3:] for place in found]


def described(spec: pytree.TreeSpec) -> str:
    """The tree of the arguments as a call has them."""
    args, kwargs = spec.unflatten([_STAR] * spec.num_leaves)
    given = [repr(value) for value in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
    return f"({', '.join(given)})"


class _Star:
    def __repr__(self) -> str:
        return "*"


_STAR = _Star()


def is_same_constant(left: Any, right: Any) -> bool:
    """Whether two constants cannot be told apart, NaN and signed zeros included."""
    return type(left) is type(right) and repr(left) == repr(right)


def _check(leaf: Any, wanted: UserInput, grad_enabled: bool) -> None:
    place, facts = wanted.place, wanted.tensor
    if facts is None:
        if not is_same_constant(leaf, wanted.value):
            raise ValueError(f"{place} is {leaf!r}, and the program was made for the constant {wanted.value!r}")
        return
    if not isinstance(leaf, torch.Tensor):
        raise TypeError(f"{place} is a {type(leaf).__name__}, and the program takes a tensor: {_shown(facts)}")
    found = TensorFacts.of(leaf)
    if found.dtype != facts.dtype:
        raise TypeError(f"{place} is of {found.dtype}, and the program takes {facts.dtype}")
    if found.shape != facts.shape:
        raise ValueError(f"{place} has the shape {found.shape}, and the program takes {facts.shape}")
    if found.device != facts.device:
        raise ValueError(f"{place} is on {found.device}, and the program takes {facts.device}")
    if found.stepped != facts.stepped:
        raise ValueError(f"{place} has the strides {found.strides}, and the program takes {facts.strides}")
    if found.requires_grad and not facts.requires_grad and grad_enabled and torch.is_grad_enabled():
        raise ValueError(f"{place} requires a gradient, and did not where the program was made")


def _shown(facts: TensorFacts) -> str:
    return f"{str(facts.dtype).removeprefix('torch.')}{list(facts.shape)}"


def _told(source: Source, signature: Signature) -> str:
    if source.kind == "result":
        return f"result {source.at} of the graph"
    if source.kind == "input":
        return f"the input {signature.user_inputs[source.at].place}"
    return source.name if source.kind == "state" else f"constant {source.value!r}"


def leaf_places(leaves: Sequence[Any], place: list[str]) -> list[UserInput]:
    """The user's inputs, without placeholders; `TypeError` where a leaf can be none."""
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
