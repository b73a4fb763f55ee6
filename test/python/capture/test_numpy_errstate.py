"""Numpy's handling of floating-point errors (`numpy.errstate`) is an input of a call, although not an argument."""

from __future__ import annotations

import contextlib
import operator
import warnings

import dynamlir
import numpy as np
import pytest
import torch

X = torch.ones(2)
ZERO, ONE, LARGE, BYTE = np.float64(0.0), np.float64(1.0), np.float32(3e38), np.int8(127)
STATES = [{"all": "ignore"}, {"all": "raise"}, {"all": "warn"}, {"over": "raise", "divide": "ignore"}]


def caught(x, a):
    try:
        return x + float(np.log(a))
    except FloatingPointError:
        return x + 7
    except Exception:
        return x + 8


def happens(function, arguments):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = function(X, *arguments).tolist()
        except FloatingPointError as error:
            result = str(error)
    return result, sorted(str(one.message) for one in warned if one.category is RuntimeWarning)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (lambda x, k: x * float(np.log(k)), (ZERO,)),
        (lambda x, a, b: x * float(a / b), (ONE, ZERO)),
        (lambda x, a: x * float(a * a), (LARGE,)),
        (lambda x, a: x * float(a + a), (BYTE,)),
        (lambda x, a: x * float(pow(a, 3)), (LARGE,)),
        (lambda x, a, b: x * float(divmod(a, b)[0]), (ONE, ZERO)),
        (lambda x, a: x * float(sum([a, a])), (LARGE,)),
        (lambda x, a: x * float(np.prod([a, a])), (LARGE,)),
        (lambda x, a: x * float(operator.mul(a, a)), (LARGE,)),
        (caught, (ZERO,)),
    ],
)
def test_as_the_thread_says_at_the_call(function, arguments):
    compiled = dynamlir.compile(function)
    for state in STATES:
        with np.errstate(**state):
            assert happens(compiled, arguments) == happens(function, arguments), state


def test_what_has_no_error_is_a_constant():
    def scaled(x, k):
        return x * float(np.log(k) + k / 2)

    compiled = dynamlir.compile(scaled, fullgraph=True)
    for state in STATES:
        with np.errstate(**state):
            assert torch.equal(compiled(X, ONE), scaled(X, ONE))
            assert np.geterr() == {**np.geterr(), **({} if "all" in state else state)}


def test_the_state_is_the_callers_again():
    before = np.geterr(), np.geterrcall()
    with contextlib.suppress(dynamlir.Unsupported):
        dynamlir.compile(lambda x, k: x * float(np.log(k)), fullgraph=True)(X, ZERO)
    assert (np.geterr(), np.geterrcall()) == before
