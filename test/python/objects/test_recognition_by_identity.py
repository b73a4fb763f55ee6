"""Objects are identified by identity and type: a copied or chosen name decides nothing.

Functions that claim to be torch's, ``re``'s or ``inspect``'s, and classes with the names of those of ``functools`` or
of C, are traced into like any other.
"""

from __future__ import annotations

import functools
import inspect
import re
import typing
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F

STATE = [2]
X = torch.ones(2)


def twice(function: Callable[..., Any], *args: Any) -> None:
    """Checks that compiled and plain calls agree while the state changes, and that the first one was captured."""
    compiled = dynamlir.compile(function)
    dynamlir.reset()
    for STATE[0] in (2, 3):
        assert torch.equal(compiled(X, *args), function(X, *args))
    assert not dynamlir.fallbacks(), dynamlir.fallbacks()


@functools.wraps(F.relu)
def like_relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * STATE[0]


@functools.wraps(torch.nn.functional.softmax)
def like_softmax(x: torch.Tensor) -> torch.Tensor:
    return x + STATE[0]


@functools.wraps(torch.Tensor.split)
def like_split(x: torch.Tensor) -> torch.Tensor:
    return x - STATE[0]


@functools.wraps(re.match)
def like_match(_pattern: str, _text: str) -> int:
    return STATE[0]


@functools.wraps(inspect.signature)
def like_signature(_of: Any) -> int:
    return STATE[0]


@functools.wraps(typing.cast)
def like_cast(_kind: Any, value: int) -> int:
    return value * STATE[0]


@torch.no_grad()
@pytest.mark.parametrize(
    "function",
    [
        lambda x: like_relu(x),
        lambda x: like_softmax(x),
        lambda x: like_split(x),
        lambda x: x * like_match("a", "b"),
        lambda x: x * like_signature(1),
        lambda x: x * like_cast(int, 2),
    ],
)
def test_a_wrapper_with_a_known_name_is_looked_into(function: Callable[..., Any]) -> None:
    twice(function)


def test_what_a_wrapper_writes_happens_at_each_call() -> None:
    log = []

    @functools.wraps(F.relu)
    def relu(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        return F.relu(x)

    compiled = dynamlir.compile(lambda x: relu(x))
    for _ in range(3):
        compiled(X)
    assert len(log) == 3


def named(name: str, **members: Any) -> Any:
    """An instance of a class of that name, which multiplies."""
    return type(name, (), {"__call__": lambda self, value: value * STATE[0], **members})()


@torch.no_grad()
@pytest.mark.parametrize(
    "callee",
    [
        named("partial", func=lambda value: value * 9, args=(), keywords={}),
        named("function"),
        named("method", __func__=lambda this, value: value * 9, __self__=1),
        named("_lru_cache_wrapper", __wrapped__=lambda value: value * 9),
        named("CompiledFunction", __wrapped__=lambda value: value * 9),
        named("builtin_function_or_method", __self__=torch._C._nn),
        named("method_descriptor", __objclass__=list, __name__="index"),
        named("ufunc"),
        named("itemgetter"),
        named("OpOverload"),
        named("OpOverloadPacket"),
    ],
    ids=lambda callee: type(callee).__name__,
)
def test_a_class_with_a_known_name_is_called_as_it_says(callee: Any) -> None:
    twice(lambda x: x * callee(2))


def test_the_arguments_of_a_class_called_partial_come_where_it_puts_them() -> None:
    class partial:
        def __init__(self, func: Any, *args: Any) -> None:
            self.func, self.args = func, args

        def __call__(self, *args: Any) -> Any:
            return self.func(*args, *self.args)

    last = partial(torch.sub, 5)
    assert dynamlir.compile(lambda x: last(x))(X).tolist() == [-4.0, -4.0]


def test_a_subclass_of_partial_is_called_as_it_says() -> None:
    class Tenfold(functools.partial):
        def __call__(self, *args: Any) -> Any:
            return super().__call__(*args) * 10

    class Plain(functools.partial):
        pass

    ten, one = Tenfold(torch.add, X), Plain(torch.add, X)
    for callee in (ten, one):
        assert torch.equal(dynamlir.compile(lambda x, callee=callee: callee(x))(X), callee(X))


def test_descriptors_of_classes_with_known_names() -> None:
    """A user's class named ``member_descriptor`` has no slot in memory, one named ``property`` no getter."""

    class Base:
        def __get__(self, owner: Any, kind: Any = None) -> Any:
            return STATE[0] if owner is not None else self

        def __set__(self, owner: Any, value: Any) -> None:
            raise AttributeError

    for name in ("member_descriptor", "getset_descriptor", "property", "staticmethod", "wrapper_descriptor"):
        descriptor = type(name, (Base,), {"__module__": "builtins"})()
        owner = type("Owner", (), {"k": descriptor})()
        twice(lambda x, owner=owner: x * owner.k)


def test_constants_of_classes_with_known_names() -> None:
    """Only torch's own dtypes are compared by address, and only its own devices by ``==``."""
    for name in ("dtype", "device", "Size"):
        kind = type(name, (), {"__module__": "torch", "__eq__": lambda self, other: True, "__hash__": lambda self: 1})
        first, second = kind(), kind()
        first.k, second.k = 2, 3
        compiled = dynamlir.compile(lambda x, c: x * c.k)
        assert [compiled(X, c)[0].item() for c in (first, second, first)] == [2, 3, 2]


def test_a_ufunc_of_the_users_is_not_numpys() -> None:
    numpy = pytest.importorskip("numpy")
    own = numpy.frompyfunc(lambda value: value * STATE[0], 1, 1)
    compiled, plain = dynamlir.compile(lambda x: x * own(2)), lambda x: x * own(2)
    for STATE[0] in (2, 3):
        assert torch.equal(compiled(X), plain(X))
