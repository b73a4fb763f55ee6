"""A world for tests of guards: a function with parameters, a model, a configuration, globals and a closure, with one
guard of each kind about them; and changes that are undone afterwards.
"""

from __future__ import annotations

import collections
import contextvars
import enum
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

native = pytest.importorskip("dynamlir._native")

CONSTANT = 3
TABLE = {"a": 1, "b": 2}
VARIABLE: contextvars.ContextVar[int] = contextvars.ContextVar("VARIABLE", default=1)


def helper(x: Any, scale: float = 2.0, *, shift: int = 1) -> Any:
    """A callee, reached as a global."""
    return x * scale + shift


class Mode(enum.Enum):
    """An enum, whose members are compared by identity."""

    FAST = 1
    SLOW = 2


class Config:
    """Has attributes on the instance, on the class, in a slot, behind a property."""

    kind = "plain"

    def __init__(self) -> None:
        self.width = 4
        self.rate = 0.5
        self.name = "config"
        self.mode = Mode.FAST
        self.sizes = [1, 2, 3]
        self.options = {"first": 1, "second": 2}
        self.shape = (2, 3)
        self.tags = {"x", "y"}
        self.nothing = None
        self.ordered = collections.OrderedDict(a=1, b=2)

    @property
    def double(self) -> int:
        """Looked up on the class."""
        return self.width * 2

    def method(self) -> int:
        """Looked up on the class."""
        return self.width


class Other(Config):
    """Another class with the same layout."""


class Slotted:
    """No instance dict."""

    __slots__ = ("__weakref__", "value")

    def __init__(self) -> None:
        self.value = 7


class Block(nn.Module):
    """A module with every kind of member."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.steps = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])

    def forward(self, x: Any) -> Any:
        """Never called, only inspected."""
        return self.norm(self.fc(x))


def make_function(offset: int) -> Callable[..., Any]:
    """A function with a closure."""

    def function(model: Any, x: Any, y: Any, n: Any, cfg: Any, slotted: Any) -> Any:
        return model(x) + y * n + offset + CONSTANT + len(TABLE) + cfg.width + slotted.value

    return function


class World:
    """The objects that the guards of one test are about, newly created."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = Block().eval()
        self.x = torch.randn(3, 4)
        self.y = torch.randn(3, 4)
        self.n: Any = 2
        self.cfg: Any = Config()
        self.slotted = Slotted()
        self.function = make_function(10)
        self.guards = self.build()

    def locals(self) -> list[Any]:
        return [self.model, self.x, self.y, self.n, self.cfg, self.slotted]

    def build(self) -> Any:
        b = native.GuardBuilder()
        b.torch_state()
        names = ["model", "x", "y", "n", "cfg", "slotted"]
        model, x, y, n, cfg, slotted = (b.local(slot, name) for slot, name in enumerate(names))
        for source, tensor in ((x, self.x), (y, self.y)):
            b.tensor(source, tensor)
            b.collect(source)
        b.distinct([x, y])
        b.storages([(x, 0, 0), (y, 1, 0)])
        b.equals(n, self.n)
        self._guard_config(b, cfg)
        self._guard_model(b, model)
        b.type_match(slotted, self.slotted)
        b.equals(b.slot(slotted, "value"), 7)
        self._guard_function(b)
        return b.build()

    def _guard_config(self, b: Any, cfg: int) -> None:
        b.type_match(cfg, self.cfg)
        for name in ("width", "rate", "name", "nothing"):
            b.equals(b.attr(cfg, name), getattr(self.cfg, name))
        b.identity(b.attr(cfg, "mode"), self.cfg.mode)
        sizes, options, shape, ordered = (b.attr(cfg, name) for name in ("sizes", "options", "shape", "ordered"))
        b.type_match(sizes, [])
        b.length(sizes, 3)
        b.equals(b.index(sizes, 1), 2)
        b.type_match(options, {})
        b.dict_keys(options, self.cfg.options)
        b.equals(b.item(options, "second"), 2)
        b.equals(b.dict_value(options, 0), 1)
        b.equals(shape, (2, 3))
        b.dict_keys(ordered, self.cfg.ordered)
        b.set_elements(b.attr(cfg, "tags"), self.cfg.tags)
        b.absent(b.attr(cfg, "missing"))
        b.absent(b.attr(cfg, "method"))
        kind = b.type_of(cfg)
        b.equals(b.type_attr(kind, "kind"), "plain")
        b.identity(b.type_attr(kind, "method"), Config.__dict__["method"])
        b.identity(b.type_attr(kind, "double"), Config.__dict__["double"])
        b.absent(b.type_attr(kind, "__getattr__"))

    def _guard_model(self, b: Any, model: int) -> None:
        b.type_match(model, self.model)
        b.identity(b.type_attr(b.type_of(model), "forward"), Block.forward)
        b.absent(b.attr(model, "forward"))
        b.equals(b.attr(model, "training"), False)
        b.dict_keys(b.attr(model, "_modules"), self.model._modules)
        fc, norm, steps = (b.module(model, name) for name in ("fc", "norm", "steps"))
        for source, module in ((fc, self.model.fc), (norm, self.model.norm), (steps, self.model.steps)):
            b.type_match(source, module)
            b.length(b.attr(source, "_forward_hooks"), 0)
        for name in ("weight", "bias"):
            parameter = b.parameter(fc, name)
            b.tensor(parameter, getattr(self.model.fc, name))
            b.collect(parameter)
        mean = b.buffer(norm, "running_mean")
        b.tensor(mean, self.model.norm.running_mean)
        b.collect(mean)
        b.equals(b.attr(norm, "momentum"), 0.1)
        b.equals(b.attr(norm, "training"), False)
        b.dict_keys(b.attr(steps, "_modules"), self.model.steps._modules)
        first, second = b.module(steps, "0"), b.module(steps, "1")
        weights = [b.parameter(first, "weight"), b.parameter(second, "weight")]
        for weight, module in zip(weights, self.model.steps):
            b.tensor(weight, module.weight)
            b.collect(weight)
        b.distinct(weights)

    def _guard_function(self, b: Any) -> None:
        b.equals(b.global_("CONSTANT"), CONSTANT)
        b.dict_keys(b.global_("TABLE"), TABLE)
        b.identity(b.builtin("len"), len)
        b.absent(b.global_("not_there"))
        b.equals(b.free(0, "offset"), 10)
        callee = b.global_("helper")
        b.identity(callee, helper)
        b.code(callee, helper.__code__)
        b.equals(b.default(callee, 0), 2.0)
        b.equals(b.kwdefault(callee, "shift"), 1)
        b.equals(b.global_of(callee, "CONSTANT"), CONSTANT)
        b.identity(b.global_("torch"), torch)
        b.equals(b.context_var(b.global_("VARIABLE")), 1)
        held = b.hold(torch.autograd.forward_ad, "torch.autograd.forward_ad")
        b.equals(b.attr(held, "_current_level"), -1)

    def passes(self) -> bool:
        return bool(self.guards.check(self.function, self.locals()))

    def settle(self) -> None:
        """Checks the guards until trails are recorded and hold."""
        for _ in range(4):
            assert self.passes(), self.guards.explain(self.function, self.locals())


class Patch:
    """Changes that are undone afterwards, with `pytest.MonkeyPatch` and further helpers."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()
        self._callbacks: list[Callable[[], Any]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._patch, name)

    def setattr(self, owner: Any, name: str, value: Any, raising: bool = True) -> None:
        """Like pytest's, which on undo deletes an attribute that was not in `__dict__`: a module's members are in other
        tables.
        """
        if isinstance(owner, nn.Module) and any(
            name in table for table in (owner._parameters, owner._buffers, owner._modules)
        ):
            before = getattr(owner, name)
            setattr(owner, name, value)
            self.callback(lambda: (owner.__dict__.pop(name, None), setattr(owner, name, before)))
        else:
            self._patch.setattr(owner, name, value, raising)

    def callback(self, undo: Callable[[], Any]) -> None:
        self._callbacks.append(undo)

    def enter(self, manager: Any) -> None:
        manager.__enter__()
        self.callback(lambda: manager.__exit__(None, None, None))

    def undo(self) -> None:
        while self._callbacks:
            self._callbacks.pop()()
        self._patch.undo()
