"""The values that replace a value when everything is changed: neighbors, their negatives, equal ones of other types."""

from __future__ import annotations

import array
import collections
import decimal
import enum
import fractions
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


class Text(str):
    """A subclass of str."""


def rebuilt(value: tuple[Any, ...], items: list[Any]) -> Any:
    """A tuple of the same type with other items, created without calling the constructor of its class."""
    if type(value) is tuple:
        return tuple(items)
    if isinstance(value, torch.Size):
        return torch.Size(items)
    if hasattr(type(value), "n_sequence_fields"):
        return type(value)(items)
    made = tuple.__new__(type(value), items)
    if hasattr(value, "__dict__"):
        made.__dict__.update(vars(value))
    return made


def others(value: Any) -> list[Any]:
    """The values that may replace a value. Those of its own kind come first, so that a number becomes dynamic before
    other types are tried.
    """
    for kinds, make in OTHERS:
        if isinstance(value, kinds):
            return make(value)
    return []


def _of_bool(value: bool) -> list[Any]:
    return [not value, value, int(value), float(value), 2]


def _of_int(value: int) -> list[Any]:
    # Relaxed at the second value; the third is one seen before.
    return [value + 1, value + 2, value + 3, -value - 1, 0, 1, float(value), Whole(value), Whole(value + 1), True]


def _of_float(value: float) -> list[Any]:
    return [value + 1, value + 2, value + 3, -value - 1, 0.0, -0.0, 1.0, int(value), Real(value), float("nan"), True]


def _of_text(value: str) -> list[Any]:
    return [value + "d", value + "dd", "", Text(value), value.upper(), 1]


def _of_enum(value: enum.Enum) -> list[Any]:
    return [other for other in type(value) if other is not value][:3]


def _of_tuple(value: tuple[Any, ...]) -> list[Any]:
    items = list(tuple.__iter__(value))
    if hasattr(type(value), "_fields") or hasattr(type(value), "n_sequence_fields"):
        return [tuple(items)]
    return [rebuilt(value, each) for each in ([*items, *(items[:1] or [1])], items[:-1], items[::-1])] + [list(items)]


def _of_list(value: list[Any]) -> list[Any]:
    items = list(list.__iter__(value))
    made: list[Any] = []
    for each in ([*items, *(items[:1] or [1])], items[:-1], items[::-1]):
        other = list.__new__(type(value))
        list.extend(other, each)
        if hasattr(value, "__dict__"):
            vars(other).update(vars(value))
        made.append(other)
    return [*made, tuple(items)]


def _of_dict(value: dict[Any, Any]) -> list[Any]:
    if type(value) not in (dict, collections.OrderedDict, collections.Counter):
        return []
    pairs = list(value.items())
    return [type(value)(dict(each)) for each in (pairs[::-1], pairs[1:], [*pairs, ("new", 1)])]


def _of_set(value: Any) -> list[Any]:
    items = list(value)
    return [type(value)(each) for each in ([*items, "new"], items[1:], items[::-1])]


def _of_range(value: range) -> list[Any]:
    start, stop, step = value.start, value.stop, value.step
    nexts = [range(start, stop + more, step) for more in (1, 2, 3)]
    # Equal, but different objects.
    return [*nexts, range(start, stop, step * 2), range(start, value[-1] + 1 if value else start, step), range(0)]


def _of_slice(value: slice) -> list[Any]:
    if not isinstance(value.stop, int):
        return [slice(value.start, 1, value.step), slice(value.start, 2, value.step), slice(value.start, 3, value.step)]
    return [slice(value.start, value.stop + more, value.step) for more in (1, 2, 3)]


def _of_size(value: torch.Size) -> list[Any]:
    items = list(value)
    return [torch.Size([*items[:-1], items[-1] + more]) for more in (1, 2, 3) if items] + [tuple(items)]


def _of_tensor(value: torch.Tensor) -> list[Any]:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return []
    value = value.detach()
    doubled = torch.stack([value, value], -1)
    made = [value + 1, value.double() if value.is_floating_point() else value.float(), doubled[..., 0], doubled]
    return [torch.nn.Parameter(each) if isinstance(value, torch.nn.Parameter) else each for each in made]


def _of_numpy(value: Any) -> list[Any]:
    if not isinstance(value.item() if value.size == 1 else 0, (int, float)) or value.dtype.kind not in "if":
        return []
    return [type(value)(value + more) if value.shape == () else value + more for more in (1, 2, 3)] + [-value]


def _of_number(value: Any) -> list[Any]:
    return [value + 1, value + 2, value + 3, -value - 1]


OTHERS: list[tuple[Any, Callable[[Any], list[Any]]]] = [
    (bool, _of_bool),
    (enum.Enum, _of_enum),
    ((np.generic, np.ndarray), _of_numpy),
    (int, _of_int),
    (float, _of_float),
    (str, _of_text),
    ((complex, fractions.Fraction, decimal.Decimal), _of_number),
    (torch.Size, _of_size),
    (tuple, _of_tuple),
    (list, _of_list),
    (dict, _of_dict),
    ((set, frozenset), _of_set),
    (range, _of_range),
    (slice, _of_slice),
    (torch.Tensor, _of_tensor),
    (type(None), lambda value: [1, 2, 3, "d"]),
    ((bytes, bytearray), lambda value: [value + b"d", value[:-1], value[::-1]]),
    (array.array, lambda value: [value[::-1], value[:-1]]),
    (collections.deque, lambda value: [collections.deque([*value, 1], value.maxlen), collections.deque()]),
]
"""The replacement values for each type; the first match counts."""


def beneath(value: Any) -> list[tuple[str, Any, Any]]:
    """The values stored in a value: the spelling, the step that reaches it, and the value itself."""
    found: list[tuple[str, Any, Any]] = []
    if isinstance(value, types.FunctionType):
        for index, cell in enumerate(value.__closure__ or ()):
            found.append((f".__closure__[{index}]", ("cell", index), cell.cell_contents))
        for index, default in enumerate(value.__defaults__ or ()):
            found.append((f".__defaults__[{index}]", ("default", index), default))
        for name, default in (value.__kwdefaults__ or {}).items():
            found.append((f".__kwdefaults__[{name!r}]", ("kwdefault", name), default))
    elif isinstance(value, functools.partial):
        found += [(f".args[{index}]", ("argument", index), item) for index, item in enumerate(value.args)]
        found += [(f".keywords[{name!r}]", ("keyword", name), item) for name, item in value.keywords.items()]
        found.append((".func", None, value.func))
    elif isinstance(value, types.MethodType):
        found += [(".__self__", None, value.__self__), (".__func__", None, value.__func__)]
    elif isinstance(value, dict):
        found += [(f"[{key!r}]", ("key", key), item) for key, item in dict.items(value)]
    elif isinstance(value, (list, collections.deque)):
        items = (list if isinstance(value, list) else collections.deque).__iter__(value)
        found += [(f"[{index}]", ("index", index), item) for index, item in enumerate(items)]
    elif isinstance(value, tuple):
        found += [(f"[{index}]", ("item", index), item) for index, item in enumerate(tuple.__iter__(value))]
    if not isinstance(value, (type, types.ModuleType, types.FunctionType, torch.Tensor)):
        kept = dict(getattr(value, "__dict__", {}))
        if isinstance(value, torch.nn.Module):
            tables = {table: kept.pop(table) for table in ("_parameters", "_buffers", "_modules")}
            found += [
                (f".{name}", ("member", (table, name)), item)
                for table, members in tables.items()
                for name, item in members.items()
            ]
        found += [(f".{name}", ("attribute", name), item) for name, item in kept.items()]
        slots = [name for kind in type(value).__mro__ for name in _slots(kind)]
        found += [
            (f".{name}", ("attribute", name), object.__getattribute__(value, name))
            for name in slots
            if hasattr(value, name)
        ]
    return found


def _slots(kind: type) -> tuple[str, ...]:
    named = vars(kind).get("__slots__", ())
    return tuple(each for each in ((named,) if isinstance(named, str) else named) if not each.startswith("__"))


Undo = Callable[[], Any]


def write(owner: Any, step: tuple[str, Any], value: Any) -> Undo | None:
    """Stores another value where a step leads and returns the function that restores the old one. None if the owner
    itself would have to be replaced.
    """
    kind, key = step
    if kind == "item":
        return None
    if kind == "member":
        table, name = vars(owner)[key[0]], key[1]
        return _set(table[name], value, lambda each: table.__setitem__(name, each))
    if kind == "cell":
        cell = owner.__closure__[key]
        return _set(cell.cell_contents, value, lambda each: setattr(cell, "cell_contents", each))
    if kind == "default":
        before = owner.__defaults__
        after = (*before[:key], value, *before[key + 1 :])
        return _set(before, after, lambda each: setattr(owner, "__defaults__", each))
    if kind == "kwdefault":
        return _set(owner.__kwdefaults__[key], value, lambda each: owner.__kwdefaults__.__setitem__(key, each))
    if kind == "argument":
        state = owner.func, owner.args, owner.keywords, vars(owner) or None
        args = (*owner.args[:key], value, *owner.args[key + 1 :])
        return _set(state, (state[0], args, *state[2:]), owner.__setstate__)
    if kind == "keyword":
        return _set(owner.keywords[key], value, lambda each: owner.keywords.__setitem__(key, each))
    if kind == "key":
        return _set(dict.__getitem__(owner, key), value, lambda each: dict.__setitem__(owner, key, each))
    if kind == "index":
        base = list if isinstance(owner, list) else collections.deque
        return _set(base.__getitem__(owner, key), value, lambda each: base.__setitem__(owner, key, each))
    if key in getattr(owner, "__dict__", {}):
        # Bypasses properties and `__setattr__`.
        return _set(vars(owner)[key], value, lambda each: vars(owner).__setitem__(key, each))
    return _set(object.__getattribute__(owner, key), value, lambda each: object.__setattr__(owner, key, each))


def delete(owner: Any, step: tuple[str, Any]) -> Undo | None:
    """Removes what a step leads to and returns the function that puts it back in its old position."""
    kind, key = step
    if kind == "attribute" and key not in getattr(owner, "__dict__", {}):
        return None
    table = {"key": lambda: owner, "attribute": lambda: vars(owner), "keyword": lambda: owner.keywords}.get(kind)
    if table is None:
        return None
    held, base = table(), collections.OrderedDict if isinstance(owner, collections.OrderedDict) else dict
    pairs = list(base.items(held))
    # Worlds may share the owner, and one of them may have removed the key already.
    base.pop(held, key, None)

    def back() -> None:
        base.clear(held)
        for each, item in pairs:
            base.__setitem__(held, each, item)

    return back


def _set(before: Any, after: Any, put: Callable[[Any], Any]) -> Undo:
    put(after)
    return lambda: put(before)
