"""Tensors as keys of existing dicts are found, regardless of the frame's writes to them; so are dynamic numbers as
keys.
"""

from __future__ import annotations

import collections
import weakref

import dynamlir
import pytest
import torch

X, A, B = torch.ones(2), torch.zeros(2), torch.zeros(2)
HELD = [{}, {A: 1}, {B: 1}, {B: 1, A: 2}, {A: 2, B: 1}, {"k": 1, A: 3}]


def values(of):
    return [value.tolist() if isinstance(value, torch.Tensor) else value for value in of]


def agree(function, made=dict):
    """Checks for each dict, twice, that result and dict are as plain Python leaves them."""
    compiled = dynamlir.compile(function)
    for held in HELD * 2:
        ours, theirs = made(held), made(held)
        assert values(compiled(X, ours, A)) == values(function(X, theirs, A)), held
        assert list(ours.values()) == list(theirs.values()) and all(a is b for a, b in zip(ours, theirs, strict=True))


def looks(x, d, p):
    return x + 1, p in d, d.get(p, 7), len(d)


def counts(x, d, p):
    d[p] = d.get(p, 0) + 1
    return x + d[p], p in d, len(d)


def writes(x, d, p):
    d[p] = 5
    return x + 1, p in d, d.get(p), d[p]


def writes_another(x, d, p):
    d["n"] = 5
    return x + 1, p in d, d.get(p), "n" in d


def defaults(x, d, p):
    d["n"] = 5
    return x + d.setdefault(p, 7), p in d, len(d)


def deletes(x, d, p):
    if p in d:
        del d[p]
    return x + 1, p in d, len(d)


@pytest.mark.parametrize("function", [looks, counts, writes, writes_another, defaults, deletes])
def test_an_existing_dict(function):
    agree(function)


@pytest.mark.parametrize("function", [looks, counts])
def test_an_ordered_dict(function):
    agree(function, collections.OrderedDict)


class Held:
    """A value that weak references can watch."""


@pytest.mark.parametrize("first", [0, 1, 2])
@pytest.mark.parametrize("later", [0, 1, 2])
def test_what_is_replaced_dies_when_it_would(first, later):
    """Regardless of the key, and of whether it was in the dict before."""
    keys = [A, B, torch.ones(3)]

    def world(compile_):
        died = []

        def puts(x, d, p):
            d[p] = 5
            return x + 1, len(died)

        compiled = compile_(puts)
        yield values(compiled(X, {A: Held(), B: Held()}, keys[first]))
        ours = {A: Held(), B: Held()}
        watched = weakref.ref(ours.get(keys[later], keys[later]), died.append)
        yield values(compiled(X, ours, keys[later]))
        yield len(died), watched() is keys[later]

    assert list(world(dynamlir.compile)) == list(world(lambda function: function))


def test_looks_are_captured():
    compiled = dynamlir.compile(looks, fullgraph=True)
    for held in HELD:
        assert values(compiled(X, dict(held), A)) == values(looks(X, dict(held), A))


FLOATS = [1.5, 2.5, 3.5, 1.5, 2.5, 1.5]


@pytest.mark.parametrize(
    "function",
    [
        lambda x, r: x * 2 if r in {1.5: "slow"} else x,
        lambda x, r: x * {1.5: 7}.get(r, 1),
        lambda x, r: x * 2 if 1.5 in {r: 7} else x,
        lambda x, r: x * {(r, 1): 7}.get((1.5, 1), 1),
    ],
)
def test_a_float_that_varies_as_a_key(function):
    compiled = dynamlir.compile(function)
    assert [compiled(X, rate).tolist() for rate in FLOATS] == [function(X, rate).tolist() for rate in FLOATS]


def test_a_float_that_varies_is_put_into_an_existing_dict():
    def put(x, d, rate):
        d[rate] = 2
        return x * 2 if 1.5 in d else x

    compiled = dynamlir.compile(put)
    for rate in FLOATS:
        ours, theirs = {}, {}
        assert torch.equal(compiled(X, ours, rate), put(X, theirs, rate)) and ours == theirs
