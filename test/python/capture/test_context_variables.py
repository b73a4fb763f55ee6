"""Context variables that a compiled function sets, restores or reads have the values that they have in plain Python."""

from __future__ import annotations

import contextlib
import contextvars

import dynamlir
import pytest
import torch

X = torch.ones(2)
LEVEL: contextvars.ContextVar[int] = contextvars.ContextVar("LEVEL", default=1)
NAMED: contextvars.ContextVar[object] = contextvars.ContextVar("NAMED")


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def held():
    return LEVEL.get(None), NAMED.get(None)


def in_context(call, *args):
    context = contextvars.copy_context()
    result = context.run(call, *args)
    return [one.tolist() if isinstance(one, torch.Tensor) else one for one in (result, *context.run(held))]


def agree(function, *args, before=(None,)):
    compiled = dynamlir.compile(function, fullgraph=True)

    def ready(call, value):
        def run(*args):
            if value is not None:
                LEVEL.set(value)
            return call(*args)

        return run

    for value in before:
        assert in_context(ready(compiled, value), *args) == in_context(ready(function, value), *args)
    assert not dynamlir.fallbacks()


@contextlib.contextmanager
def level(by):
    token = LEVEL.set(LEVEL.get() + by)
    try:
        yield LEVEL.get()
    finally:
        LEVEL.reset(token)


def test_what_is_set_is_read():
    def sets(x):
        LEVEL.set(5)
        return x * LEVEL.get() + LEVEL.get(7)

    agree(sets, X)


def test_the_latest_value_stays():
    def sets(x):
        LEVEL.set(5)
        NAMED.set("first")
        LEVEL.set(6)
        return x * LEVEL.get()

    agree(sets, X)


def test_a_tensor_stays():
    def sets(x):
        NAMED.set(x * 2)
        return NAMED.get() + 1

    agree(sets, X)


def test_what_is_set_back_was_never_set():
    def sets(x):
        outer = LEVEL.set(5)
        inner = NAMED.set("inner")
        y = x * LEVEL.get()
        NAMED.reset(inner)
        LEVEL.reset(outer)
        return y * LEVEL.get() + (NAMED.get(None) is None)

    agree(sets, X, before=(None, 3, 4, 3))


def test_context_managers_nest():
    def nested(x):
        with level(2) as first, level(3) as second:
            y = x * first + second
        return y + LEVEL.get()

    agree(nested, X, before=(None, 3, 4, 5))


def test_a_value_that_is_set_after_one_that_was_set_back():
    def sets(x):
        token = NAMED.set(1)
        NAMED.reset(token)
        NAMED.set(2)
        return x

    agree(sets, X)


def test_two_names_for_one_variable():
    def sets(x, one, other):
        one.set(5)
        return x * other.get(2)

    compiled = dynamlir.compile(sets)
    for one, other in ((LEVEL, NAMED), (LEVEL, LEVEL), (LEVEL, NAMED)):
        assert in_context(compiled, X, one, other) == in_context(sets, X, one, other)


def returns_token(x):
    return LEVEL.set(5), x + 1


def test_a_token_that_leaves_is_pythons():
    compiled = dynamlir.compile(returns_token)

    def resets():
        token, result = compiled(X)
        assert (token.var, token.old_value, LEVEL.get()) == (LEVEL, contextvars.Token.MISSING, 5)
        LEVEL.reset(token)
        return result

    assert in_context(resets) == [[2.0, 2.0], None, None]


def test_what_was_there_before_is_pythons():
    def asks(x):
        return x + LEVEL.set(5).old_value

    compiled = dynamlir.compile(asks)

    def run(call, value):
        LEVEL.set(value)
        return call(X)

    for value in (2, 3):
        assert in_context(run, compiled, value) == in_context(run, asks, value)


def test_a_token_is_used_once():
    def twice(x):
        token = LEVEL.set(5)
        LEVEL.reset(token)
        LEVEL.reset(token)
        return x

    with pytest.raises(RuntimeError):
        in_context(dynamlir.compile(twice), X)


def test_a_module_that_torch_has_exported_is_one_graph():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU()).eval()
    exported = torch.export.export(model, (torch.ones(3, 2),)).module()
    compiled = dynamlir.compile(exported, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(torch.ones(3, 2)), model(torch.ones(3, 2)))
    with pytest.raises(AssertionError, match="Guard failed"):
        dynamlir.compile(exported)(torch.ones(4, 2))


def test_what_only_configures_dynamo_is_looked_into():
    @torch._dynamo.dont_skip_tracing
    def inner(x):
        LEVEL.set(4)
        return x * LEVEL.get()

    @torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)
    def outer(x):
        return inner(x) + 1

    agree(lambda x: outer(x) * 2, X)
