"""Writes through descriptors have plain Python's effect. Tensors that a graph creates are instances of legacy tensor
types (`torch.FloatTensor`) exactly if eager's are.
"""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from worlds import X, alike


class Doubles:
    """Has a `__set__` and no `__get__`: a read returns the value stored in the instance."""

    def __set__(self, owner, value):
        owner.__dict__["field"] += value * 2


class Checked:
    """The usual descriptor that keeps values in the instance under its own name."""

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owner, kind=None):
        return self if owner is None else owner.__dict__[self.name] + 1

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value * 2


class Deletes:
    def __delete__(self, owner):
        owner.gone = True


def world_of(descriptor: Any, function: Any, calls: int = 3):
    def world(compile_):
        owner = type("Owner", (), {"field": descriptor()})()
        owner.__dict__["field"] = 1
        compiled = compile_(function)
        return [(compiled(X, owner), dict(owner.__dict__)) for _ in range(calls)]

    return world


def test_a_setter_without_a_getter() -> None:
    def function(x, owner):
        owner.field = 10
        return x + 1

    alike(world_of(Doubles, function))

    def reads(x, owner):
        owner.field = 10
        return x + owner.field

    alike(world_of(Doubles, reads, calls=1))


def test_a_value_that_is_kept_under_the_name_of_its_descriptor() -> None:
    def function(x, owner):
        owner.field = 10
        y = x + owner.field
        owner.field = y.sum()
        return y * owner.field, owner.__dict__["field"]

    alike(world_of(Checked, function))


def test_what_only_deletes_does_not_take_writes() -> None:
    def world(compile_):
        owner = type("Owner", (), {"field": Deletes()})()

        def function(x):
            try:
                owner.field = 3
            except AttributeError:
                return x + 1
            return x

        return compile_(function)(X), dict(vars(owner))

    expected = world(lambda function: function)
    ours = world(dynamlir.compile)
    assert torch.equal(ours[0], expected[0]) and ours[1] == expected[1]


KINDS = [
    torch.FloatTensor,
    torch.DoubleTensor,
    torch.LongTensor,
    torch.Tensor,
    torch.nn.Parameter,
    (int, torch.HalfTensor),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.float16])
def test_tensor_types_of_what_the_graph_makes(kind: Any, dtype: torch.dtype) -> None:
    def function(x):
        return isinstance(x.to(dtype) * 2, kind), isinstance(x, kind)

    alike(lambda compile_: compile_(function)(X))
