"""Queries about containers of tensors (their type, their keys, the item at an index) do not depend on the tensors, and
are captured whole.
"""

from __future__ import annotations

import collections

import dynamlir
import pytest
import torch
from torch import nn

X = torch.ones(2)
PAIR = collections.namedtuple("PAIR", "left right")


class Output(collections.OrderedDict):
    """An output class as libraries define it: items are also attributes."""

    def __getattr__(self, name):
        return self[name]


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def is_whole(function, *args, **kwargs):
    expected = function(*args, **kwargs)
    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(*args, **kwargs), expected)
    assert not dynamlir.fallbacks()


class Keeps(nn.Module):
    def __init__(self, make) -> None:
        super().__init__()
        self.make = make

    def forward(self, x):
        self.kept = self.make(x * 2)
        return x + 1


@pytest.mark.parametrize(
    "make",
    [
        lambda y: [y],
        lambda y: (y, 1),
        lambda y: {"one": [y]},
        lambda y: PAIR(y, y),
    ],
    ids=["list", "tuple", "dict", "named tuple"],
)
def test_a_module_keeps_a_container_of_tensors(make):
    module = Keeps(make)
    is_whole(module, X)
    kept = module.kept
    assert type(kept) is type(make(X))
    first = kept["one"][0] if isinstance(kept, dict) else kept[0]
    assert torch.equal(first, X * 2)


@pytest.mark.parametrize("kind", [nn.Parameter, nn.Buffer, torch.Tensor, nn.parameter.UninitializedParameter])
def test_what_a_container_is_does_not_depend_on_what_it_holds(kind):
    def asks(x, given):
        own = [x * 2]
        return x if isinstance(own, kind) or isinstance(given, kind) else own[0] + given[0]

    is_whole(asks, X, [X * 3])


def test_another_type_of_container_is_asked_again():
    def asks(x, given):
        return x if isinstance(given, (nn.Parameter, tuple)) else x + 1

    compiled = dynamlir.compile(asks)
    assert torch.equal(compiled(X, [X]), X + 1)
    assert torch.equal(compiled(X, (X,)), X)
    assert torch.equal(compiled(X, nn.Parameter(X)), X)


def takes(x, **kwargs):
    kwargs.pop("missing", None)
    kwargs.setdefault("by", 2)
    more = dict(kwargs)
    more.update(kwargs)
    return x * more["by"] + more.get("encoded")["hidden"] + ("other" in more)


def lists(x, **kwargs):
    todo = [*kwargs.values(), 1]
    todo[0] = todo.pop(0)
    del todo[1:]
    return x + todo[-1]["hidden"]


def filled(**items):
    return collections.defaultdict(list, items)


KINDS = [dict, collections.OrderedDict, Output, filled, collections.Counter, collections.UserDict]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("function", [takes, lists])
def test_an_argument_with_tensors_goes_through_the_functions_own_containers(function, kind):
    is_whole(function, X, encoded=kind(hidden=X * 5))


def test_keys_are_still_compared():
    class Key:
        pass

    one, two = Key(), Key()

    def asks(x, first, second):
        own = {first: 1}
        return x * own.get(second, 5)

    compiled = dynamlir.compile(asks)
    for first, second, by in ((one, one, 1), (one, two, 5), (two, two, 1)):
        assert torch.equal(compiled(X, first, second), X * by)
