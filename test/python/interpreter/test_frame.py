"""The compiled callable: it binds arguments as Python does, looks like a function, and leaves nothing behind."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor, nn

X, Y = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)


def positional_only(x: Tensor, /, y: Tensor) -> Tensor:
    return x - y


def with_default(x: Tensor, y: float = 2.0) -> Tensor:
    return x * y


def keyword_only(x: Tensor, *, y: Tensor, scale: float = 3.0) -> Tensor:
    return x + y * scale


def variadic(x: Tensor, *rest: Tensor, **named: Tensor) -> Tensor:
    for other in rest:
        x = x + other
    for other in named.values():
        x = x * other
    return x


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (positional_only, (X, Y), {}),
    (positional_only, (X,), {"y": Y}),
    (with_default, (X,), {}),
    (with_default, (X, 4.0), {}),
    (with_default, (), {"y": 5.0, "x": X}),
    (keyword_only, (X,), {"y": Y}),
    (keyword_only, (X,), {"scale": 0.5, "y": Y}),
    (variadic, (X,), {}),
    (variadic, (X, Y, Y), {}),
    (variadic, (X,), {"a": Y, "b": X}),
    (variadic, (X, Y), {"b": Y}),
]

REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (positional_only, (), {"x": X, "y": Y}),
    (positional_only, (X, Y, Y), {}),
    (with_default, (), {}),
    (with_default, (X,), {"x": X}),
    (with_default, (X,), {"unknown": 1}),
    (keyword_only, (X, Y), {}),
    (keyword_only, (X,), {}),
    (variadic, (), {}),
    (variadic, (X,), {"x": X}),
]


@pytest.mark.parametrize("at", range(len(CALLS)))
@torch.no_grad()
def test_arguments_are_bound_as_python_binds_them(at: int) -> None:
    function, args, kwargs = CALLS[at]
    compiled = dynamlir.compile(function)
    for _ in range(3):
        torch.testing.assert_close(compiled(*args, **kwargs), function(*args, **kwargs))
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("at", range(len(REFUSED)))
def test_what_python_refuses_raises_pythons_error(at: int) -> None:
    function, args, kwargs = REFUSED[at]
    with pytest.raises(TypeError) as expected:
        function(*args, **kwargs)
    with pytest.raises(TypeError) as seen:
        dynamlir.compile(function)(*args, **kwargs)
    assert str(seen.value) == str(expected.value)


@torch.no_grad()
def test_a_changed_default_is_seen() -> None:
    def function(x: Tensor, y: float = 2.0) -> Tensor:
        return x * y

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X * 2)
    function.__defaults__ = (3.0,)
    torch.testing.assert_close(compiled(X), X * 3)


@torch.no_grad()
def test_a_changed_code_is_another_function() -> None:
    def function(x: Tensor) -> Tensor:
        return x + 1

    compiled = dynamlir.compile(function)
    torch.testing.assert_close(compiled(X), X + 1)
    function.__code__ = (lambda x: x + 2).__code__
    torch.testing.assert_close(compiled(X), X + 2)


@torch.no_grad()
def test_it_binds_as_a_method() -> None:
    class Scaler:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @dynamlir.compile
        def apply(self, x: Tensor) -> Tensor:
            return x * self.scale

    two, three = Scaler(2.0), Scaler(3.0)
    for _ in range(2):
        torch.testing.assert_close(two.apply(X), X * 2)
        torch.testing.assert_close(three.apply(X), X * 3)
    assert isinstance(two.apply, types.MethodType)
    torch.testing.assert_close(Scaler.apply(two, X), X * 2)


def test_it_looks_like_what_it_wraps() -> None:
    compiled = dynamlir.compile(with_default)
    assert compiled.__name__ == "with_default" and compiled.__wrapped__ is with_default
    assert repr(compiled).startswith("<dynamlir.compile of <function with_default")
    assert callable(compiled) and weakref.ref(compiled)() is compiled
    with pytest.raises(TypeError):
        type(compiled)()


@torch.no_grad()
def test_an_entry_can_be_looked_at() -> None:
    compiled = dynamlir.compile(with_default)
    compiled(X)
    entry = compiled._cache[0]
    guards, run = entry
    assert entry.check_fn is guards and callable(run)
    assert guards({"x": X, "y": 2.0}) and not guards({"x": X, "y": 3.0})
    assert guards.check_all(X) and not guards.check_all(X, 3.0)
    (failure,) = guards.failing_guards(X, 3.0)
    assert repr(failure) == "Guard(L['y'] == 2.0)"
    assert (failure.source, failure.expected, failure.seen) == ("L['y']", "2.0", "3.0")
    with pytest.raises(IndexError):
        compiled._cache[1]


@torch.no_grad()
def test_reset_forgets_the_entries() -> None:
    compiled = dynamlir.compile(with_default)
    compiled(X)
    assert len(compiled._cache) == 1
    compiled.reset()
    assert len(compiled._cache) == 0
    torch.testing.assert_close(compiled(X), X * 2)
    assert len(compiled._cache) == 1


@torch.no_grad()
def test_a_recursive_call_uses_the_cache_that_it_is_called_from() -> None:
    def function(x: Tensor, depth: int) -> Tensor:
        return compiled(x, depth - 1) + 1 if depth else x * 2

    compiled = dynamlir.compile(function)
    for _ in range(2):
        torch.testing.assert_close(compiled(X, 2), X * 2 + 2)


@torch.no_grad()
def test_models_and_callables_die() -> None:
    model = nn.Linear(3, 3)
    compiled = dynamlir.compile(model)
    compiled(X)
    references = [weakref.ref(model), weakref.ref(model.weight), weakref.ref(compiled)]
    del model, compiled
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


@torch.no_grad()
def test_a_cycle_through_the_callable_is_collected() -> None:
    class Owner:
        def apply(self, x: Tensor) -> Tensor:
            return x + 1

    owner = Owner()
    owner.apply = dynamlir.compile(owner.apply)
    owner.apply(X)
    reference = weakref.ref(owner)
    del owner
    gc.collect()
    assert reference() is None
