"""Programs that query whether they are compiled (`torch.compiler.is_compiling`): exceptions after that are eager's, and
modules call their hooks as in eager.
"""

from __future__ import annotations

import contextlib

import dynamlir
import pytest
import torch


def raises(x):
    if torch.compiler.is_compiling():
        raise RuntimeError("not here")
    return x + 1


def fails_at_a_lookup(x):
    y = x * 2
    return y + {False: 1}[torch.compiler.is_compiling()]


def raises_within(x):
    def function(y):
        if torch.compiler.is_dynamo_compiling():
            raise TypeError("not here")
        return y.sin()

    return function(x * 2) + 1


def fails_at_an_operator(x):
    return x.view(7 if torch.compiler.is_compiling() else -1) + 1


class Refuses(torch.nn.Module):
    def forward(self, x):
        if torch.compiler.is_compiling():
            raise ValueError("not here")
        return x * 3


refuses = Refuses()


def of_a_module(x):
    return refuses(x) + 1


@pytest.mark.parametrize("function", [raises, fails_at_a_lookup, raises_within, fails_at_an_operator, of_a_module])
def test_what_raises_only_because_it_is_compiled(function):
    x = torch.arange(3.0)
    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            assert torch.equal(compiled(x), function(x))
    assert dynamlir.fallbacks()


def test_what_raises_anyway():
    def function(x):
        if torch.compiler.is_compiling():
            x = x + 1
        raise KeyError("key")

    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            with pytest.raises(KeyError, match="key"):
                compiled(torch.ones(2))


class Checked(torch.nn.Module):
    def __init__(self, log):
        super().__init__()
        self.inner = torch.nn.Identity()
        self.log = log

    def forward(self, x, fail):
        x = self.inner(x * 2)
        if fail == "forward":
            raise ValueError(fail)
        return x


def hooked(log, fails):
    def before(module, args):
        log.append("before")
        if fails["at"] == "before":
            raise ValueError("before")

    def inner(module, args, result):
        log.append("inner")
        if fails["at"] == "inner":
            raise ValueError("inner")

    def after(module, args, result):
        log.append(("after", result is None))
        if fails["at"] == "after":
            raise ValueError("after")

    module = Checked(log)
    module.register_forward_pre_hook(before)
    module.inner.register_forward_hook(inner, always_call=True)
    module.register_forward_hook(after)
    module.register_forward_hook(lambda *_: log.append("always"), always_call=True)
    return module


@pytest.mark.parametrize("at", ["before", "forward", "inner", "after", ""])
def test_hooks_that_are_always_called(at):
    def function(module, x, at):
        try:
            return module(x, at) + 1
        except ValueError as error:
            return x - 1, str(error)

    def seen(function):
        log, fails = [], {"at": at}
        module = hooked(log, fails)
        results = [str(function(module, torch.ones(2), at)) for _ in range(2)]
        return results, log

    with dynamlir.config.patch(on_plain="ignore"):
        assert seen(dynamlir.compile(function)) == seen(function)


def test_modules_with_hooks_are_one_graph():
    log: list[str] = []
    module = hooked(log, {"at": ""})
    x = torch.ones(2)
    compiled = dynamlir.compile(lambda x: module(x, "") + 1, fullgraph=True)
    for _ in range(2):
        log.clear()
        assert torch.equal(compiled(x), x * 2 + 1)
        assert log == ["before", "inner", ("after", False), "always"]


def caught(x):
    try:
        if torch.compiler.is_compiling():
            raise ValueError("not here")
        return x + 1
    except ValueError:
        return x + 2


def suppressed(x):
    def checked(compiles):
        return {False: 1}[compiles]

    with contextlib.suppress(KeyError):
        return x + checked(torch.compiler.is_dynamo_compiling())
    return x * 5


def caught_further_out(x):
    def function(y):
        if torch.compiler.is_exporting() or torch.compiler.is_compiling():
            raise TypeError("not here")
        return y.sin()

    try:
        return function(x * 2) + 1
    except TypeError:
        return x


def caught_at_an_operator(x):
    try:
        return x.view(7 if torch.compiler.is_compiling() else -1) + 1
    except RuntimeError:
        return x - 1


class Careful(torch.nn.Module):
    def forward(self, x):
        try:
            if torch.compiler.is_compiling():
                raise AssertionError
        except AssertionError:
            return x
        return x * 3


careful = Careful()


def caught_in_a_module(x):
    return careful(x) + 1


@pytest.mark.parametrize(
    "function", [caught, suppressed, caught_further_out, caught_at_an_operator, caught_in_a_module]
)
def test_what_is_caught_that_was_raised_because_it_is_compiled(function):
    x = torch.arange(3.0)
    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))


def broken_before_it_raises(x):
    if torch.compiler.is_compiling():
        x = x * 2
        torch._dynamo.graph_break()
        raise ValueError("not here")
    return x + 1


def asked_before_a_break(x):
    compiles = torch.compiler.is_compiling()
    print(end="")
    if compiles:
        raise ValueError("not here")
    return x + 1


def asked_within_before_a_break(x):
    def function(y):
        return [] if torch.compiler.is_dynamo_compiling() else [y]

    found = function(x * 2)
    print(end="")
    return found.pop() + 1


@pytest.mark.parametrize("function", [broken_before_it_raises, asked_before_a_break, asked_within_before_a_break])
def test_what_raises_after_a_break_because_it_is_compiled(function):
    x = torch.arange(3.0)
    with dynamlir.config.patch(on_plain="ignore"):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            assert torch.equal(compiled(x), function(x))


def test_what_is_caught_anyway_leaves_the_answer():
    def function(x):
        told = torch.compiler.is_compiling()
        try:
            return x + {}[1]
        except KeyError:
            return x + (1 if told else 2)

    x = torch.arange(3.0)
    assert torch.equal(dynamlir.compile(function, fullgraph=True)(x), x + 1)
