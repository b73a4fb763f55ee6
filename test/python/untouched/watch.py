"""The state of a world, read without running any of its code: contents by identity, versions, reference counts.

Contents come from `gc.get_referents`, which sees what the collector sees, in order. State that does not consist of
objects (bytes, positions of iterators, versions) comes from C functions and from memory.
"""

from __future__ import annotations

import array
import collections
import contextvars
import ctypes
import dataclasses
import enum
import functools
import gc
import itertools
import sys
import threading
import types
import typing
import weakref
from collections.abc import Callable
from typing import Any

import torch

TYPE_FLAGS, TYPE_VERSION, DICT_VERSION, DICT_VALUES = 168, 384, 24, 40
"""Their offsets in CPython's objects."""
VALID_VERSION = 1 << 19
WATCHERS = {(3, 11): 0, (3, 12): 8}.get(sys.version_info[:2], 12)
"""The number of bits in a dict's version that record its watchers, from 3.12 on."""

ATOMS = (str, bytes, int, float, complex, type(None), types.CodeType, torch.dtype, range)
EMPTY: Any = ()
SHARED = {id(value) for module in (dataclasses, functools, typing, enum) for value in vars(module).values()}
"""The ids of objects that modules of the standard library share with all code."""
ITERATORS = tuple(
    {
        type(made)
        for made in (
            *map(iter, ([], (), "", b"", range(1), {}, set(), {}.values(), {}.items())),
            *map(reversed, ([], {})),  # type: ignore[arg-type]
        )
    }
)


def word(place: int, size: type = ctypes.c_uint64) -> int:
    """The integer at an address."""
    return int(size.from_address(place).value)


def is_foreign(value: Any, name: str) -> bool:
    """Returns true if an object does not belong to the module of that name; other code may use it as well."""
    if type(value).__name__ == "_localdummy":  # any `threading.local` has one in the thread's dict
        return True
    if isinstance(value, ATOMS) or type(value) in (object, types.MappingProxyType) or id(value) in SHARED:
        return True
    if issubclass(type(value), type):
        return type.__getattribute__(value, "__module__") != name
    if issubclass(type(value), types.ModuleType):
        return not str(types.ModuleType.__getattribute__(value, "__name__")).startswith(name)
    if type(value) is types.FunctionType:
        return value.__globals__.get("__name__") != name
    if type(value) is types.BuiltinFunctionType:
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    return False


def parts(world: types.ModuleType) -> list[Any]:
    """All objects that belong to a module and that it reaches."""
    name = world.__name__
    seen = {id(world.__dict__["__builtins__"])}
    found: list[Any] = []
    waiting: list[Any] = [world]
    for value in waiting:
        if id(value) in seen or value is EMPTY or is_foreign(value, name):
            continue
        seen.add(id(value))
        found.append(value)
        waiting += gc.get_referents(value)
        if "__dict__" in dir_of(type(value)):
            # This creates the dict if it does not exist yet, a change that no program can observe.
            waiting.append(object.__getattribute__(value, "__dict__"))
        if type(value) is types.FunctionType:
            waiting.append(value.__annotations__)
    return found


def dir_of(kind: type) -> set[str]:
    return {name for base in type.__dict__["__mro__"].__get__(kind) for name in base.__dict__}


def of_tensor(value: torch.Tensor) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        contents = bytes(value.detach().untyped_storage()) if not value.is_meta else b""  # type: ignore[arg-type]
        layout = value.dtype, tuple(value.shape), value.stride(), value.storage_offset(), value.data_ptr()
        return value._version, value.requires_grad, id(value.grad), layout, contents


def of_dict(value: Any) -> Any:
    # From 3.13 on, a dict's version does not cover values that it shares with an instance.
    shares = sys.version_info >= (3, 13) and word(id(value) + DICT_VALUES) != 0
    version = 0 if shares else word(id(value) + DICT_VERSION)
    return version >> WATCHERS, tuple(map(id, dict.keys(value)))


def of_type(value: Any) -> Any:
    valid = word(id(value) + TYPE_FLAGS) & VALID_VERSION
    version = word(id(value) + TYPE_VERSION, ctypes.c_uint32) if valid else 0
    return Version(version), tuple(map(id, type.__subclasses__(value)))


class Version(int):
    """The version of a type. A type has none (0) until it is first requested, so 0 equals any later version."""

    def __eq__(self, other: object) -> bool:
        return int(self) == 0 or super().__eq__(other)

    __hash__ = int.__hash__


def of_generator(value: Any) -> Any:
    return None if value.gi_frame is None else value.gi_frame.f_lasti


def of_iterator(value: Any) -> Any:
    return type(value).__length_hint__(value)


def of_local(value: Any) -> Any:
    held = type(value).__getattribute__(value, "__dict__")
    return [(name, id(item)) for name, item in held.items()]


READERS: list[tuple[Any, Callable[[Any], Any]]] = [
    (dict, of_dict),
    (type, of_type),
    (torch.Tensor, of_tensor),
    (torch.Generator, lambda value: bytes(value.get_state())),
    ((bytearray, array.array), bytes),
    (memoryview, bytes),
    (types.GeneratorType, of_generator),
    (ITERATORS, of_iterator),
    ((itertools.count,), repr),
    (type(functools.lru_cache(lambda: 0)), lambda value: tuple(value.cache_info())),
    (contextvars.ContextVar, lambda value: id(value.get(None))),
    (threading.local, of_local),
    (type(threading.Lock()), lambda value: value.locked()),
    (collections.deque, collections.deque.__len__),
]


PLACES = (bytearray, array.array, memoryview, types.GeneratorType, *ITERATORS, itertools.count, torch.Generator)
"""Types whose readers return the same for two equal worlds."""


def positions(world: types.ModuleType) -> list[Any]:
    """The contents and positions of a world's objects that do not have attributes to compare."""
    held = [(name, value) for name, value in world.__dict__.items() if isinstance(value, PLACES)]
    found: list[Any] = [
        (name, [reader(value) for kinds, reader in READERS if isinstance(value, kinds)]) for name, value in held
    ]
    return found + [value.get() for value in world.__dict__.values() if isinstance(value, contextvars.ContextVar)]


def readers_of(kind: type) -> list[Callable[[Any], Any]]:
    """The readers for values of a type."""
    return [reader for types_, reader in READERS if issubclass(kind, types_)]


readers_of_static = functools.cache(readers_of)
flags_of = type.__dict__["__flags__"].__get__
HEAP_TYPE = 1 << 9


def own_state(value: Any) -> Any:
    """The state of a value apart from its references."""
    kind = type(value)
    # A class that Python code created may belong to a world: no cache may keep it alive.
    readers = readers_of(kind) if flags_of(kind) & HEAP_TYPE else readers_of_static(kind)
    return id(kind), tuple([reader(value) for reader in readers]), weakref.getweakrefcount(value)


class Snapshot:
    """The state of a world at one moment."""

    def __init__(self, values: list[Any]) -> None:
        self.states = [(own_state(value), tuple(map(id, gc.get_referents(value)))) for value in values]
        # Last, when the code above has released its references.
        self.counts = [sys.getrefcount(value) for value in values]


def differences(values: list[Any], before: Snapshot, after: Snapshot) -> list[str]:
    """The changes, as text."""
    found = []
    for value, was, now, held, holds in zip(
        values, before.states, after.states, before.counts, after.counts, strict=True
    ):
        if was[0] != now[0]:
            found.append(f"{label(value, values)}: {was[0]} became {now[0]}")
        if was[1] != now[1]:
            found.append(f"{label(value, values)} referred to other things")
        if held != holds:
            found.append(f"{label(value, values)}: {held} references became {holds}")
    return found


def label(value: Any, values: list[Any]) -> str:
    """A label for a part of a world: its name there, or the name of the object to which it belongs."""
    kind = type(value).__qualname__
    for name, held in values[0].__dict__.items():
        if held is value:
            return str(name)
    for other in values:
        if any(held is value for held in gc.get_referents(other)):
            name = next((name for name, held in values[0].__dict__.items() if held is other), type(other).__qualname__)
            return f"a {kind} of {name}"
    return f"a {kind}"
