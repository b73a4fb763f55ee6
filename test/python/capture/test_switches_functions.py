"""Torch's switches for single functions: kept out of graphs, put into them whole, constant, replaced."""

from __future__ import annotations

import functools
import operator
import zlib

import dynamlir
import pytest
import torch
from switched import A, B, is_compiled, only_reason, tells
from torch import nn

pytestmark = pytest.mark.whole


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


# -- disable


@torch.compiler.disable(reason="it counts")
def counts(x):
    return x * 2


@torch.compiler.disable(recursive=False, reason="it counts")
def counts_alone(x):
    return x * 2


@torch._dynamo.disable
def for_no_reason(x):
    return x * 2


@pytest.mark.parametrize(
    ("disabled", "why"), [(counts, ": it counts"), (counts_alone, ": it counts"), (for_no_reason, "")]
)
def test_a_disabled_callee_ends_the_capture(disabled, why):
    def function(x):
        return disabled(x + 1)

    compiled = dynamlir.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(A), (A + 1) * 2)
    assert only_reason() == ("disabled", f"{__name__}.{disabled.__name__}, by torch.compiler.disable{why}")
    with pytest.raises(dynamlir.Unsupported, match=f"{disabled.__name__}.*torch.compiler.disable{why}"):
        dynamlir.compile(function, fullgraph=True)(A)


@pytest.mark.parametrize("disabled", [counts, counts_alone, for_no_reason])
def test_a_disabled_function_runs_plain(disabled):
    compiled = dynamlir.compile(disabled)
    assert torch.equal(compiled(A), A * 2)
    assert only_reason()[0] == "disabled"
    with pytest.raises(dynamlir.Unsupported, match=disabled.__name__):
        dynamlir.compile(disabled, fullgraph=True)(A)


def test_only_calls_that_come_to_it_are_plain():
    def function(x, counting):
        return counts(x) if counting else x + 1

    compiled = dynamlir.compile(function)
    assert torch.equal(compiled(A, True), A * 2)
    assert torch.equal(compiled(A, False), A + 1)
    assert [entry.compiled is None for entry in compiled._cache] == [True, False]


def test_a_disabled_forward():
    class Model(nn.Module):
        @torch.compiler.disable(reason="by hand")
        def forward(self, x):
            return x * 3

    assert torch.equal(dynamlir.compile(Model())(A), A * 3)
    assert "forward, by torch.compiler.disable: by hand" in only_reason()[1]


def test_a_disabled_module_inside():
    inner = nn.Linear(4, 4)
    model = nn.Sequential(torch.compiler.disable(inner, reason="by hand"))
    assert torch.equal(dynamlir.compile(model)(A), inner(A))
    assert "Linear, by torch.compiler.disable: by hand" in only_reason()[1]


def test_a_disabled_class_is_not_made_in_a_graph():
    @torch.compiler.disable
    class Scale:
        def __init__(self, by):
            self.by = by

    assert torch.equal(dynamlir.compile(lambda x: x * Scale(3).by)(A), A * 3)
    assert only_reason()[0] == "disabled"


def test_disabling_what_is_compiled_leaves_what_it_was_made_of():
    compiled = dynamlir.compile(tells)
    assert not is_compiled(torch.compiler.disable(compiled))
    assert is_compiled(compiled)

    @functools.wraps(compiled)
    def doubled(x):
        value, captured = compiled(x)
        return value * 2, captured

    value, _ = torch.compiler.disable(doubled)(A)
    assert torch.equal(value, (A + 1) * 2), "a wrapper of the user's is not a wrapper of ours"


def test_disabling_a_compiled_module():
    model = nn.Linear(4, 4)
    compiled = dynamlir.compile(model)
    assert torch.equal(torch.compiler.disable(compiled)(A), model(A))
    assert len(compiled._cache) == 0


@pytest.mark.parametrize("break_here", [torch._dynamo.graph_break, torch._dynamo.skip_frame])
def test_a_break_that_is_asked_for(break_here):
    def function(x):
        break_here()
        return x + 1

    assert torch.equal(dynamlir.compile(function)(A), A + 1)
    assert only_reason() == (
        "disabled",
        f"torch._dynamo.decorators.{break_here.__name__}, by torch._dynamo.disallow_in_graph",
    )


def test_an_operation_that_is_not_to_be_in_graphs():
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert torch.equal(dynamlir.compile(lambda x: torch.sub(x, 1))(A), A - 1)
        assert "sub, by torch._dynamo.disallow_in_graph" in only_reason()[1]
    finally:
        torch._dynamo.trace_rules._disallowed_callable_ids.remove(id(torch.sub))


# -- allow_in_graph


def graph_of(function, *args):
    """The lines of the torch-level graph."""
    explanation = dynamlir.explain(function)(*args)
    assert not explanation.break_reasons, explanation
    return explanation.ops


def test_an_allowed_function_is_one_node():
    calls = []

    @torch.compiler.allow_in_graph
    def twice(x):
        calls.append(torch.compiler.is_compiling())
        return x.sin() + x.sin()

    def function(x):
        return twice(x) * 3

    called = [line.partition(" = ")[2].partition("(")[0] for line in graph_of(function, A)]
    assert called[:2] == [f"{__name__}.twice", "torch.mul"]
    calls.clear()
    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(A), (A.sin() + A.sin()) * 3)
    assert calls == [True], "the compiled graph has its operations"
    assert not torch.compiler.is_compiling()


# Torch 2.11 has it only here.
nonstrict_trace = torch._dynamo.nonstrict_trace


@pytest.mark.parametrize("backend", ["dynamlir", "python", "eager"])
@pytest.mark.parametrize("switch", [torch.compiler.allow_in_graph, nonstrict_trace])
def test_what_is_not_looked_into_may_be_anything(switch, backend):
    depth = {"n": 2}

    @switch
    def odd(x, *more, scale=1):
        exec("made = x * depth['n'] * scale", namespace := {"x": x, "depth": depth, "scale": scale})
        return namespace["made"], [other + 1 for other in more]

    def function(x):
        first, (second, third) = odd(x, x + 1, x + 2, scale=3)
        return first + second - third

    compiled = dynamlir.compile(function, fullgraph=True, backend=backend)
    for x in (A, A + 5):
        torch.testing.assert_close(compiled(x), x * 6 - 1)
    depth["n"] = 3
    compiled(A)
    assert len(compiled._cache) == 1, "its inside is not guarded"


@pytest.mark.parametrize("backend", ["dynamlir", "python", "eager"])
def test_an_allowed_function_may_write(backend):
    @torch.compiler.allow_in_graph
    def bump(x):
        x.add_(1)

    def function(x):
        bump(x)
        return x * 2

    compiled = dynamlir.compile(function, fullgraph=True, backend=backend)
    x = A.clone()
    for time in (1, 2, 3):
        torch.testing.assert_close(compiled(x), (A + time) * 2)


def test_arguments_of_an_allowed_function_are_guarded():
    @torch.compiler.allow_in_graph
    def apply(operation, x, sizes):
        return operation(x) * sizes[0]

    def function(operation, x, sizes):
        return apply(operation, x, sizes)

    compiled = dynamlir.compile(function, fullgraph=True)
    cases = [(torch.neg, [2]), (torch.sin, [2]), (torch.sin, [3]), (lambda x: x + 1, [3])]
    for operation, sizes in cases:
        for _ in range(2):
            torch.testing.assert_close(compiled(operation, A, sizes), operation(A) * sizes[0])
    assert len(compiled._cache) == 4


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda x: x.shape[0] + 1, "unguardable"),
        (lambda x: x * 2 if x.sum().item() > 0 else x, "data-dependent"),
        (lambda x: x + B[:4], "unknown-tensor"),
        (lambda x: x @ torch.ones(7), "raised"),
    ],
)
def test_what_an_allowed_function_may_not(body, reason):
    allowed = torch.compiler.allow_in_graph(lambda x: body(x))

    def function(x):
        return allowed(x)

    try:
        expected = function(A)
    except RuntimeError as error:
        with pytest.raises(RuntimeError, match=str(error).split(" ")[0]):
            dynamlir.compile(function)(A)
    else:
        seen = dynamlir.compile(function)(A)
        assert torch.equal(torch.as_tensor(seen), torch.as_tensor(expected))
    assert only_reason()[0] == reason


# -- assume_constant_result, substitute_in_graph


def test_a_constant_is_asked_for_once():
    class Settings:
        calls = 0
        scale = 3

        @torch.compiler.assume_constant_result
        def read(self, name, default=0):
            self.calls += 1
            return getattr(self, name, default)

    settings = Settings()

    def function(x, name):
        return x * settings.read(name)

    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(A, "scale"), A * 3)
    assert settings.calls == 1
    settings.scale = 5
    assert torch.equal(compiled(A, "scale"), A * 3), "it was said to be constant"
    assert torch.equal(compiled(A, "other"), A * 0), "for these arguments"
    settings = Settings()
    assert torch.equal(compiled(A, "scale"), A * 3)
    assert settings.calls == 1, "and this object"


@pytest.mark.parametrize(
    ("constant", "message"),
    [(lambda x: torch.ones(4), "returns a torch.Tensor"), (lambda x: float(x.sum()), "of a tensor")],
)
def test_constants_are_numbers_and_text(constant, message):
    marked = torch.compiler.assume_constant_result(lambda x: constant(x))

    def function(x):
        return x + marked(x)

    assert torch.equal(dynamlir.compile(function)(A), A + constant(A))
    reason, seen = only_reason()
    assert reason == "unguardable"
    assert "assume_constant_result" in seen


def forget_substitute(function):
    """Undoes `substitute_in_graph`. Torch 2.11 has no function for it."""
    unregister = getattr(torch._dynamo.decorators, "_unregister_substitute_in_graph", None)
    if unregister is not None:
        unregister(function)
    else:
        torch._dynamo.variables.functions.PolyfilledFunctionVariable._get_polyfill_handlers().pop(function)


def test_a_substitute_is_looked_into():
    def original(x, by):
        raise AssertionError("for graphs only")

    @torch.compiler.substitute_in_graph(original)
    def substitute(x, by):
        return x * by

    def function(x):
        return original(x, 2)

    try:
        compiled = dynamlir.compile(function, fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(A), A * 2)
        assert any("mul" in line for line in graph_of(function, A))
        with pytest.raises(AssertionError, match="for graphs only"):
            substitute(A, 2)
    finally:
        forget_substitute(original)


def test_a_substitute_of_a_c_function():
    def function(x, data):
        return x + zlib.crc32(data)

    @torch.compiler.substitute_in_graph(zlib.crc32, skip_signature_check=True)
    def crc32(data, value=0):
        return 100 * len(data)

    try:
        assert torch.equal(dynamlir.compile(function, fullgraph=True)(A, b"abc"), A + 300)
    finally:
        forget_substitute(zlib.crc32)
    assert torch.equal(dynamlir.compile(function)(A, b"abc"), A + zlib.crc32(b"abc"))
    assert only_reason() == ("c-function", "zlib.crc32")


def test_torch_s_own_substitutes_are_for_torch():
    handlers = torch._dynamo.variables.functions.PolyfilledFunctionVariable._get_polyfill_handlers()
    assert operator.countOf in handlers
    assert torch.equal(dynamlir.compile(lambda x: x * operator.countOf([7, 6, 7], 7))(A), A * 2)
    assert only_reason()[0] == "c-function"


# -- compiled by torch


def not_called(graph, inputs):
    raise AssertionError("what is called within another compiled function is a part of that")


@torch.compile(backend=not_called)
def shifted(x, by=1):
    return x.sin() + by


class Scale:
    @torch.compile(backend=not_called, fullgraph=True)
    def scaled(self, x):
        return shifted(x, by=2) * 3


@functools.wraps(shifted)
def around(x):
    return shifted(x) * 5


run = torch._dynamo.run(lambda x: x.cos())


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (lambda x: shifted(x) + shifted(x, 3), lambda x: x.sin() * 2 + 4),
        (lambda x: Scale().scaled(x), lambda x: (x.sin() + 2) * 3),
        (lambda x: around(x), lambda x: (x.sin() + 1) * 5),
        (lambda x: run(x), torch.cos),
    ],
    ids=["functions", "a method", "one around it", "run"],
)
def test_what_torch_has_compiled_is_looked_into(function, right):
    compiled = dynamlir.compile(function, fullgraph=True)
    for x in (A, A + 1):
        assert torch.allclose(compiled(x), right(x))
    assert dynamlir.counters()["graphs"] == 1 and not dynamlir.fallbacks()


def test_another_function_that_torch_has_compiled(monkeypatch):
    compiled = dynamlir.compile(lambda x: shifted(x), fullgraph=True)
    assert torch.allclose(compiled(A), A.sin() + 1)
    monkeypatch.setitem(globals(), "shifted", torch.compile(lambda x: x.exp(), backend=not_called))
    assert torch.allclose(compiled(A), A.exp())
    monkeypatch.undo()
    assert torch.allclose(compiled(A), A.sin() + 1)
    assert dynamlir.counters()["graphs"] == 2
