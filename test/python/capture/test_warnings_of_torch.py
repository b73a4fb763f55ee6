"""A warning from torch's own Python code is given as often, where and when eager gives it."""

from __future__ import annotations

import threading
import warnings

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from dynamlir import fake_warnings


@pytest.fixture(autouse=True)
def without_ours():
    with dynamlir.config.patch(on_plain="ignore"):
        yield


X = torch.tensor([[0.25, 0.75], [0.5, 0.5]])
IMAGE = torch.arange(4.0).reshape(1, 1, 2, 2)


def divergence(x):
    return F.kl_div(x.log(), x) + 1


def implicit_dimension(x):
    return F.softmax(x * 2) + 1


def sampled(x):
    return F.grid_sample(IMAGE, x.reshape(1, 1, 2, 2)) + 1


def broadcast(x):
    return F.mse_loss(x, x[:1]) + 1


def replaced_name(x):
    return F.upsample(IMAGE, scale_factor=2, mode="nearest") + x.sum()


PROGRAMS = [divergence, implicit_dimension, sampled, broadcast, replaced_name]


def shown(found):
    return [(warning.category, str(warning.message), warning.filename, warning.lineno) for warning in found]


def recorded(function, action, calls=3):
    """The warnings of each of several calls, under a filter action that is set around them."""
    results = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter(action)
        for _ in range(calls):
            before = len(found)
            result = function(X)
            results.append((result.tolist(), shown(found[before:])))
    return results


def both(function):
    def copied(x):
        return function(x)

    return function, dynamlir.compile(copied)


@pytest.mark.parametrize("program", PROGRAMS)
def test_each_time(program):
    eager, compiled = both(program)
    assert len(recorded(eager, "always")[2][1]) >= 1
    assert recorded(compiled, "always") == recorded(eager, "always")


@pytest.mark.parametrize("action", ["default", "ignore", "once"])
def test_as_the_filters_have_it(action):
    """At the first call and the calls after it; the warning does not break the graph."""
    for program in (divergence, sampled):
        eager, compiled = both(program)
        assert recorded(compiled, action) == recorded(eager, action)
        assert not dynamlir.fallbacks()


def test_one_that_is_an_error():
    eager, compiled = both(divergence)
    for function in (eager, compiled, compiled):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="batch size"):
                function(X)
    assert compiled(X).tolist() == eager(X).tolist()


def test_a_handler_of_the_program():
    def f(x):
        try:
            return divergence(x)
        except UserWarning as warning:
            return x * len(str(warning))

    compiled = dynamlir.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [compiled(X).tolist() for _ in range(2)] == [f(X).tolist()] * 2


def test_filters_within_the_program():
    def f(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            y = x + 1
            before = len(found)
            z = F.kl_div(y.log(), y)
            return z * 2, before, len(found)

    compiled = dynamlir.compile(f)
    for _ in range(3):
        assert compiled(X)[1:] == f(X)[1:] == (0, 1)


def test_those_of_other_threads_meanwhile():
    """They are given as usual, with their own lines."""

    def elsewhere():
        warnings.warn("from elsewhere", FutureWarning, stacklevel=1)

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with fake_warnings.heard():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join(60)
    line = elsewhere.__code__.co_firstlineno + 1
    assert shown(found) == [(FutureWarning, "from elsewhere", __file__, line)]
    assert warnings.warn is fake_warnings._genuine
