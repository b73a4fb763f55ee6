"""Classes created by `collections.namedtuple` in a frame: the parts from which each call creates its own.

A class counts as one only if all its members are as `collections.namedtuple` creates them from these parts.
"""

from __future__ import annotations

from collections import namedtuple
from types import FunctionType
from typing import Any

_EXAMPLE = namedtuple("_EXAMPLE", "field")

Parts = tuple[str, tuple[str, ...], tuple[Any, ...] | None, str]
"""The name, the fields, the defaults and the module."""


def parts(cls: type) -> Parts | None:
    """Returns the parts of a class; None if `made` would not create an equal class from them."""
    own: dict[str, Any] = dict(cls.__dict__)
    new, fields = own.get("__new__"), own.get("_fields", ())
    function = new.__func__ if isinstance(new, staticmethod) else None
    if cls.__bases__ != (tuple,) or type(cls) is not type or not isinstance(function, FunctionType):
        return None
    named = type(fields) is tuple and all(type(field) is str for field in fields)
    if not named or type(own.get("__module__")) is not str or function.__defaults__ == ():
        return None
    found: Parts = cls.__name__, fields, function.__defaults__, own["__module__"]
    try:
        again = made(*found)
    except (TypeError, ValueError):
        return None
    alike = own.keys() == again.__dict__.keys() and cls.__qualname__ == again.__qualname__
    return found if alike and all(_same(own[name], value) for name, value in again.__dict__.items()) else None


def made(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...] | None, module: str) -> type:
    """Creates a class from these parts."""
    return namedtuple(name, fields, rename=True, defaults=defaults, module=module)


def _same(left: Any, right: Any) -> bool:
    """Returns true if two class members are alike; defaults must be the same objects."""
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, staticmethod | classmethod):
        return _same(left.__func__, right.__func__)
    if isinstance(left, FunctionType):
        return _look(left) == _look(right) and left.__defaults__ is right.__defaults__ and _cells_agree(left, right)
    if isinstance(left, dict):
        return list(left) == list(right) and all(left[key] is right[key] for key in left)
    if isinstance(left, str | tuple):
        return left == right
    # A field's getter gives its index and its docstring.
    return type(left) is type(_EXAMPLE.__dict__["field"]) and left.__reduce__() == right.__reduce__()


def _look(function: FunctionType) -> tuple[Any, ...]:
    names = function.__name__, function.__qualname__, function.__module__, function.__doc__
    return (*names, function.__code__, function.__kwdefaults__, function.__annotations__, function.__dict__)


def _cells_agree(left: FunctionType, right: FunctionType) -> bool:
    own, others = left.__closure__ or (), right.__closure__ or ()
    return len(own) == len(others) and all(
        mine.cell_contents is other.cell_contents or mine.cell_contents == other.cell_contents
        for mine, other in zip(own, others)
    )
