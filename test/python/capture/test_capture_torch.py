"""Torch's own Python code around its operators, in one graph: recurrent layers, autocast, lazy look-ups."""

from __future__ import annotations

import functools
import gc
import operator
import os
import threading
import weakref
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir.capture import api

X = torch.arange(12.0).reshape(3, 4)
INTEGERS = torch.tensor([[1, 2, 3]])


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def check(function, *args, backends=("dynamlir", "python", "eager")):
    """Checks for one graph in every backend and twice for plain Python's result; returns the last compiled function."""
    for backend in backends:
        compiled = dynamlir.compile(function, backend=backend, fullgraph=True)
        for _ in range(2):
            seen, expected = compiled(*args), function(*args)
            torch.testing.assert_close(seen, expected)
            assert len(compiled._cache) == 1
    return compiled


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_ask_weak_references_for_their_weights(kind):
    layer = kind(4, 5).eval()
    check(lambda x: layer(x)[0], X, backends=("dynamlir", "python"))
    with torch._dynamo.config.patch(allow_rnn=True):
        check(lambda x: layer(x)[0], X, backends=("eager",))
    compiled = dynamlir.compile(layer)
    torch.testing.assert_close(compiled(X), layer(X))
    layer.weight_hh_l0 = torch.nn.Parameter(torch.zeros_like(layer.weight_hh_l0))
    torch.testing.assert_close(compiled(X), layer(X))


def test_attention_and_transformer():
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()
    both = torch.nn.Transformer(4, 2, 1, 1, 8, batch_first=True).eval()
    check(lambda x: attention(x, x, x), X[None])
    check(lambda x: both(x, x), X[None])


def test_autocast_is_part_of_the_graph():
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inner = x @ x.T
        return inner, x @ x.T

    check(function, X)
    assert not torch.is_autocast_enabled("cpu")


def test_an_input_that_is_only_asked_for_its_type():
    check(lambda x, other: (x.type_as(other), x.to(other.dtype) + 1), X, INTEGERS)


def test_operators_looked_up_while_capturing():
    # A new operator: one of torch's may have been looked up, and cannot be made new, since torch keeps its object.
    aten = torch.ops.aten
    with torch.library._scoped_library("looked_up", "DEF") as library:
        library.define("doubled(Tensor x) -> Tensor")
        library.impl("doubled", lambda x: x * 2, "CompositeExplicitAutograd")
        assert "doubled" not in torch.ops.looked_up.__dict__
        check(lambda x: torch.ops.looked_up.doubled(x) + aten.add.Tensor(x, 1), X)
    check(lambda x: x * len(torch.broadcast_shapes((3, 1), (1, 4))), X)
    check(lambda x: x.to(torch.promote_types(torch.float32, torch.float64)), X)


def test_c_functions_that_c_functions_call():
    check(lambda x: functools.reduce(torch.add, [x, x, x]), X)
    check(lambda x: functools.reduce(operator.mul, list(x)), X)
    check(lambda x: torch.stack(list(map(torch.sin, x))) + max([x[0], x[1]], key=len), X)


def test_overloads_that_write_are_nodes():
    def function(x):
        parts = [x.clone(), x.clone()]
        torch.ops.aten._foreach_add_.Scalar(parts, 2)
        torch.ops.aten.mul_.Tensor(parts[0], 3)
        return parts

    check(function, X, backends=("python", "eager"))


def test_callbacks_of_what_dies_meanwhile_are_not_captured():
    """Neither the callbacks of a collection nor those of a weak reference to an object that the frame drops."""

    class Node:
        pass

    died = []
    kept = []

    def make():
        node = Node()
        kept.append(weakref.ref(node, lambda reference: died.append(len(kept))))
        return node

    holder = [make()]

    def function(x):
        scale = len(holder)
        return x * scale

    cycle = make()
    cycle.itself = cycle
    del cycle
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        check(function, X)
    finally:
        gc.set_threshold(*threshold)
    holder.clear()
    gc.collect()
    assert len(died) == 2


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.scale, None


class Split(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x + 1, x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx, first, second):
        return first + second


def test_functions_of_autograd_are_their_forward_without_gradients():
    check(lambda x: Doubled.apply(x, 2.0) + 1, X)
    compiled = dynamlir.compile(lambda x: Split.apply(x)[0] * 3)
    torch.testing.assert_close(compiled(X), (X + 1) * 3)
    assert [event.reason for event in dynamlir.fallbacks()] == ["c-function"]


said = []


@functools.lru_cache
def say_once(text):
    said.append(text)


def test_what_a_cache_has_answered_is_not_asked_again():
    """Like transformers' `logger.warning_once`."""

    def function(x):
        say_once("deprecated")
        return x + 1

    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(X), X + 1)
    assert said == ["deprecated"]


def test_a_tensor_without_rows_has_no_len():
    """The handler reads torch's own message."""

    def function(x):
        try:
            return x * len(x)
        except TypeError as error:
            return x + len(str(error))

    check(function, torch.tensor(3.0))


# -- inference mode


LAYER = torch.nn.Linear(4, 4).eval()


def asks_for_the_mode(x):
    return x + 1 if torch.is_inference_mode_enabled() else x + 2


@torch.inference_mode()
def in_inference_mode(x):
    return LAYER(x) * 2, x.t()


def writes(x):
    y = x * 2
    y.add_(1)
    return y, y[0], LAYER(y)


@pytest.mark.parametrize("function", [asks_for_the_mode, in_inference_mode, writes])
@pytest.mark.parametrize("made", [torch.inference_mode, torch.no_grad])
def test_inference_mode_is_the_callers(function, made):
    """The results are tensors of that mode, regardless of the inputs."""
    with made():
        x = X + 1
    with torch.inference_mode():
        compiled = check(function, x)
        for seen, expected in zip(compiled(x), function(x)):
            assert seen.is_inference() == expected.is_inference()


@pytest.mark.parametrize("door", [dynamlir.compile, lambda f: torch.compile(f, backend="dynamlir")])
def test_what_inference_mode_excludes_stays_excluded(door):
    """Torch's operators are called below autograd, where inference mode already is."""

    def excluded():
        return torch._C._dispatch_tls_local_exclude_set().raw_repr()

    compiled = door(lambda x: torch.linalg.inv(x @ x.t() + torch.eye(3)))
    with torch.inference_mode():
        before = excluded()
        for _ in range(3):
            compiled(X)
            assert excluded() == before


def test_inference_mode_within_a_function_is_plain_python():
    compiled = dynamlir.compile(in_inference_mode)
    for _ in range(2):
        assert compiled(X)[0].is_inference()
    (event,) = dynamlir.fallbacks()
    assert (event.reason, event.message) == ("thread-state", "torch.inference_mode(True) within the function")
    with torch.inference_mode():
        compiled(X)
    assert [entry.compiled is None for entry in compiled._cache] == [True, False], "another mode, another entry"


def test_the_line_that_is_shown_is_the_users():
    """Torch's own Python code is traced into as well, down to the place where it sets the mode."""

    def function(x):
        with torch.inference_mode():
            return x + 1

    dynamlir.compile(function)(X)
    (event,) = dynamlir.fallbacks()
    assert event.location[0][0].startswith(os.path.dirname(torch.__file__))
    line = (__file__, function.__code__.co_firstlineno + 1, "function")
    assert event.line is not None and event.line[:3] == line
    assert f"{line[0]}:{line[1]} in function (within " in str(event)


def test_what_inference_mode_made_is_written_there_only():
    """Torch refuses to write them outside the mode."""
    with torch.inference_mode():
        x = X.clone()
    compiled = dynamlir.compile(lambda x: x.add_(1))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            compiled(x)
    with torch.inference_mode():
        compiled(x)
    torch.testing.assert_close(x, X + 3, msg="it is written before it is refused")
    assert [entry.compiled is None for entry in compiled._cache] == [True, False]
    assert [event.reason for event in dynamlir.fallbacks()] == ["thread-state"]


def test_what_kind_of_tensor_it_is_shows():
    with torch.inference_mode():
        x = X + 1
    compiled = dynamlir.compile(lambda x: x * 2 if x.is_inference() else x * 3)
    torch.testing.assert_close(compiled(x), x * 2)
    torch.testing.assert_close(compiled(X), X * 3)


def test_the_first_call_of_a_process_is_made_in_inference_mode():
    program = """
import dynamlir, torch
with torch.inference_mode():
    assert dynamlir.compile(lambda x: x + 1, fullgraph=True)(torch.ones(3)).sum() == 6
"""
    finished = forked.python(program)
    assert finished.returncode == 0, finished.stderr


def test_objects_are_not_collected_while_a_call_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    # A capture makes so many objects that each would look through all of the process.
    states = []
    compile_ = api.Compiler.compile

    def watched(self: api.Compiler, frame: Any) -> Any:
        states.append(gc.isenabled())
        return compile_(self, frame)

    monkeypatch.setattr(api.Compiler, "compile", watched)
    dynamlir.compile(torch.neg)(torch.ones(2))
    assert states == [False] and gc.isenabled()
    gc.disable()
    try:
        dynamlir.compile(torch.abs)(torch.ones(2))
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_process_forked_while_a_call_is_compiled_collects(monkeypatch: pytest.MonkeyPatch) -> None:
    # As the workers of a DataLoader may be, by another thread.
    compile_ = api.Compiler.compile
    codes = []

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    def watched(self: api.Compiler, frame: Any) -> Any:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        return compile_(self, frame)

    monkeypatch.setattr(api.Compiler, "compile", watched)
    dynamlir.compile(torch.neg)(torch.ones(2))
    assert codes == [0]
