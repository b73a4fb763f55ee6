"""Dataclasses as JSON values, and back, by their fields; those that begin with an underscore are left out."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from typing import Any


def plain(value: Any) -> Any:
    """Returns the JSON value of a dataclass, or of a container of them."""
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {key: plain(getattr(value, name)) for key, name, _ in _fields(kind)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def build(kind: Any, value: Any) -> Any:
    """Returns the object of a type with this JSON value, with defaults for missing fields; else raises `ValueError`."""
    return _builder(kind)(value)


@functools.cache
def _fields(kind: Any) -> list[tuple[str, str, Any]]:
    """Returns the key, name and type of each field. ``pass_``, whose name Python reserves, has the key ``pass``."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind) if not field.name.startswith("_")]
    return [(name.rstrip("_"), name, hints[name]) for name in names]


@functools.cache
def _builder(kind: Any) -> Callable[[Any], Any]:
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    parts = [_builder(one) for one in given if one not in (Ellipsis, types.NoneType)]
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind)
    if origin in (types.UnionType, typing.Union):  # of a type and None
        return lambda value: None if value is None else parts[0](value)
    if origin is list or (origin is tuple and given[-1] is Ellipsis):
        return lambda value: origin(map(parts[0], _checked(list, value)))
    if origin is tuple:
        return lambda value: tuple(part(one) for part, one in zip(parts, _checked(list, value), strict=True))
    if origin is dict:
        return lambda value: {key: parts[1](one) for key, one in _checked(dict, value).items()}
    return functools.partial(_checked, kind)


def _dataclass(kind: Any, value: Any) -> Any:
    parts, required = _parts(kind), _required(kind)
    found = {}
    for key, one in _checked(dict, value).items():
        if key not in parts:
            raise ValueError(f"{kind.__name__} has no field {key!r}")
        name, part = parts[key]
        found[name] = part(one)
    if not required <= found.keys():
        missing = next(key for key, (name, _) in parts.items() if name in required - found.keys())
        raise ValueError(f"{kind.__name__} lacks the field {missing!r}")
    return kind(**found)


@functools.cache
def _parts(kind: Any) -> dict[str, tuple[str, Callable[[Any], Any]]]:
    """Returns the name and the builder of each field by its key. Large reports hold thousands of dataclasses, so what
    depends on their types alone is computed once."""
    return {key: (name, _builder(hint)) for key, name, hint in _fields(kind)}


@functools.cache
def _required(kind: Any) -> frozenset[str]:
    """Returns the names of the fields without a default."""
    missing = dataclasses.MISSING
    fields = dataclasses.fields(kind)
    return frozenset(field.name for field in fields if field.default is missing and field.default_factory is missing)


def _checked(kind: Any, value: Any) -> Any:
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise ValueError(f"expected {kind.__name__}, found {value!r}")
    return float(value) if kind is float else value
