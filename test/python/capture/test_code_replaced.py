"""A function whose code is replaced is recompiled, as autoreload, profilers and tests do with functions."""

from __future__ import annotations

import functools
import gc
import types
import weakref

import dynamlir
import pytest
import torch

X = torch.arange(4.0)


def number(n):
    """A function with different code each time."""
    names: dict[str, types.FunctionType] = {}
    exec(f"def function(x, y=2):\n    return x * {n} + y", names)
    return names["function"]


def settled(compiled, *args, **kwargs):
    """Calls three times without a plain run; returns the result and the number of compilations."""
    before = len(dynamlir.compiles())
    results = [compiled(*args, **kwargs) for _ in range(3)]
    assert all(torch.equal(result, results[0]) for result in results)
    assert not dynamlir.fallbacks()
    return results[0], len(dynamlir.compiles()) - before


def test_each_code_is_compiled_once():
    function = number(3)
    compiled = dynamlir.compile(function)
    codes = [function.__code__, number(5).__code__, number(7).__code__]
    for seen in (1, 0):
        for n, code in zip((3, 5, 7), codes, strict=True):
            function.__code__ = code
            result, made = settled(compiled, X)
            assert torch.equal(result, X * n + 2) and made == seen


def test_code_that_is_set_through_what_was_compiled():
    compiled = dynamlir.compile(number(3))
    settled(compiled, X)
    compiled.__code__ = number(4).__code__
    assert torch.equal(settled(compiled, X)[0], X * 4 + 2)


def test_another_signature():
    def function(x):
        return x + 1

    def other(x, *rest, scale=3, **named):
        return x * scale + len(rest) + len(named)

    compiled = dynamlir.compile(function)
    settled(compiled, X)
    function.__code__, function.__kwdefaults__ = other.__code__, other.__kwdefaults__
    assert torch.equal(settled(compiled, X)[0], X * 3)
    assert torch.equal(settled(compiled, X, 1, 2, scale=2, more=0)[0], X * 2 + 3)
    with pytest.raises(TypeError, match="x"):
        compiled()


def test_what_binds_a_function():
    class Scale:
        def __init__(self, by):
            self.by = by

        def scaled(self, x):
            return x * self.by

    def other(self, x):
        return x + self.by

    method = dynamlir.compile(Scale(3).scaled)
    partial = dynamlir.compile(functools.partial(Scale.scaled, Scale(5)))
    assert torch.equal(settled(method, X)[0], X * 3) and torch.equal(settled(partial, X)[0], X * 5)
    Scale.scaled.__code__ = other.__code__
    assert torch.equal(settled(method, X)[0], X + 3) and torch.equal(settled(partial, X)[0], X + 5)


def test_under_a_backend_that_is_forced():
    function = number(3)
    compiled = dynamlir.compile(function)
    with torch.compiler.set_stance(force_backend="eager"):
        assert torch.equal(compiled(X), X * 3 + 2)
        function.__code__ = number(6).__code__
        assert torch.equal(compiled(X), X * 6 + 2)
    assert torch.equal(settled(compiled, X)[0], X * 6 + 2)


def test_code_that_breaks_graphs():
    function = number(3)

    def other(x, y=2):
        z = x * 5
        print(end="")
        return z + y

    compiled = dynamlir.compile(function)
    settled(compiled, X)
    function.__code__ = other.__code__
    with dynamlir.config.patch(on_plain="ignore"):
        for _ in range(2):
            assert torch.equal(compiled(X), X * 5 + 2)
    assert {event.reason for event in dynamlir.fallbacks()} == {"print"}


def test_fullgraph_holds_for_other_code():
    def other(x, y=2):
        print(end="")
        return x + y

    function = number(3)
    strict = dynamlir.compile(function, fullgraph=True)
    assert torch.equal(strict(X), X * 3 + 2)
    function.__code__ = other.__code__
    with pytest.raises(dynamlir.Unsupported, match="print"):
        strict(X)


def test_many_codes_one_after_the_other():
    function = number(0)
    compiled = dynamlir.compile(function)
    for n in range(12):
        # The former code dies, and the next one may reuse its address.
        function.__code__ = number(n).__code__
        assert torch.equal(compiled(X), X * n + 2)
    assert not dynamlir.fallbacks()


def test_nothing_is_kept_alive():
    function = number(3)
    compiled = dynamlir.compile(function)
    compiled(X)
    function.__code__ = number(4).__code__
    compiled(X)
    gone = weakref.ref(function)
    del function, compiled
    gc.collect()
    assert gone() is None


def test_reset_forgets_other_code():
    function = number(3)
    compiled = dynamlir.compile(function)
    compiled(X)
    function.__code__ = number(4).__code__
    settled(compiled, X)
    compiled.reset()
    assert settled(compiled, X)[1] == 1


def test_the_entries_of_all_codes_are_shown():
    function = number(3)
    compiled = dynamlir.compile(function)
    compiled(X)
    first = compiled._cache[0]
    function.__code__ = number(4).__code__
    compiled(X)
    assert len(compiled._cache) == 2
    for entry, factor in zip(compiled._cache, (3, 4), strict=True):
        # Each entry has the bytecode of the function that it was made from.
        assert entry.check_fn.check_all(X)
        assert torch.equal(entry.function(X), X * factor + 2)
        assert entry.check_fn({"x": X, "y": 2})
    assert first.code is compiled._cache[0].code
    compiled.reset()
    assert len(compiled._cache) == 0
