"""What is told that it is compiled: a raise behind that is eager's, and modules call their hooks as eager does."""

from __future__ import annotations

import dynamlir
import pytest
import torch

pytestmark = pytest.mark.native


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
