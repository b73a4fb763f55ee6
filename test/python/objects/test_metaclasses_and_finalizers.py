"""The capture's own queries about objects are guarded: answers of metaclasses, and the weak references and finalizers
that notice that an object is gone.
"""

from __future__ import annotations

import collections.abc
import typing
import weakref

import dynamlir
import pytest
import torch
from torch import nn

X = torch.ones(2)


def marked(name):
    tensor = torch.ones(2)
    setattr(tensor, name, True)
    return tensor


class Mine(torch.Tensor):
    pass


class Even(type):
    wanted = 2

    def __instancecheck__(cls, value):
        return isinstance(value, torch.Tensor) and value.dim() == 1 and value.shape[0] % Even.wanted == 0


class OfEven(metaclass=Even):
    pass


@pytest.mark.parametrize(
    ("kind", "tensors"),
    [
        (nn.Buffer, [nn.Buffer(torch.ones(2)), torch.ones(2), marked("_is_buffer"), nn.Parameter(torch.ones(2))]),
        (nn.Parameter, [torch.ones(2), nn.Parameter(torch.ones(2)), marked("_is_param"), torch.ones(2)]),
        ((nn.Buffer, nn.Parameter), [torch.ones(2), nn.Buffer(torch.ones(2)), torch.ones(2)]),
        (nn.Buffer | int, [torch.ones(2), nn.Buffer(torch.ones(2)), torch.ones(2)]),
        (torch.Tensor, [torch.ones(2), nn.Parameter(torch.ones(2))]),
        (torch.FloatTensor, [torch.ones(2), torch.ones(2, dtype=torch.float64), torch.ones(2)]),
        (Mine, [torch.ones(2), nn.Parameter(torch.ones(2))]),
        (OfEven, [torch.ones(2), torch.ones(3), torch.ones(4), torch.ones(5)]),
        (collections.abc.Iterable, [torch.ones(2), nn.Parameter(torch.ones(2))]),
        (typing.SupportsFloat, [torch.ones(2)]),
    ],
)
def test_isinstance_of_a_tensor(kind, tensors):
    def scale(v):
        made = v * 2
        return made * 10 if isinstance(v, kind) else made * 100 if isinstance(made, kind) else made

    compiled = dynamlir.compile(scale)
    for tensor in tensors + tensors[::-1]:
        assert torch.equal(compiled(tensor), scale(tensor))


def test_what_a_metaclass_reads():
    compiled = dynamlir.compile(lambda x: x * 2 if isinstance(x, OfEven) else x)
    try:
        for wanted in (2, 3, 2):
            Even.wanted = wanted
            assert compiled(X).tolist() == ([2, 2] if wanted == 2 else [1, 1])
    finally:
        Even.wanted = 2


class Thing:
    pass


class Held:
    pass


def attribute(x, held):
    held.thing = None
    return x.add_(1)


def item(x, held):
    held["thing"] = None
    return x.add_(1)


def popped(x, held):
    held.pop("thing")
    return x.add_(1)


def cleared(x, held):
    held.clear()
    return x.add_(1)


def at_index(x, held):
    held[0] = None
    return x.add_(1)


def with_attribute(thing):
    held = Held()
    held.thing = thing
    return held


CASES = [
    (attribute, with_attribute),
    (item, lambda thing: {"thing": thing}),
    (popped, lambda thing: {"thing": thing}),
    (cleared, lambda thing: {"thing": thing}),
    (cleared, lambda thing: [thing]),
    (at_index, lambda thing: [thing]),
]


@pytest.mark.parametrize(("function", "held"), CASES)
@pytest.mark.parametrize("inside", [lambda thing: thing, lambda thing: [thing]])
def test_a_finalizer_that_comes_later(function, held, inside):
    def told(run):
        log = []
        for watched in (False, False, True, False, True):
            thing, x = Thing(), torch.zeros(1)
            if watched:
                weakref.finalize(thing, lambda x=x: log.append(x.item()))
            holder = held(inside(thing))
            del thing
            run(x, holder)
            log.append("called")
        return log

    assert told(dynamlir.compile(function)) == told(function)


def test_a_class_that_gets_a_finalizer_later():
    class Late:
        pass

    def told(run):
        log = []
        for watched in (False, False, True):
            x, held = torch.zeros(1), Held()
            held.thing = Late()
            if watched:
                Late.__del__ = lambda self, x=x: log.append(x.item())
            run(x, held)
            if watched:
                del Late.__del__
        return log

    assert told(dynamlir.compile(attribute)) == told(attribute)


def test_an_entry_for_what_is_not_there_yet():
    compiled = dynamlir.compile(attribute)
    log = []
    compiled(torch.zeros(1), Held())
    held, x = Held(), torch.zeros(1)
    held.thing = Thing()
    weakref.finalize(held.thing, lambda: log.append(x.item()))
    compiled(x, held)
    assert log == [0]
