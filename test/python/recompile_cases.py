"""Changes between two calls of a compiled function: the cases of `test_recompile.py`.

A case creates a function and its arguments, and states what changes between two calls. It is registered with the number
of recompilations that the change costs: 1 if something that decided the capture differs, 0 otherwise.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor


@dataclass
class Scene:
    """A function, the arguments of its calls, and the change between them."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    change: Callable[[], Any]
    """May return a tuple of other arguments."""


@dataclass
class Tools:
    """Makes changes that are undone after the case."""

    patch: pytest.MonkeyPatch
    enter: Callable[[contextlib.AbstractContextManager[Any]], Any]


@dataclass
class Case:
    make: Callable[[Tools], Scene]
    recompilations: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.make.__name__


CASES: list[Case] = []


def costs(recompilations: int) -> Callable[[Callable[[Tools], Scene]], Callable[[Tools], Scene]]:
    """Registers a case."""

    def register(make: Callable[[Tools], Scene]) -> Callable[[Tools], Scene]:
        CASES.append(Case(make, recompilations))
        return make

    return register


X = torch.arange(12.0).reshape(3, 4)
SCALE = 2.0
UNRELATED = 1.0
TABLE = {"a": 1.0, "b": 3.0}
STEPS = [1.0, 2.0]
FLAGS = {"on"}


class Config:
    """Settings, some of which are class attributes."""

    offset = 5.0

    def __init__(self) -> None:
        self.scale = 2.0
        self.unused = 0

    def factor(self) -> float:
        return self.scale

    @property
    def doubled(self) -> float:
        return 2 * self.scale


def helper(x: Tensor) -> Tensor:
    return x + 1


def other_helper(x: Tensor) -> Tensor:
    return x - 1


# Globals, closures, defaults.


@costs(1)
def a_global_number(tools: Tools) -> Scene:
    return Scene(lambda x: x * SCALE, (X,), lambda: tools.patch.setitem(globals(), "SCALE", 3.0))


@costs(0)
def a_global_replaced_by_an_equal_number(tools: Tools) -> Scene:
    return Scene(lambda x: x * SCALE, (X,), lambda: tools.patch.setitem(globals(), "SCALE", float("2.0")))


@costs(0)
def a_global_that_is_not_read(tools: Tools) -> Scene:
    return Scene(lambda x: x * SCALE, (X,), lambda: tools.patch.setitem(globals(), "UNRELATED", 7.0))


@costs(1)
def an_integer_that_becomes_a_bool(tools: Tools) -> Scene:
    tools.patch.setitem(globals(), "SCALE", 1)
    return Scene(lambda x: x.long() * SCALE, (X,), lambda: tools.patch.setitem(globals(), "SCALE", True))


@costs(1)
def the_sign_of_zero(tools: Tools) -> Scene:
    return Scene(lambda x, zero: torch.atan2(x * 0.0, x * 0.0 + zero), (X, 0.0), lambda: (X, -0.0))


@costs(1)
def a_closure_cell(tools: Tools) -> Scene:
    bias = 1.0

    def change() -> None:
        nonlocal bias
        bias = 2.0

    return Scene(lambda x: x + bias, (X,), change)


@costs(1)
def a_default(tools: Tools) -> Scene:
    def function(x: Tensor, y: float = 2.0) -> Tensor:
        return x * y

    return Scene(function, (X,), lambda: setattr(function, "__defaults__", (4.0,)))


@costs(1)
def a_keyword_default(tools: Tools) -> Scene:
    def function(x: Tensor, *, y: float = 2.0) -> Tensor:
        return x * y

    return Scene(function, (X,), lambda: setattr(function, "__kwdefaults__", {"y": 4.0}))


@costs(1)
def a_global_function(tools: Tools) -> Scene:
    return Scene(lambda x: helper(x) * 2, (X,), lambda: tools.patch.setitem(globals(), "helper", other_helper))


@costs(1)
def the_code_of_a_global_function(tools: Tools) -> Scene:
    return Scene(lambda x: helper(x) * 2, (X,), lambda: tools.patch.setattr(helper, "__code__", other_helper.__code__))


@costs(1)
def the_default_of_a_global_function(tools: Tools) -> Scene:
    def inner(x: Tensor, y: float = 1.0) -> Tensor:
        return x + y

    return Scene(lambda x: inner(x) * 2, (X,), lambda: setattr(inner, "__defaults__", (3.0,)))


@costs(1)
def a_global_that_hides_a_builtin(tools: Tools) -> Scene:
    function = types.FunctionType((lambda x, items: x * len(items)).__code__, dict(globals()))
    return Scene(function, (X, [1, 2]), lambda: function.__globals__.__setitem__("len", lambda items: 10))


# Arguments that are not tensors.


@costs(1)
def another_number(tools: Tools) -> Scene:
    return Scene(lambda x, n: x * n, (X, 2), lambda: (X, 3))


@costs(0)
def an_equal_number(tools: Tools) -> Scene:
    return Scene(lambda x, n: x * n, (X, 2.5), lambda: (X, float("2.5")))


@costs(1)
def another_string(tools: Tools) -> Scene:
    return Scene(lambda x, how: x + 1 if how == "add" else x - 1, (X, "add"), lambda: (X, "sub"))


@costs(1)
def none_instead_of_a_tensor(tools: Tools) -> Scene:
    return Scene(lambda x, y: x if y is None else x + y, (X, X), lambda: (X, None))


@costs(1)
def the_length_of_a_list(tools: Tools) -> Scene:
    items = [X, X + 1]
    return Scene(lambda items: sum(items), (items,), lambda: items.append(X + 2))


@costs(0)
def another_tensor_in_a_list(tools: Tools) -> Scene:
    items = [X, X + 1]
    return Scene(lambda items: items[0] - items[1], (items,), lambda: items.__setitem__(1, X + 5))


@costs(1)
def a_number_in_a_global_list(tools: Tools) -> Scene:
    return Scene(lambda x: x * STEPS[1], (X,), lambda: tools.patch.setitem(globals(), "STEPS", [1.0, 9.0]))


@costs(1)
def a_value_of_a_dict(tools: Tools) -> Scene:
    return Scene(lambda x: x * TABLE["b"], (X,), lambda: tools.patch.setitem(TABLE, "b", 4.0))


@costs(0)
def a_value_of_a_dict_that_is_not_read(tools: Tools) -> Scene:
    return Scene(lambda x: x * TABLE["b"], (X,), lambda: tools.patch.setitem(TABLE, "a", 4.0))


@costs(0)
def a_key_more_in_a_dict_that_is_looked_up(tools: Tools) -> Scene:
    return Scene(lambda x: x * TABLE["b"], (X,), lambda: tools.patch.setitem(TABLE, "c", 4.0))


@costs(1)
def the_order_of_a_dict_that_is_walked(tools: Tools) -> Scene:
    table = {"a": 2.0, "b": 3.0}

    def function(x: Tensor) -> Tensor:
        for value in table.values():
            x = x * value + 1
        return x

    return Scene(function, (X,), lambda: table.__setitem__("a", table.pop("a")))


@costs(1)
def a_key_more_in_a_dict_that_is_walked(tools: Tools) -> Scene:
    table = {"a": X}
    return Scene(lambda table: [value + 1 for value in table.values()], (table,), lambda: table.update(b=X))


@costs(1)
def an_element_of_a_set(tools: Tools) -> Scene:
    flags = {"on"}
    return Scene(lambda x: x + 1 if "fast" in flags else x - 1, (X,), lambda: flags.add("fast"))


@costs(1)
def an_element_of_a_set_in_place_of_another(tools: Tools) -> Scene:
    flags = {"on", "slow"}

    def change() -> None:
        flags.remove("slow")
        flags.add("fast")

    return Scene(lambda x: x + 1 if "fast" in flags else x - 1, (X,), change)


# Objects and classes.


@costs(1)
def an_attribute(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.scale, (X,), lambda: setattr(config, "scale", 7.0))


@costs(0)
def an_attribute_that_is_not_read(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.scale, (X,), lambda: setattr(config, "unused", 7.0))


@costs(0)
def an_equal_object(tools: Tools) -> Scene:
    return Scene(lambda x, config: x * config.scale, (X, Config()), lambda: (X, Config()))


@costs(1)
def an_attribute_of_the_class(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x + config.offset, (X,), lambda: tools.patch.setattr(Config, "offset", 1.0))


@costs(1)
def an_attribute_of_the_class_hidden_by_the_instance(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x + config.offset, (X,), lambda: setattr(config, "offset", 1.0))


@costs(1)
def a_method(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.factor(), (X,), lambda: tools.patch.setattr(Config, "factor", lambda self: 9.0))


@costs(1)
def a_method_on_the_instance(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.factor(), (X,), lambda: setattr(config, "factor", lambda: 9.0))


@costs(1)
def a_property(tools: Tools) -> Scene:
    config = Config()
    change = lambda: tools.patch.setattr(Config, "doubled", property(lambda self: 1.0))  # noqa: E731
    return Scene(lambda x: x * config.doubled, (X,), change)


@costs(1)
def the_class_of_an_object(tools: Tools) -> Scene:
    class Half(Config):
        offset = 0.5

    config = Config()
    return Scene(lambda x: x + config.offset, (X,), lambda: setattr(config, "__class__", Half))


@costs(1)
def the_class_that_a_function_asks_for(tools: Tools) -> Scene:
    class Half(Config):
        offset = 0.5

    config = Config()
    return Scene(
        lambda x: x + 1 if config.__class__ is Config else x - 1, (X,), lambda: setattr(config, "__class__", Half)
    )


@costs(1)
def what_a_function_finds_in_a_dict_of_attributes(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.__dict__["scale"], (X,), lambda: setattr(config, "scale", 7.0))


@costs(1)
def a_dict_of_attributes_replaced(tools: Tools) -> Scene:
    config = Config()
    return Scene(lambda x: x * config.__dict__["scale"], (X,), lambda: setattr(config, "__dict__", {"scale": 7.0}))


@costs(1)
def a_class_that_begins_to_answer_for_itself(tools: Tools) -> Scene:
    def answer(self: Config, name: str) -> Any:
        return int if name == "__class__" else object.__getattribute__(self, name)

    config = Config()
    change = lambda: tools.patch.setattr(Config, "__getattribute__", answer, raising=False)  # noqa: E731
    return Scene(lambda x: x + 1 if config.__class__ is Config else x - 1, (X,), change)
