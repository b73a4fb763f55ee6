"""Functions whose globals have no builtins, or different ones, run as in plain Python."""

from __future__ import annotations

import collections

import dynamlir
import pytest
import torch

X = torch.ones(2)
PAIR = collections.namedtuple("PAIR", "left right")


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def made(source, **names):
    return eval(source, {"__builtins__": {}, **names})


@pytest.mark.parametrize(
    "function",
    [
        made("lambda x: x + 1"),
        made("lambda x: [y * 2 for y in (x, x)][1]"),
        made("lambda x: f(x) if {} == {} else x", f=torch.sin),
        made("lambda x: (x.shape[0], x)[1].sum().abs()"),
        made("lambda x: (lambda *a, **k: a[0] * k['by'])(x, by=3)"),
    ],
)
def test_they_are_captured(function):
    compiled = dynamlir.compile(function, fullgraph=True)
    assert torch.equal(compiled(X), function(X))


def test_imports_of_the_users_are_not_called():
    called = []

    def importing(*args):
        called.append(args)
        return __import__(*args)

    function = eval("lambda x: x.clamp(0, 1) + 1", {"__builtins__": {"__import__": importing}})
    assert torch.equal(dynamlir.compile(function, fullgraph=True)(X), X + 1)
    assert called == []


def test_a_named_tuple_is_made_after_a_break():
    def pair(x):
        y = x * 2
        print(end="")
        return PAIR(y, 1)

    result = dynamlir.compile(pair)(X)
    assert type(result) is PAIR and torch.equal(result.left, X * 2)
    assert [event.reason for event in dynamlir.fallbacks()] == ["print"]
