"""Changes between two calls, to any object that a program's module reaches, as far as Python allows them.

Each change depends only on a seed and on a place, so that two equal worlds can be changed equally. Changes to shared
state (settings, torch) come with a way to undo them.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

NAN = float("nan")
"""One object, since the hash of a NaN is its address."""

Undo = Callable[[], Any]
Place = tuple[str, Any]
DEEPEST = 4


def own(kind: type) -> bool:
    """Returns true if a class belongs to the program."""
    return getattr(kind, "__module__", None) == "fuzzed"


def stored(value: Any) -> list[Any]:
    """The items of a container, or the pairs of a dict, bypassing its class's own ways of reading."""
    for kind in (list, tuple, collections.deque, set, frozenset):
        if isinstance(value, kind):
            return list(kind.__iter__(value))
    # The order of an ordered dict can differ from that of the underlying dict.
    kind = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    return list(kind.items(value))


def beneath(path: str, value: Any) -> Iterator[Place]:
    """The places that are one step from a value."""
    if isinstance(value, types.FunctionType):
        yield f"{path}.__dict__", value.__dict__
        for index, cell in enumerate(value.__closure__ or ()):
            yield f"{path}.__closure__[{index}]", cell
    elif isinstance(value, types.CellType):
        yield f"{path}.cell_contents", value.cell_contents
    elif isinstance(value, type):
        if own(value):
            for name, found in list(vars(value).items()):
                yield f"{path}.{name}", found
            yield f"type({path})", type(value)
            for index, base in enumerate(value.__bases__):
                yield f"{path}.__bases__[{index}]", base
    elif isinstance(value, (property, classmethod, staticmethod)):
        for name in ("fget", "fset", "__func__"):
            if isinstance(getattr(value, name, None), types.FunctionType):
                yield f"{path}.{name}", getattr(value, name)
    elif isinstance(value, (types.MethodType, functools.partial)):
        for name in ("__func__", "__self__", "func", "args", "keywords"):
            if hasattr(value, name):
                yield f"{path}.{name}", getattr(value, name)
    elif isinstance(value, dict):
        for key, found in stored(value):
            yield f"{path}[{key!r}]", found
    elif isinstance(value, (list, tuple, collections.deque)):
        for index, found in enumerate(stored(value)):
            yield f"{path}[{index}]", found
    else:
        if own(type(value)):
            yield f"type({path})", type(value)
        for name, found in list(getattr(value, "__dict__", {}).items()):
            if not name.startswith("__"):
                yield f"{path}.{name}", found


OTHERS = (
    ".__slotnames__",
    "._abc_impl",
    ".__doc__",
    ".__annotations__",
    ".__annotate_func__",
    ".__dataclass_fields__",
    ".__dataclass_params__",
)
"""Attributes that Python maintains for itself, such as `copy`'s cache and `abc`'s registry."""


def is_foreign(value: Any) -> bool:
    """Returns true if an object belongs to torch or to the standard library, which other programs also use."""
    if isinstance(value, types.FunctionType):
        return value.__globals__.get("__name__") != "fuzzed"
    if isinstance(value, types.ModuleType):
        return not value.__name__.startswith("fuzzed")
    return isinstance(value, type) and not own(value)


def reach(roots: list[Place]) -> list[Place]:
    """All reachable places, each object once, in an order that is the same in equal worlds."""
    seen: dict[int, Any] = {}
    found, level = [], roots
    for _ in range(DEEPEST):
        following = []
        for path, value in level:
            if id(value) in seen or path.endswith(OTHERS) or is_foreign(value):
                continue
            seen[id(value)] = value
            found.append((path, value))
            following += beneath(path, value)
        level = following
    return found


def other(chance: random.Random, value: Any, world: Any) -> Any:
    """A replacement for a value, now and then of another type."""
    if chance.random() < 0.08:
        return chance.choice([1, 2.5, "b", None, True, [2, 3], (1, 2)])
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return chance.choice([value + 1, value - 1, 0, 2, float(value), True])
    if isinstance(value, float):
        return chance.choice([value + 1, -value, 1, NAN])
    if isinstance(value, str):
        return chance.choice([value + "d", "", "k"])
    if isinstance(value, torch.Tensor) and chance.random() < 0.1:
        return world.TENSOR if chance.random() < 0.5 else world.BLOCK.fc.weight
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(tensor(chance, value), requires_grad=chance.random() < 0.5)
    if isinstance(value, torch.Tensor):
        return tensor(chance, value)
    if isinstance(value, types.FunctionType):
        return chance.choice([world.helper_of_others, lambda *args, **named: 2, lambda self, *args: 3])
    if isinstance(value, tuple) and type(value) is tuple:
        return chance.choice([value[::-1], value[:1], (*value, 4)])
    if isinstance(value, (list, set, frozenset)):
        items = list(value)
        chance.shuffle(items)
        return type(value)(chance.choice([items, items[1:], [*items, 16]]))
    if isinstance(value, dict):
        return dict(value) if isinstance(value, collections.defaultdict) else type(value)(list(value.items())[::-1])
    if isinstance(value, type):
        return chance.choice([world.Other, world.Config, world.Empty])
    if own(type(value)):
        return chance.choice(world.POOL)
    return chance.choice([1, None])


def tensor(chance: random.Random, value: torch.Tensor) -> torch.Tensor:
    """Another tensor, derived from the given one."""
    value = value.detach()
    return chance.choice(
        [
            lambda: value + 1,
            lambda: value.double(),
            lambda: value.reshape(-1),
            lambda: torch.stack([value, value]),
            lambda: value.clone().requires_grad_(),
            lambda: torch.stack([value, value], -1)[..., 0],
            lambda: value[..., :1],
            lambda: value.view(value.shape),
        ]
    )()


MEMBERS: dict[str, Callable[..., Any]] = {
    "__getattr__": lambda self, name: 11,
    "__getattribute__": lambda self, name: 12 if name in ("k", "width") else object.__getattribute__(self, name),
    "__bool__": lambda self: False,
    "__len__": lambda self: 1,
    "__eq__": lambda self, value: True,
    "__hash__": lambda self: 13,
    "__contains__": lambda self, value: False,
    "__getitem__": lambda self, key: (14, 15, 16)[key],
    "__iter__": lambda self: iter([1]),
    "__call__": lambda self, *args: 15,
    "__get__": lambda self, owner, kind=None: 16,
    "__set__": lambda self, owner, value: None,
    "__init__": lambda self, *args: None,
    "__instancecheck__": lambda self, value: True,
    "__lt__": lambda self, value: True,
    "__next__": lambda self: 17,
    "__add__": lambda self, value: 18,
    "__int__": lambda self: 19,
    "__copy__": lambda self: self,
}


def change_class(chance: random.Random, kind: Any, world: Any) -> None:
    """Changes a class: its members, its special methods, its bases, its name."""
    what = chance.random()
    names = [name for name in vars(kind) if not name.startswith("__") and name != "_abc_impl"]
    if what < 0.35 and names:
        name = chance.choice(names)
        setattr(kind, name, other(chance, vars(kind)[name], world))
    elif what < 0.45 and names:
        delattr(kind, chance.choice(names))
    elif what < 0.75:
        name = chance.choice(list(MEMBERS))
        setattr(kind, name, MEMBERS[name])
    elif what < 0.9:
        name = chance.choice(["k", "width", "value", "first", "missing", "rate", "inner"])
        setattr(kind, name, chance.choice([7, property(lambda self: 8), world.Lazy(), world.Doubled()]))
    elif what < 0.95:
        kind.__bases__ = (chance.choice([world.Base, world.Other]),)
    else:
        kind.__name__ = "Renamed"


def change_function(chance: random.Random, function: Any, world: Any) -> None:
    """Changes a function: its defaults, its code, its attributes."""
    what = chance.randrange(6)
    if what == 0:
        function.__defaults__ = chance.choice([None, (9,), (8, 9), ()])
    elif what == 1:
        function.__kwdefaults__ = chance.choice([None, {"extra": 9}, {}])
    elif what == 2 and function.__kwdefaults__:
        function.__kwdefaults__["extra"] = 7
    elif what == 3 and not function.__code__.co_freevars:
        function.__code__ = world.helper_of_others.__code__
    elif what == 4:
        function.k = chance.choice([5, 6])
    else:
        function.__wrapped__ = world.helper_of_others


def set_in_dict(value: Any, name: str, new: Any) -> None:
    """A ``setattr`` that bypasses the class."""
    value.__dict__[name] = new


def set_by_other_dict(value: Any, name: str, new: Any) -> None:
    """A ``setattr`` that gives the instance another dict."""
    value.__dict__ = {**value.__dict__, name: new}


def change_instance(chance: random.Random, value: Any, world: Any) -> None:
    """Changes an object: its stored values, its class."""
    names = [name for name in getattr(value, "__dict__", {}) if not name.startswith("_")]
    what = chance.random()
    if what < 0.5 and names:
        name = chance.choice(names)
        # An instance keeps its values inline, in a dict that shares them, or in a separate dict.
        write = chance.choice([setattr, set_in_dict, set_by_other_dict])
        write(value, name, other(chance, getattr(value, name), world))
    elif what < 0.65 and names:
        name = chance.choice(names)
        kept = getattr(value, name)
        delattr(value, name)
        if chance.random() < 0.3:
            # The same value, at another place in the order.
            setattr(value, name, kept)
    elif what < 0.85:
        setattr(value, chance.choice(["k", "missing", "unset", "value", "width", "lazy", "scaled", "__getattr__"]), 6)
    elif own(type(value)):
        value.__class__ = chance.choice([world.Other, world.Config, world.Empty, type(value)])


def change_list(chance: random.Random, value: Any, world: Any) -> None:
    """Changes a list or deque."""
    what = chance.randrange(4)
    if what == 0:
        value.append(chance.choice([1, 5, 2.5]))
    elif what == 1:
        value.pop()
    elif what == 2:
        value.reverse()
    else:
        at = chance.randrange(len(value))
        value[at] = other(chance, value[at], world)


def change_dict(chance: random.Random, value: Any, world: Any) -> None:
    """Changes a dict, or its order."""
    what, keys = chance.randrange(5), list(value)
    if what == 0:
        value[chance.choice(["c", "k", "first", "missing"])] = 9
    elif what == 1 and keys:
        del value[chance.choice(keys)]
    elif what == 2 and keys:
        key = chance.choice(keys)
        value[key] = value.pop(key)
    elif what == 3 and isinstance(value, collections.OrderedDict) and keys:
        value.move_to_end(keys[0])
    elif keys:
        key = chance.choice(keys)
        value[key] = other(chance, value[key], world)


def change_set(chance: random.Random, value: Any, world: Any) -> None:
    """Changes a set, or the order in which it yields its elements."""
    items = list(value)
    chance.shuffle(items)
    value.clear()
    value.update(chance.choice([items, items[1:], [*items, 16], items[::-1]]))


def change_module(chance: random.Random, value: Any, world: Any) -> None:
    """Changes a module: its names, its ``__getattr__``, its class."""
    what = chance.randrange(5)
    if what < 2:
        value.k = other(chance, value.k, world)
    elif what == 2:
        value.__getattr__ = lambda name: 17
    elif what == 3:
        del value.k
    else:
        value.__class__ = type("Kind", (types.ModuleType,), {"k": property(lambda self: 18)})


def change_partial(chance: random.Random, value: Any, world: Any) -> None:
    """Changes a `functools.partial`."""
    if chance.random() < 0.5:
        value.keywords[chance.choice(["more", "extra", "gone"])] = 8
    else:
        value.__setstate__((world.helper_of_others, (3,), {"extra": 5}, {}))


def change_network(chance: random.Random, value: Any, world: Any) -> None:
    """Changes an `nn.Module`."""
    what = chance.randrange(6)
    if what == 0:
        value.train(not value.training)
    elif what == 1:
        value._forward_hooks[99] = lambda module, args, result: result + 1
    elif what == 2:
        name = chance.choice(list(value._parameters) or ["extra"])
        setattr(value, name, torch.nn.Parameter(torch.ones(3, 3) * 2, requires_grad=False))
    elif what == 3:
        value.double()
    elif what == 4:
        value.forward = lambda x: x + 19
    else:
        change_instance(chance, value, world)


def change_tensor(chance: random.Random, value: torch.Tensor, world: Any) -> None:
    """Changes a tensor in place."""
    with torch.no_grad():
        what = chance.randrange(4)
        if what == 0:
            value.add_(1)
        elif what == 1:
            value.data = tensor(chance, value).data
        elif what == 2:
            value.requires_grad_(not value.requires_grad)
        else:
            setattr(value, chance.choice(["k", "relu", "note"]), 5)


CHANGES: list[tuple[Callable[[Any], bool], Callable[..., None]]] = [
    (lambda value: isinstance(value, torch.nn.Module), change_network),
    (lambda value: isinstance(value, torch.Tensor), change_tensor),
    (lambda value: isinstance(value, types.FunctionType), change_function),
    (lambda value: isinstance(value, type) and own(value), change_class),
    (lambda value: isinstance(value, types.ModuleType), change_module),
    (lambda value: isinstance(value, functools.partial), change_partial),
    (lambda value: isinstance(value, (list, collections.deque)), change_list),
    (lambda value: isinstance(value, dict), change_dict),
    (lambda value: isinstance(value, set), change_set),
    (
        lambda value: isinstance(value, types.CellType),
        lambda c, v, w: setattr(v, "cell_contents", other(c, v.cell_contents, w)),
    ),
    (lambda value: hasattr(value, "cache_clear"), lambda c, v, w: v.cache_clear()),
    (lambda value: type(value).__name__ == "ContextVar", lambda c, v, w: v.set(c.randrange(5)) and None),
    (lambda value: hasattr(value, "__dict__") or own(type(value)), change_instance),
]


def make(seed: int, value: Any, world: Any) -> None:
    """Changes a value; a change that Python does not allow has no effect."""
    chance = random.Random(seed)
    for fits, change in CHANGES:
        if fits(value):
            with contextlib.suppress(TypeError, AttributeError, ValueError, IndexError, KeyError, RuntimeError):
                change(chance, value, world)
            return


def rebind(seed: int, world: Any, name: str) -> None:
    """Rebinds a global to another value, or deletes it."""
    chance = random.Random(seed)
    if chance.random() < 0.1:
        vars(world).pop(name, None)
    elif name in vars(world):
        # The replacement may no longer exist.
        with contextlib.suppress(AttributeError):
            setattr(world, name, other(chance, vars(world)[name], world))


BUILTINS: dict[str, Any] = {
    "LATE_NAME": 20,
    "len": lambda value: 5,
    "sum": lambda value, start=0: 6,
    "isinstance": lambda value, kind: False,
    "getattr": lambda owner, name, *rest: 7,
    "max": min,
    "range": lambda count: [0, 5],
    "int": float,
    "enumerate": lambda value: [(1, 2)],
}


def hide(seed: int, world: Any) -> str:
    """Patches a builtin, or shadows it with a global; returns its name."""
    chance = random.Random(seed)
    name = chance.choice(list(BUILTINS))
    where = vars(world) if chance.random() < 0.5 else world.__builtins__
    where[name] = BUILTINS[name]
    return name


def patched(owner: Any, name: str, value: Any) -> Callable[[], Undo]:
    """A patch that can be undone."""

    def change() -> Undo:
        had, before = name in vars(owner), getattr(owner, name, None)
        setattr(owner, name, value)
        return lambda: setattr(owner, name, before) if had or not isinstance(owner, type) else delattr(owner, name)

    return change


def setting(change: Callable[[], Any], back: Callable[[], Any]) -> Callable[[], Undo]:
    """A change of a setting that can be undone."""
    return lambda: (change(), back)[1]


def _module() -> Undo:
    before, module = sys.modules.get("fuzzed_import"), types.ModuleType("fuzzed_import")
    module.k = 9
    sys.modules["fuzzed_import"] = module
    return lambda: sys.modules.__setitem__("fuzzed_import", before)


def _grad() -> Undo:
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(not before)
    return lambda: torch.set_grad_enabled(before)


SHARED: dict[str, Callable[[], Undo]] = {
    "sys.modules": _module,
    "grad mode": _grad,
    "default dtype": setting(
        lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
    ),
    "recursion limit": setting(lambda: sys.setrecursionlimit(1003), lambda: sys.setrecursionlimit(1000)),
    "threads": setting(lambda: torch.set_num_threads(3), lambda: torch.set_num_threads(2)),
    "precision": setting(
        lambda: torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision("highest")
    ),
    "Tensor.__add__": patched(torch.Tensor, "__add__", lambda a, b: torch.mul(a, 3)),
    "Tensor.__mul__": patched(torch.Tensor, "__mul__", lambda a, b: torch.add(a, 3)),
    "Tensor.relu": patched(torch.Tensor, "relu", lambda a: torch.mul(a, 3)),
    "Tensor.sin": patched(torch.Tensor, "sin", lambda a: torch.mul(a, 3)),
    "torch.relu": patched(torch, "relu", lambda a: torch.mul(a, 3)),
    "F.relu": patched(F, "relu", lambda a, inplace=False: torch.mul(a, 3)),
    "F.leaky_relu": patched(F.leaky_relu, "__defaults__", (0.5, False)),
    "F.softmax": patched(F.softmax, "__kwdefaults__", {"dim": 0}),
    "Tensor.softmax": patched(torch.Tensor, "softmax", lambda a, *rest, **named: torch.mul(a, 3)),
    "nn.Module.__call__": patched(torch.nn.Module, "__call__", lambda self, x: x * 3),
    "nn.ReLU.forward": patched(torch.nn.ReLU, "forward", lambda self, x: x * 3),
}
