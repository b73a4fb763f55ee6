"""Torch's own switches at our own front door: those of `torch.compiler` also apply to `dynamlir.compile`.

This file covers switches for all compilation and for tensors; test_switches_functions covers those for single
functions.
"""

from __future__ import annotations

import functools
import threading

import dynamlir
import forked
import pytest
import torch
from switched import A, B, is_compiled, only_reason, tells
from torch import nn
from torch._dynamo import mark_dynamic, mark_static, mark_static_address, maybe_mark_dynamic
from torch._dynamo.decorators import mark_unbacked
from torch.compiler import set_stance

pytestmark = pytest.mark.whole


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield
    set_stance("default")


# -- set_stance


def test_force_eager_holds_for_entries_that_would_fit():
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled)
    with set_stance("force_eager"):
        assert not is_compiled(compiled)
    assert is_compiled(compiled)
    assert len(compiled._cache) == 1


def test_force_eager_compiles_nothing():
    compiled = dynamlir.compile(tells, fullgraph=True)
    with set_stance("force_eager"):
        assert not is_compiled(compiled)
    assert len(compiled._cache) == 0
    assert not dynamlir.fallbacks(), "plain Python was asked for"


def test_a_stance_is_a_function_a_decorator_and_a_context():
    compiled = dynamlir.compile(tells)

    @set_stance("force_eager")
    def plainly():
        return is_compiled(compiled)

    assert is_compiled(compiled)
    assert not plainly()
    assert is_compiled(compiled)
    set_stance("force_eager")
    assert not is_compiled(compiled)
    set_stance("default")
    assert is_compiled(compiled)


def test_the_inner_stance_counts_and_the_outer_one_comes_back():
    compiled = dynamlir.compile(tells)
    with set_stance("force_eager"):
        with set_stance("default"):
            assert is_compiled(compiled)
            with set_stance("eager_on_recompile"):
                assert is_compiled(compiled)
        assert not is_compiled(compiled)
    assert is_compiled(compiled)


def test_an_exception_restores_the_stance():
    compiled = dynamlir.compile(tells)
    with pytest.raises(KeyError), set_stance("force_eager"):
        assert not is_compiled(compiled)
        raise KeyError
    assert is_compiled(compiled)


def test_eager_on_recompile_uses_what_there_is():
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled, A)
    with set_stance("eager_on_recompile"):
        assert is_compiled(compiled, A)
        assert not is_compiled(compiled, B)
    assert len(compiled._cache) == 1
    assert is_compiled(compiled, B)


def test_fail_on_recompile_says_which_guard():
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled, A)
    with set_stance("fail_on_recompile"):
        assert is_compiled(compiled, A)
        with pytest.raises(RuntimeError, match=r"(?s)stance is 'fail_on_recompile'.*switched.*'tells'.*L\['x'\].shape"):
            compiled(B)
    assert is_compiled(compiled, B)


def test_fail_on_recompile_includes_the_first_compile():
    with set_stance("fail_on_recompile"), pytest.raises(RuntimeError, match="Detected recompile"):
        dynamlir.compile(tells)(A)


@pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
def test_then_compile_leaves_the_first_miss_to_python(stance):
    compiled = dynamlir.compile(tells)
    with set_stance(stance):
        assert [is_compiled(compiled, x) for x in (A, A, B)] == [False, True, True]
        compiled.reset()
        assert [is_compiled(compiled, x) for x in (A, A)] == [False, True], "as if new"


def test_a_forced_backend_compiles_besides():
    seen = []

    def backend(module, inputs):
        seen.append(module)
        return module.forward

    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled)
    for _ in range(2):
        with set_stance(force_backend=backend):
            assert is_compiled(compiled)
            assert is_compiled(compiled)
    assert len(seen) == 1
    assert is_compiled(compiled)
    assert (len(seen), len(compiled._cache)) == (1, 1), "entries are the callable's own"
    compiled.reset()
    with set_stance(force_backend=backend):
        assert is_compiled(compiled)
    assert len(seen) == 2


def test_a_forced_backend_by_name():
    compiled = dynamlir.compile(tells)
    with set_stance(force_backend="eager"):
        assert is_compiled(compiled)
    assert len(compiled._cache) == 0
    with set_stance(force_backend="no such backend"), pytest.raises(Exception, match="no such backend"):
        compiled(A)


def test_a_stance_holds_for_modules_and_methods():
    class Model(nn.Module):
        def forward(self, x):
            return tells(x)

        def method(self, x):
            return tells(x)

    model = Model()
    for compiled in (dynamlir.compile(model), dynamlir.compile(model.method)):
        assert is_compiled(compiled)
        with set_stance("force_eager"):
            assert not is_compiled(compiled)
        with set_stance(force_backend="eager"):
            assert is_compiled(compiled)
        assert is_compiled(compiled)


def test_torch_raises_for_what_is_no_stance():
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled)
    with set_stance("lazy"), pytest.raises(RuntimeError, match=r"invalid torch.compile stance .*lazy"):
        compiled(A)
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend"):
        set_stance("force_eager", force_backend="eager")
    assert is_compiled(compiled)


def test_guards_are_checked_whatever_skip_guard_eval_unsafe_says():
    compiled = dynamlir.compile(tells)
    with set_stance(skip_guard_eval_unsafe=True):
        assert is_compiled(compiled, A)
        assert is_compiled(compiled, B)
    assert len(compiled._cache) == 2


def test_all_threads_have_one_stance():
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled)
    set_now, go_on, seen = threading.Event(), threading.Event(), []

    def other():
        with torch.no_grad(), set_stance("force_eager"):
            seen.append(is_compiled(compiled))
            set_now.set()
            go_on.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    assert set_now.wait(60)
    seen.append(is_compiled(compiled))
    go_on.set()
    thread.join()
    seen.append(is_compiled(compiled))
    assert seen == [False, False, True]


def test_a_stance_is_not_set_in_a_graph():
    def function(x):
        with set_stance("force_eager"):
            return tells(x)

    compiled = dynamlir.compile(function)
    assert not is_compiled(compiled)
    assert not is_compiled(compiled)
    reason, message = only_reason()
    assert (reason, "set_stance" in message) == ("disabled", True)
    assert is_compiled(dynamlir.compile(tells)), "plain Python has restored it"


def test_a_stance_before_anything_is_captured():
    program = """if True:
        import sys, torch, dynamlir
        compiled = dynamlir.compile(lambda x: (x + 1, torch.compiler.is_compiling()))
        with torch.no_grad():
            assert "torch._dynamo" not in sys.modules, "nobody has asked for it"
            with torch.compiler.set_stance("force_eager"):
                seen = [compiled(torch.ones(3))[1]]
            seen.append(compiled(torch.ones(3))[1])
        print(*seen)
    """
    run = forked.python(program, only_torch=True)
    assert run.stdout.split() == ["False", "True"], run.stderr


# -- what code can query


@pytest.mark.parametrize(
    ("asks", "answer"),
    [
        (torch.compiler.is_compiling, True),
        (torch.compiler.is_dynamo_compiling, True),
        (torch._utils.is_compiling, True),
        (torch._dynamo.is_compiling, True),
        (torch._dynamo.external_utils.is_compiling, True),
        (torch.compiler.is_exporting, False),
        (torch.jit.is_scripting, False),
    ],
)
def test_what_the_code_is_told(asks, answer):
    def function(x):
        return x + 1, asks()

    compiled = dynamlir.compile(function, fullgraph=True)
    assert [compiled(A)[1] for _ in range(2)] == [answer, answer]


# -- sizes


def marked_by(mark, *args):
    x = A.clone()
    mark(x, *args)
    return x


DYNAMIC = [
    pytest.param(functools.partial(mark_dynamic), id="mark_dynamic"),
    pytest.param(functools.partial(mark_dynamic, min=2, max=64), id="mark_dynamic with bounds"),
    pytest.param(mark_unbacked, id="mark_unbacked"),
]

UNBACKED = [
    pytest.param(functools.partial(mark_unbacked, strict=True), id="strict mark_unbacked"),
]


@pytest.mark.parametrize("mark", DYNAMIC)
def test_a_dynamic_size_varies(mark):
    compiled = dynamlir.compile(tells, fullgraph=True)
    x = marked_by(mark, 0)
    assert [is_compiled(compiled, x) for _ in range(2)] == [True, True]
    assert is_compiled(compiled, A), "one that is not marked has the same entry"
    assert len(compiled._cache) == 1
    assert any("size()[0]" in part for part in compiled._cache[0].guards.code_parts)


@pytest.mark.parametrize("mark", DYNAMIC)
def test_a_marked_size_may_fall_to_one_and_to_nothing(mark):
    compiled = dynamlir.compile(lambda x: x.relu() + x.shape[0], fullgraph=True)
    for size in (5, 1, 0, 9):
        x = torch.randn(size, 3)
        mark(x, 0)
        assert torch.equal(compiled(x), x.relu() + size)
    assert len(compiled._cache) == 3


@pytest.mark.parametrize("mark", UNBACKED)
def test_a_strictly_unbacked_size_is_not_specialised(mark):
    compiled = dynamlir.compile(tells)
    x = marked_by(mark, 0)
    for _ in range(2):
        assert not is_compiled(compiled, x)
    assert only_reason()[0] == "dynamic-shape"
    assert is_compiled(compiled, A), "the entry is about marked tensors"
    assert not is_compiled(compiled, x)
    with pytest.raises(dynamlir.Unsupported, match="dynamic-shape"):
        dynamlir.compile(tells, fullgraph=True)(x)


@pytest.mark.parametrize("mark", DYNAMIC + UNBACKED)
def test_a_mark_is_seen_by_entries_that_were_there(mark):
    compiled = dynamlir.compile(tells)
    x = A.clone()
    assert [is_compiled(compiled, x) for _ in range(3)] == [True] * 3
    mark(x, 0)
    may_vary = not hasattr(x, "_dynamo_strict_unbacked_indices")
    assert is_compiled(compiled, x) == may_vary
    assert may_vary or only_reason()[0] == "dynamic-shape"
    assert len(compiled._cache) == 2


def test_torch_compile_does_the_same():
    compiled = torch.compile(lambda x: x + 1, backend="dynamlir")
    x = marked_by(mark_dynamic, 0)
    assert torch.equal(compiled(x), A + 1)
    assert dynamlir.counters()["graphs"] == 1 and not dynamlir.fallbacks()


def test_a_marked_parameter():
    model = nn.Linear(4, 4)
    mark_dynamic(model.weight, 0)
    with pytest.raises(Exception, match="Constraints violated"):
        dynamlir.compile(model)(A)  # the bias must have the same size, so it is constrained


@pytest.mark.parametrize("mark", [maybe_mark_dynamic, mark_static])
def test_marks_that_allow_specialising(mark):
    compiled = dynamlir.compile(tells, fullgraph=True)
    x = marked_by(mark, 0)
    assert [is_compiled(compiled, x) for _ in range(2)] == [True, True]
    assert len(compiled._cache) == 1


def test_a_static_address_changes_nothing():
    compiled = dynamlir.compile(tells, fullgraph=True)
    assert is_compiled(compiled, marked_by(mark_static_address))
    assert is_compiled(compiled, marked_by(mark_static_address, True))


def test_mark_static_inside_is_what_happens_anyway():
    def function(x):
        mark_static(x, 0)
        return tells(x)

    assert is_compiled(dynamlir.compile(function, fullgraph=True))


def test_mark_dynamic_inside_is_too_late():
    def function(x):
        mark_dynamic(x, 0)
        return tells(x)

    assert not is_compiled(dynamlir.compile(function), A.clone())
    assert only_reason()[0] == "disabled"


@pytest.mark.parametrize("dynamic", [None, False, True])
def test_sizes_have_entries_as_dynamic_says(dynamic):
    compiled = dynamlir.compile(tells, dynamic=dynamic)
    assert [is_compiled(compiled, x) for x in (A, B, A, B)] == [True] * 4
    assert len(compiled._cache) == (1 if dynamic else 2)


@pytest.mark.parametrize("dynamic", ["yes", 1, 0, [True]])
def test_dynamic_is_a_bool_or_none(dynamic):
    with pytest.raises(TypeError, match="True, False or None for dynamic"):
        dynamlir.compile(tells, dynamic=dynamic)
    with pytest.raises(TypeError, match="True, False or None for dynamic"):
        dynamlir.compile(dynamic=dynamic)


# -- reset


@pytest.mark.parametrize("reset", [torch.compiler.reset, torch._dynamo.reset])
def test_what_is_compiled_stays(reset):
    compiled = dynamlir.compile(tells)
    assert is_compiled(compiled)
    reset()
    assert len(compiled._cache) == 1
    assert is_compiled(compiled)
    compiled.reset()
    assert len(compiled._cache) == 0
