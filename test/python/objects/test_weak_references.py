"""Weak references read in a continuation after a graph break: an object that a variable has released is gone,
regardless of its former holder.
"""

import gc
import weakref

import dynamlir
import pytest
import torch


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    gc.collect()


class Plain:
    pass


def by_attribute(x):
    held, holder = Plain(), torch.ones(3)
    holder.held = held
    return holder, weakref.ref(held)


def by_attribute_of_an_attribute(x):
    held, holder = Plain(), torch.ones(3)
    holder.held = [held]
    print(end="")
    return holder, weakref.ref(held)


def by_its_history(x):
    holder = x.exp()
    held = Plain()
    holder.grad_fn.metadata["held"] = held
    return holder, weakref.ref(held)


def by_a_later_history(x):
    middle = x.exp()
    held = Plain()
    middle.grad_fn.metadata["held"] = held
    return middle.sin(), weakref.ref(held)


def by_a_list(x):
    holder = [Plain()]
    print(end="")
    return holder, weakref.ref(holder[0])


MAKERS = (by_attribute, by_attribute_of_an_attribute, by_its_history, by_a_later_history, by_a_list)


def demand(value, there):
    if (value is None) is there:
        raise ValueError(f"{value}")


def deleted(make, x):
    holder, reference = make(x)
    there = reference() is not None
    del holder
    return there, reference() is None


def assigned_anew(make, x):
    holder, reference = make(x)
    holder = x + 1
    return holder.sum(), reference() is None


def in_a_function_within(make, x):
    holder, reference = make(x)
    demand(reference(), True)
    del holder
    demand(reference(), False)
    return x * 2


def by_leaving_a_function(make, x):
    def within():
        _holder, reference = make(x)
        print(end="")
        return reference

    reference = within()
    y = x + 1
    return y, reference() is None


ASKERS = (deleted, assigned_anew, in_a_function_within, by_leaving_a_function)


@pytest.mark.parametrize("ask", ASKERS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("make", MAKERS, ids=lambda function: function.__name__)
def test_what_a_variable_has_let_go_of_is_gone(make, ask):
    right, ours = [], []
    for function, found in ((ask, right), (dynamlir.compile(ask), ours)):
        for _ in range(2):
            result = function(make, torch.ones(3, requires_grad=True))
            found.append([part.tolist() if isinstance(part, torch.Tensor) else part for part in result])
    assert ours == right


def test_what_still_lives_is_told():
    kept = Plain()

    def function(reference, x):
        other = x * 2
        print(end="")
        other = x + 1
        return other if reference() is kept else x

    compiled = dynamlir.compile(function)
    for _ in range(2):
        assert compiled(weakref.ref(kept), torch.ones(2)).tolist() == [2, 2]
