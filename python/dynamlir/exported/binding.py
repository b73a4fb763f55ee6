"""The arguments of a call by parameter name and by leaf, to which ``dynamic_shapes`` refers."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

Tree = Any


@dataclasses.dataclass(frozen=True)
class _Argument:
    """The argument of one parameter, or a part of it."""

    name: str
    source: str
    """Its source in the captured frame."""
    value: Tree
    first: int
    """The index of its first leaf, counted over all arguments."""


def is_size(node: Any) -> bool:
    """Returns true if a node is a `torch.Size`, treated as a leaf: torch's pytree would return a plain tuple."""
    return type(node) is torch.Size


class Arguments:
    """The arguments of a call, by the signature of the called object and by that of the captured frame."""

    def __init__(
        self,
        called: Callable[..., Any],
        frame: Callable[..., Any],
        bound: int,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        places: Sequence[str],
    ) -> None:
        self.args, self.kwargs, self.leaves, self.places = args, kwargs, leaves, places
        self._sources: dict[int, str] = {}
        self._names: dict[int, str] = {}
        self._parameters = self._named(called, frame, bound)

    def size(self, leaf: int, dim: int | None) -> int:
        """Returns one of a tensor's sizes, or an int."""
        value = self.leaves[leaf]
        return int(value if dim is None else value.shape[dim])

    def told(self, place: tuple[int, int | None]) -> str:
        """Returns a size as text."""
        return told(self.places[place[0]], place[1])

    def name(self, place: tuple[int, int | None]) -> str:
        """Returns a name for an unnamed size."""
        name = self._names[place[0]]
        return name if place[1] is None else f"{name}_{place[1]}"

    def source(self, leaf: int) -> str:
        """Returns the expression by which the captured frame reaches a leaf."""
        return self._sources[leaf]

    def leaves_of(self, spec: Any) -> Iterator[tuple[int, Any]]:
        """Yields each leaf with its specification."""
        if spec is None:
            return
        if isinstance(spec, dict):
            rest = dict(spec)
            for name, parts in self._parameters.items():
                if name in rest:
                    yield from self._parts(name, parts, rest.pop(name))
                # An argument in ``**kwargs`` may be specified directly by its name.
                elif isinstance(parts, dict):
                    for key in [key for key in parts if key in rest]:
                        yield from self._walk(parts[key].value, rest.pop(key), parts[key].first, key)
            if rest:
                known = ", ".join(self._parameters)
                raise ValueError(
                    f"dynamic_shapes says something of {', '.join(map(str, rest))}: the arguments are {known}"
                )
        elif isinstance(spec, (list, tuple)):
            given = [*self._parameters.items()]
            if len(spec) != len(given):
                raise ValueError(f"dynamic_shapes is of {len(spec)} arguments, and there are {len(given)}")
            for (name, parts), one in zip(given, spec):
                yield from self._parts(name, parts, one)
        else:
            raise TypeError(f"dynamic_shapes is a {type(spec).__name__}: a dict, tuple or list is one, or None")

    def _parts(self, name: str, parts: Any, spec: Any) -> Iterator[tuple[int, Any]]:
        if isinstance(parts, _Argument):
            yield from self._walk(parts.value, spec, parts.first, name)
        elif spec is not None:
            pairs = parts.items() if isinstance(parts, dict) else enumerate(parts)
            fits = isinstance(spec, dict) if isinstance(parts, dict) else len(spec) == len(parts)
            if not fits:
                raise ValueError(f"dynamic_shapes says {spec!r} of {name}, which is {len(parts)} arguments")
            for key, part in pairs:
                if not isinstance(spec, dict) or key in spec:
                    yield from self._walk(part.value, spec[key], part.first, f"{name}[{key!r}]")

    def _walk(self, node: Tree, spec: Any, first: int, told: str) -> Iterator[tuple[int, Any]]:
        """Walks a tree and its specification in parallel."""
        if spec is None:
            return
        children = _children(node)
        if children is None:
            yield first, spec
            return
        of_node = _children(spec) if type(spec) is type(node) else None
        if of_node is not None and not isinstance(spec, dict):
            spec = [one for _, one in of_node]
        elif isinstance(spec, dict):
            keys = [key for key, _ in children]
            if unknown := [key for key in spec if key not in keys]:
                raise ValueError(f"dynamic_shapes says something of {told}[{unknown[0]!r}], which is not there")
            spec = [spec.get(key) for key in keys]
        if not isinstance(spec, (list, tuple)) or len(spec) != len(children):
            raise ValueError(f"dynamic_shapes says {spec!r} of {told}, which has {len(children)} parts")
        for (key, child), one in zip(children, spec):
            yield from self._walk(child, one, first, f"{told}[{key!r}]")
            first += len(_leaves(child))

    def _named(self, called: Any, frame: Any, bound: int) -> dict[str, Any]:
        """Returns the argument of each parameter, or a tuple or dict of several."""
        made: list[_Argument] = []
        first = 0
        of_frame = _Frame(frame, bound)
        given: list[tuple[int | str, Any]] = [*enumerate(self.args), *self.kwargs.items()]
        for key, value in given:
            made.append(_Argument(str(key), of_frame.source(key), value, first))
            first += len(_leaves(value))
        for argument in made:
            for at, path in enumerate(_paths(argument.value), argument.first):
                self._sources[at] = argument.source + path
        by_position, by_name = made[: len(self.args)], {one.name: one for one in made[len(self.args) :]}
        signature = inspect.signature(called.forward if isinstance(called, torch.nn.Module) else called)
        found: dict[str, Any] = dict(signature.bind(*by_position, **by_name).arguments)
        for name, parts in found.items():
            if isinstance(parts, _Argument):
                named = {name: parts}
            elif isinstance(parts, dict):
                named = parts
            else:
                named = {f"{name}_{at}": part for at, part in enumerate(parts)}
            for own, part in named.items():
                for at, path in enumerate(_paths(part.value), part.first):
                    self._names[at] = re.sub(r"\W+", "_", f"{own}{path}", flags=re.ASCII).strip("_")
        return found


class _Frame:
    """The sources of a captured frame's arguments."""

    def __init__(self, function: Any, bound: int) -> None:
        code = function.__code__
        self._names = code.co_varnames[: code.co_argcount]
        self._keywords = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        rest = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
        self._rest = next(rest) if code.co_flags & inspect.CO_VARARGS else ""
        self._others = next(rest) if code.co_flags & inspect.CO_VARKEYWORDS else ""
        self._bound = bound

    def source(self, key: int | str) -> str:
        """Returns the source of an argument, by its position or its name."""
        if isinstance(key, int):
            at = key + self._bound
            if at < len(self._names):
                return f"L[{self._names[at]!r}]"
            return f"L[{self._rest!r}][{at - len(self._names)}]"
        return f"L[{key!r}]" if key in self._keywords else f"L[{self._others!r}][{key!r}]"


def told(place: str, dim: int | None) -> str:
    """Returns a size as text."""
    return place if dim is None else f"{place}.size({dim})"


def _children(node: Tree) -> list[tuple[Any, Tree]] | None:
    """Returns the children of a node with their keys; None for a leaf."""
    if is_size(node) or pytree.tree_structure(node).is_leaf():
        return None
    paths, _ = pytree.tree_flatten_with_path(node, is_leaf=lambda part: part is not node)
    return [(_key(path[0]), part) for path, part in paths]


def _key(step: Any) -> Any:
    for attribute in ("key", "idx", "name"):
        if hasattr(step, attribute):
            return getattr(step, attribute)
    return str(step)


def _leaves(node: Tree) -> list[Any]:
    return pytree.tree_leaves(node, is_leaf=is_size)


def _paths(node: Tree) -> list[str]:
    found, _ = pytree.tree_flatten_with_path(node, is_leaf=is_size)
    return [pytree.keystr(path) for path, _ in found]
