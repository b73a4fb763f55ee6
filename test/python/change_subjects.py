"""Calls for `change_everything`: small programs that read from every kind of place, and programs of other tests."""

from __future__ import annotations

import collections
import dataclasses
import enum
import fractions
import functools
import random
import sys
import types
from collections.abc import Callable
from typing import Any

import effect_programs
import guard_world
import numpy as np
import size_programs
import torch
from change_everything import Call, Subject
from guard_fuzz import programs
from reading import prelude
from torch import nn


class Mode(enum.Enum):
    """An enum, whose members are compared by identity."""

    FAST = 1
    SLOW = 2


class Plain:
    """Has instance attributes, and one on the class."""

    kind = 2

    def __init__(self, **held: Any) -> None:
        self.__dict__.update(held)

    def scaled(self, value: Any) -> Any:
        """Reads both kinds of attributes."""
        return value * self.rate + self.kind


class Slotted:
    """A class without instance dict."""

    __slots__ = ("held", "rate")

    def __init__(self, rate: Any) -> None:
        self.rate, self.held = rate, [rate, 1]


SOURCE = """
NUMBER, TABLE = 3, {"a": 1, "b": [2, 3]}


def callee(a, scale=2, *, shift=1):
    return a * scale + shift


def make():
    held, pair = 5, (6, 7)

    def function(x, o, d, r, *, flag=True):
        y = x * held + pair[1] - NUMBER + TABLE["b"][0]
        return callee(y) + callee(x, shift=2) if flag else y

    return function
"""


def _of_function() -> Call:
    made = types.ModuleType("changed")
    exec(SOURCE, made.__dict__)
    return made.make(), (torch.ones(2), None, {}, ()), {"flag": True}


def _reads_objects(x: Any, o: Any, s: Any, p: Any, d: Any) -> Any:
    y = x * o.rate + o.inner.held["k"][1] + s.rate + s.held[0] + p()
    if o.mode is Mode.FAST and o.name == "fast":
        y = y + len(o.name)
    for number in o.numbers:
        y = y + number
    return o.scaled(y) + d.a * d.b, o.name


def _of_objects() -> Call:
    inner = Plain(held={"k": [1, 2]})
    o = Plain(rate=0.5, inner=inner, mode=Mode.FAST, name="fast", numbers=[1, 2], unread=4)
    partial = functools.partial(prelude.taking, 2, b=3)
    return _reads_objects, (torch.ones(2), o, Slotted(3), partial, prelude.Record(2, 0.5)), {}


@dataclasses.dataclass
class Many:
    """Containers of the standard library."""

    size: Any = dataclasses.field(default_factory=lambda: torch.Size((2, 3)))
    span: Any = range(0, 4, 2)
    cut: Any = dataclasses.field(default_factory=lambda: slice(None, 2))
    queue: Any = dataclasses.field(default_factory=lambda: collections.deque([1, 2]))
    counts: Any = dataclasses.field(default_factory=lambda: collections.Counter(a=2, b=1))
    ordered: Any = dataclasses.field(default_factory=lambda: collections.OrderedDict(a=1, b=2))
    share: Any = fractions.Fraction(3, 2)
    single: Any = dataclasses.field(default_factory=lambda: np.float64(1.5))
    names: Any = frozenset({"a", "b"})
    text: Any = "abc"


def _reads_containers(x: Any, m: Any) -> Any:
    y = x * m.size[1] + m.span.stop + x[m.cut].sum() + m.queue[0] + m.counts["a"] + m.share.numerator
    y = y + float(m.single) + (2 if "a" in m.names else 3) + sum(m.ordered.values())
    return y, f"{m.text}{m.span!r}", [*m.ordered], len(m.queue)


def _reads_subclasses(x: Any, n: Any, t: Any, q: Any, d: Any, o: Any) -> Any:
    y = x * n[0] + n.right + t[0] * t.by_loop() + q.doubled + d["a"] + d.by_get() + o.a
    return y + sum(d.values()) + max(q) + len({n: 1, (3, 1): 2}), str(t), f"{n}"


def _of_subclasses() -> Call:
    tupled, listed = prelude.Tupled((2, 1)), prelude.Listed([3, 1])
    given = (prelude.Named(2, 1), tupled, listed, prelude.Mapped(a=2, b=3), prelude.Attributed(a=4, b=1))
    return _reads_subclasses, (torch.ones(2), *given), {}


def _writes(x: Any, log: Any, table: Any, o: Any, n: Any) -> Any:
    log.append(n)
    table["n"] = table.get("n", 0) + n
    o.count += len(log)
    table.setdefault(n, []).append(o.count)
    return x * o.count + table["n"]


class Net(nn.Module):
    """Modules, buffers and attributes that the forward depends on."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3, momentum=0.2)
        self.drop = nn.Dropout(0.0)
        self.steps = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        self.register_buffer("scale", torch.full((3,), 2.0))
        self.rate, self.sizes, self.options = 0.5, (2, 3), {"deep": 1}

    def forward(self, x: Any, times: int = 2) -> Any:
        """Reads all of it."""
        x = self.drop(self.norm(self.fc(x))) * self.scale * self.rate + self.sizes[0]
        for _ in range(times):
            for step in self.steps:
                x = step(x)
        return x + self.options["deep"]


def _of_module() -> Call:
    return Net().eval(), (torch.ones(2, 3),), {"times": 1}


def _of_world() -> Call:
    world = guard_world.World()
    return world.function, tuple(world.locals()), {}


def _reads_world(model: Any, x: Any, cfg: Any) -> Any:
    return model(x) * cfg.width + cfg.method() + cfg.double + cfg.sizes[1] + cfg.options["second"] + cfg.ordered["a"]


def _of_config() -> Call:
    world = guard_world.World()
    return _reads_world, (world.model, world.x, world.cfg), {}


SUBJECTS = (
    Subject("function", _of_function),
    Subject("objects", _of_objects),
    Subject("containers", lambda: (_reads_containers, (torch.ones(3), Many()), {})),
    Subject("subclasses", _of_subclasses),
    Subject("writes", lambda: (_writes, (torch.ones(2), [1], {"n": 1}, Plain(count=2, rate=1), 3), {})),
    Subject("module", _of_module, leaves=40),
    Subject("world", _of_world, leaves=40),
    Subject("config", _of_config, leaves=40),
)


def of_fuzzer(seed: int) -> Subject:
    """A program of the guard fuzzer."""

    def make() -> Call:
        made = programs.world(programs.main(seed, reads=True))
        sys.modules["fuzzed_import"] = made.fuzzed_import
        return made.main, programs.arguments(made), {}

    return Subject(f"guards, seed {seed}", make, leaves=20)


def of_effects(seed: int) -> Subject:
    """A program of the effects fuzzer."""

    def make() -> Call:
        function, _ = effect_programs.world_of(seed, "changed_world", lambda each: each)
        return function, (torch.arange(2.0, dtype=torch.float64),), {}

    return Subject(f"effects, seed {seed}", make, leaves=20)


def of_sizes(seed: int) -> Subject:
    """A program of the sizes fuzzer."""

    def make() -> Call:
        home: dict[str, Any] = {"__name__": "sizes"}
        exec(compile(size_programs.text(seed), "<sizes>", "exec"), home)
        return home["function"], size_programs.arguments(random.Random(seed * 100)), {}

    return Subject(f"sizes, seed {seed}", make, leaves=20)


def of_model(name: str) -> Subject:
    """One of the benchmarks' models, as small as its family allows."""
    from suite import catalog

    def make() -> Call:
        entry = catalog.MODELS[name]
        few = {each: 1 for each in ("num_hidden_layers", "n_layer", "n_layers", "num_layers") if each in entry.sizes}
        module, inputs = entry.make(1, **few)
        if "input_ids" in inputs:
            inputs = {key: value[:, :8] if isinstance(value, torch.Tensor) else value for key, value in inputs.items()}
        return module, (), inputs

    return Subject(name, make, leaves=6, kinds=(int, float, str, type(None)))


def shared() -> dict[str, Callable[[], Any]]:
    """Changes of shared objects: classes, modules, torch's settings."""
    return {
        "a class's attribute": lambda: setattr(Plain, "kind", 5),
        "a class's method": lambda: setattr(Plain, "scaled", lambda self, value: value * 3),
        "a class's `__getattribute__`": lambda: setattr(
            Plain, "__getattribute__", lambda self, name: 7 if name == "rate" else object.__getattribute__(self, name)
        ),
        "a subclass's method": lambda: setattr(prelude.Tupled, "__getitem__", lambda self, key: 9),
        "a named tuple's method": lambda: setattr(prelude.Named, "__iter__", lambda self: iter((8, 9))),
        "a module's function": lambda: setattr(prelude, "taking", lambda a, b=0: a - b),
        "the default type": lambda: torch.set_default_dtype(torch.float64),
        "the mode of gradients": lambda: torch.set_grad_enabled(not torch.is_grad_enabled()),
        "a function of torch": lambda: setattr(torch.Tensor, "__mul__", lambda a, b: torch.add(a, 3)),
        "a hook on all modules": lambda: nn.modules.module.register_module_forward_hook(lambda *given: given[2] + 1),
    }
