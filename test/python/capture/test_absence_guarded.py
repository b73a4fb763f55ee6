"""Absence is guarded: of methods that a class gains later, of other bases, of attributes that are stored on a tensor.

Belongs to `test_everything_guarded.py`, and works like it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_everything_guarded import Made, Step, X, check

CASES: dict[str, Callable[[], Made]] = {}


def case(make: Callable[[], Made]) -> Callable[[], Made]:
    CASES[make.__name__] = make
    return make


# A name that is looked up must exist, also if its value is unused.


class Holder:
    """Has a value, which may be removed."""


@case
def a_global_that_goes() -> Made:
    space: dict[str, Any] = {"SCALE": 2}
    exec("def function(x):\n    SCALE\n    return x + 1", space)
    return space["function"], [lambda: (X,), lambda: (space.pop("SCALE"), (X,))[1]]


@case
def a_variable_of_a_closure_that_goes() -> Made:
    scale = 2

    def function(x: torch.Tensor) -> torch.Tensor:
        scale  # noqa: B018
        return x + 1

    def step() -> tuple[Any, ...]:
        nonlocal scale
        del scale
        return (X,)

    return function, [lambda: (X,), step]


@case
def an_attribute_that_goes() -> Made:
    holder = Holder()
    holder.scale = 2

    def function(x: torch.Tensor) -> torch.Tensor:
        holder.scale  # noqa: B018
        return x + 1

    return function, [lambda: (X,), lambda: (delattr(holder, "scale"), (X,))[1]]


@case
def a_key_that_goes() -> Made:
    table = {"scale": 2, "other": 3}

    def function(x: torch.Tensor) -> torch.Tensor:
        table["scale"]
        return x + 1

    return function, [lambda: (X,), lambda: (table.pop("scale"), (X,))[1]]


@case
def an_item_that_goes() -> Made:
    items = [1, 2]

    def function(x: torch.Tensor) -> torch.Tensor:
        items[1]
        return x + 1

    return function, [lambda: (X,), lambda: (items.pop(), (X,))[1]]


@case
def an_object_that_goes() -> Made:
    space: dict[str, Any] = {"holder": Holder(), "torch": torch}
    exec("def function(x, flag=False):\n    kept = holder, torch\n    return x + 1", space)
    return space["function"], [lambda: (X,), lambda: (space.pop("holder"), (X,))[1]]


# Classes of objects that the function creates, and of exceptions that it raises.


def gaining(function: Callable[[torch.Tensor, type], Any], name: str) -> Made:
    """Calls before and after a class gains a method."""

    class Made:
        pass

    def give() -> tuple[Any, ...]:
        setattr(Made, name, lambda _, other: other is not None)
        return (X,)

    return (lambda x: function(x, Made)), [lambda: (X,), give, lambda: (X,)]


@case
def an_eq_that_comes_later() -> Made:
    return gaining(lambda x, new: x * (2 if new() == new() else 3), "__eq__")


@case
def an_eq_that_comes_later_beneath_in() -> Made:
    return gaining(lambda x, new: x * (2 if new() in [1, 2] else 3), "__eq__")


@case
def a_ne_that_comes_later() -> Made:
    return gaining(lambda x, new: x * (2 if new() != 1 and not new() != None else 3), "__ne__")  # noqa: E711, SIM202


@case
def a_lt_that_comes_later() -> Made:
    def ordered(x: torch.Tensor, new: type) -> torch.Tensor:
        try:
            return x * (2 if new() < new() else 3)
        except TypeError:
            return x * 4

    return gaining(ordered, "__lt__")


@case
def the_bases_of_an_exception() -> Made:
    class One(Exception):
        pass

    class Other(Exception):
        pass

    class Raised(One):
        pass

    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            raise Raised
        except Other:
            return x * 2
        except One:
            return x * 3

    def rebase() -> tuple[Any, ...]:
        Raised.__bases__ = (Other,)
        return (X,)

    return function, [lambda: (X,), rebase]


@case
def the_annotations_of_a_function() -> Made:
    def target(a: int) -> None: ...

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (2 if inspect.signature(target).parameters["a"].annotation in (int, "int") else 3)

    return function, [lambda: (X,), lambda: (setattr(target, "__annotations__", {"a": float}), (X,))[1]]


# Attributes stored on a tensor.


def stored(name: str, *values: Any) -> list[Step]:
    """Calls with tensors that have these values under a name; None for no attribute."""

    def step(value: Any) -> Step:
        x = X.clone()
        if value is not None:
            setattr(x, name, value)
        return lambda: (x,)

    return [step(value) for value in values]


@case
def a_method_hidden_by_an_attribute_that_comes() -> Made:
    return (lambda x: x * x.sum()), stored("sum", None, lambda: 5, lambda: 7)


@case
def a_method_hidden_by_an_attribute_that_goes() -> Made:
    return (lambda x: x * x.sum()), stored("sum", lambda: 5, None)


@case
def whether_a_tensor_has_an_attribute() -> Made:
    return (lambda x: x * (2 if hasattr(x, "scale") else 3)), stored("scale", None, 4, None)


@case
def whether_a_tensor_had_an_attribute() -> Made:
    return (lambda x: x * (2 if hasattr(x, "scale") else 3)), stored("scale", 4, None, 4)


@case
def an_attribute_of_a_tensor() -> Made:
    return (lambda x: x * getattr(x, "scale", 9)), stored("scale", 4, 5, None)


@case
def whether_an_object_can_be_called() -> Made:
    class Later:
        pass

    it = Later()
    steps = [lambda: (X,), lambda: (setattr(Later, "__call__", lambda self: 1), (X,))[1]]
    return (lambda x: x + callable(it)), steps


def tensors(*make: Callable[[], torch.Tensor]) -> list[Step]:
    return [lambda each=each: (each(),) for each in make]  # type: ignore[misc]


def with_gradient() -> torch.Tensor:
    x = X.clone()
    x.grad = torch.full_like(x, 2)
    return x


def of_an_operation() -> torch.Tensor:
    with torch.enable_grad():
        return X.clone().requires_grad_() * 1


@case
def a_gradient_that_a_tensor_comes_to_have() -> Made:
    return (lambda x: x + (1 if x.grad is None else x.grad)), tensors(X.clone, with_gradient, X.clone)


@case
def a_gradient_under_its_other_name() -> Made:
    return (lambda x: x + (1 if x._grad is None else x._grad)), tensors(X.clone, with_gradient, X.clone)


@case
def whether_a_tensor_is_a_leaf() -> Made:
    return (lambda x: x + x.is_leaf), tensors(X.clone, X.clone().requires_grad_, of_an_operation)


@pytest.mark.parametrize("name", CASES)
def test_absence_guarded(name: str) -> None:
    check(CASES[name], captured=True)
