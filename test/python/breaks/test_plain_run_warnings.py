"""The warning that a function runs as plain Python: given once, before it runs, about the user's line; through both
doors.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import forked
import pytest
import torch
from dynamlir import PlainRunWarning, config, native, reasons
from plain_world import CASES, DOORS, OURS, Case, X, complex_numbers, heard
from torch import Tensor

pytestmark = [pytest.mark.whole]

BOTH = pytest.mark.parametrize("door", list(DOORS))


def cases() -> list[Any]:
    return [
        pytest.param(case, DOORS[door], id=f"{name}, {door}") for name, case in CASES.items() for door in case.doors
    ]


def same(left: Any, right: Any) -> bool:
    if isinstance(left, Tensor):
        return torch.equal(left, right)
    return [*map(Tensor.tolist, left)] == [*map(Tensor.tolist, right)]


@pytest.mark.parametrize(("case", "door"), cases())
def test_one_warning_says_it_all(case: Case, door: Any) -> None:
    function = case.make()
    compiled = door(function)
    (warning,) = heard(compiled, X)
    text = str(warning.message)
    name = f"{function.__name__} runs as plain Python: {case.reason}"
    assert name in text and case.hint in text and "dynamlir.config.on_plain" in text
    assert (warning.filename, warning.lineno) == case.place()
    assert heard(compiled, X) == []
    assert heard(compiled, X + 1) == []
    assert case.reason in dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize(("case", "door"), cases())
def test_a_switch_makes_it_an_error_each_time(case: Case, door: Any) -> None:
    compiled = door(case.make())
    with config.patch(on_plain="error"):
        for _ in range(2):
            with pytest.raises(dynamlir.Unsupported, match=case.reason) as raised:
                compiled(X)
            assert "{}:{}".format(*case.place()) in str(raised.value)
    assert same(compiled(X), case.make()(X))
    with config.patch(on_plain="error"), pytest.raises(dynamlir.Unsupported, match=case.reason):
        compiled(X)


@pytest.mark.parametrize(("case", "door"), cases())
def test_a_switch_makes_it_nothing(case: Case, door: Any) -> None:
    compiled = door(case.make())
    with config.patch(on_plain="ignore"):
        assert heard(compiled, X) == []
    assert case.reason in dynamlir.counters()["fallbacks"]


@BOTH
def test_the_environment_has_the_switch(door: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import dynamlir, torch\n"
        "def function(x):\n"
        "    return torch.view_as_real(x * 1j)\n"
        "theirs = lambda f: torch.compile(f, backend='dynamlir')\n"
        f"{'theirs' if door == 'torch.compile' else door}(function)(torch.ones(3))\n"
        "print('ran')\n"
    )
    seen = {}
    for word in ("", "error", "ignore"):
        environment = {**os.environ, "DYNAMLIR_ON_PLAIN": word}
        done = forked.python(script, env=environment)
        seen[word] = (
            done.stdout,
            "PlainRunWarning" in done.stderr,
            "dynamlir.Unsupported" in done.stderr,
        )
        if not word:  # as Python shows it: with the line itself
            assert f"{script}:3: PlainRunWarning: " in done.stderr
            assert "\n  return torch.view_as_real(x * 1j)\n" in done.stderr
    assert seen == {"": ("ran\n", True, False), "error": ("", False, True), "ignore": ("ran\n", False, False)}


# ---- gradients


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


@BOTH
@pytest.mark.parametrize("make", [Net, lambda: torch.nn.Sequential(torch.nn.Linear(4, 4))], ids=["own", "torch's"])
def test_grad_mode_is_no_reason(door: str, make: Callable[[], torch.nn.Module]) -> None:
    """Training is compiled like everything else."""
    model = make()
    compiled = DOORS[door](model)
    assert heard(lambda: compiled(X)) == []
    assert compiled(X).requires_grad
    with torch.no_grad():
        assert heard(compiled, X) == []
        assert torch.allclose(compiled(X), model(X))


# ---- once


def test_once_for_each_reason() -> None:
    def function(x: Tensor, how: str) -> Any:
        if how == "complex":
            return x * 1j
        return x.view(torch.uint16)

    compiled = dynamlir.compile(function)
    assert [len(heard(compiled, X, how)) for how in ("complex", "dtype", "complex", "dtype")] == [1, 1, 0, 0]


def test_once_for_what_is_compiled_twice() -> None:
    assert len(heard(dynamlir.compile(complex_numbers), X)) == 1
    assert heard(dynamlir.compile(complex_numbers), X) == []


def test_once_for_each_function() -> None:
    first, second = (lambda x: x * 1j), (lambda x: x * 2j)
    for door in DOORS.values():
        dynamlir.reset()
        assert len(heard(door(first), X)) == 1
    for function in (first, second):
        dynamlir.reset()
        assert len(heard(dynamlir.compile(function), X)) == 1
    assert heard(dynamlir.compile(second), X) == []
    assert len(heard(dynamlir.compile(first), X)) == 1


def test_each_model_of_a_class_that_is_torchs() -> None:
    """`Sequential.forward` is not the user's function; the user's unit is the model."""

    class Complex(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return complex_numbers(x)

    models = [dynamlir.compile(torch.nn.Sequential(Complex())) for _ in range(2)]
    assert [len(heard(model, X)) for model in [*models, *models]] == [1, 1, 0, 0]


def test_many_shapes_and_calls_of_one_function() -> None:
    for door in DOORS.values():
        dynamlir.reset()
        compiled = door(complex_numbers)

        assert sum(len(heard(compiled, torch.ones(size))) for size in range(2, 8)) == 1


def test_said_again_after_reset() -> None:
    for door in DOORS.values():
        compiled = door(complex_numbers)
        dynamlir.reset()
        assert len(heard(compiled, X)) == 1
        dynamlir.reset()
        assert len(heard(compiled, X)) == 1


@BOTH
def test_not_said_again_in_threads(door: str) -> None:
    compiled = DOORS[door](complex_numbers)

    def call() -> None:
        threads = [threading.Thread(target=lambda: [compiled(X) for _ in range(20)]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert len(heard(call)) == 1
    assert heard(call) == []


@BOTH
def test_not_said_again_in_a_forked_child(door: str) -> None:
    compiled = DOORS[door](complex_numbers)
    assert len(heard(compiled, X)) == 1
    if pid := os.fork():
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        return
    status = 1
    try:
        torch.set_num_threads(1)
        status = len(heard(compiled, X))
    finally:
        os._exit(status)


# ---- as an exception


EFFECTS: list[str] = []


def has_effects(x: Tensor) -> Tensor:
    EFFECTS.append("ran")
    x.add_(1)
    return torch.view_as_real(x * 1j)


def writes(x: Tensor) -> Tensor:
    x.add_(1)
    return torch.view_as_real(x * 1j)


@pytest.mark.parametrize(
    ("function", "door"),
    [(has_effects, dynamlir.compile), (writes, dynamlir.compile), (writes, DOORS["torch.compile"])],
)
def test_raised_before_anything_ran(function: Any, door: Any) -> None:
    EFFECTS.clear()
    compiled, x = door(function), X.clone()
    state = torch.get_rng_state()
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(PlainRunWarning, match="runs as plain Python"):
                compiled(x)
        assert EFFECTS == [] and torch.equal(x, X) and x._version == 0 and torch.equal(torch.get_rng_state(), state)
    # The warning has not been shown yet, so it is shown now.
    assert len(heard(compiled, x)) == 1
    assert torch.equal(x, X + 1) and (["ran"] if function is has_effects else []) == EFFECTS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(x)
    assert torch.equal(x, X + 2)


@BOTH
def test_under_the_interpreter_s_switch(door: str, tmp_path: Path) -> None:
    """``python -W error``"""
    script = tmp_path / "script.py"
    script.write_text(
        "import warnings\n"
        "with warnings.catch_warnings():\n"
        "    warnings.simplefilter('ignore')\n"
        "    import dynamlir, torch, torch._dynamo, torch._inductor\n"
        "def function(x):\n"
        "    x.add_(1)\n"
        "    return torch.view_as_real(x * 1j)\n"
        "theirs = lambda f: torch.compile(f, backend='dynamlir')\n"
        f"compiled = {'theirs' if door == 'torch.compile' else door}(function)\n"
        "x = torch.zeros(3)\n"
        "for _ in range(2):\n"
        "    try:\n"
        "        compiled(x)\n"
        "    except dynamlir.PlainRunWarning:\n"
        "        print('raised', x.tolist())\n"
    )
    done = subprocess.run([sys.executable, "-W", "error::UserWarning", script], capture_output=True, text=True)
    assert done.stdout == "raised [0.0, 0.0, 0.0]\n" * 2, done.stderr


@BOTH
def test_filters_are_the_user_s(door: str) -> None:
    """Neither filters nor registries of modules change, and a filter catches what it names."""
    compiled = DOORS[door](complex_numbers)
    module = sys.modules[complex_numbers.__module__]
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            warnings.filterwarnings("ignore", category=PlainRunWarning, module="elsewhere")
            before, show = list(warnings.filters), warnings.showwarning
            registries = [dict(vars(m).get("__warningregistry__", {})) for m in (module, sys.modules[__name__])]
            compiled(X)
            assert warnings.filters == before and warnings.showwarning is show
            after = [dict(vars(m).get("__warningregistry__", {})) for m in (module, sys.modules[__name__])]
            assert after == registries
        first, caught = caught, []
        if first:
            assert len(first) == 1
    dynamlir.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=PlainRunWarning, module=module.__name__)
        compiled(X)


@BOTH
def test_a_hook_may_call_what_is_compiled(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = DOORS[door](complex_numbers)
    shown: list[Any] = []

    def show(message: Any, *rest: Any) -> None:
        shown.append((message, compiled(X + 1)))

    monkeypatch.setattr(warnings, "showwarning", show)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        result = compiled(X)
    assert len([entry for entry in shown if isinstance(entry[0], PlainRunWarning)]) == 1
    assert torch.equal(result, complex_numbers(X))


@BOTH
def test_an_interruption_while_it_is_said(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = DOORS[door](complex_numbers)

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with monkeypatch.context() as patched:
            patched.setattr(warnings, "showwarning", interrupted)
            with pytest.raises(KeyboardInterrupt):
                compiled(X)
    assert len(heard(compiled, X)) == 1


# ---- where there is nothing to say


def test_a_function_that_raises() -> None:
    """Its exception says what the user needs to know, with plain Python's message."""

    def mismatched(x: Tensor) -> Tensor:
        return x @ torch.ones(7)

    def refuses(x: Tensor) -> Tensor:
        raise ValueError("not this one")

    for function, error in ((mismatched, RuntimeError), (refuses, ValueError)):
        compiled = dynamlir.compile(function)
        for _ in range(2):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with pytest.raises(error) as ours:
                    compiled(X)
            with pytest.raises(error) as plain:
                function(X)
            assert str(ours.value) == str(plain.value)
    assert dynamlir.counters()["fallbacks"]["raised"] == 2


def test_a_function_that_raises_while_it_is_captured_only() -> None:
    """From the second call on the fallback is known, and the warning comes before that call."""
    with torch.library._scoped_library("plain_runs", "FRAGMENT"):

        @torch.library.custom_op("plain_runs::twice", mutates_args=())
        def twice(x: Tensor) -> Tensor:
            return x * 2

        @twice.register_fake
        def _(x: Tensor) -> Tensor:
            raise ValueError("not on fakes")

        compiled = dynamlir.compile(lambda x: twice(x) + 1)
        assert heard(compiled, X) == [] and reasons.counts() == {"raised": 1}
        with config.patch(on_plain="error"), pytest.raises(dynamlir.Unsupported, match="not on fakes"):
            compiled(X)
        assert len(heard(compiled, X)) == 1 and heard(compiled, X) == []
        assert torch.equal(compiled(X), X * 2 + 1)


@pytest.mark.parametrize("index", [99, -77])
def test_an_index_out_of_range(index: int) -> None:
    """The compiled graph detects it, and plain Python raises: no warning is due."""

    def picks(x: Tensor, at: Tensor) -> Tensor:
        return x[at] + 1

    for door in DOORS.values():
        compiled = door(picks)
        compiled(X, torch.tensor([1]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                with pytest.raises(IndexError):
                    compiled(X, torch.tensor([index]))


@BOTH
def test_a_graph_that_fails_alone(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph fails, plain Python does not: the next failure is reported before the call is repeated."""
    compiled = DOORS[door](lambda x, at: x[at] + 1)
    error = native.module().RunError
    failing: Callable[..., Any]

    def fails(*_: Any) -> Any:
        raise error("on purpose")

    if door in OURS:
        compiled = dynamlir.compile(lambda x: x + 1, backend=lambda gm, inputs: fails)
        failing = lambda: compiled(X)  # noqa: E731
    else:
        from dynamlir.runtime import Variant

        compiled(X, torch.tensor([1]))
        monkeypatch.setattr(Variant, "__call__", fails)
        failing = lambda: compiled(X, torch.tensor([1]))  # noqa: E731
    assert [len(heard(failing)) for _ in range(3)] == [0, 1, 0]
    with config.patch(on_plain="error"), pytest.raises(dynamlir.Unsupported, match="run-error"):
        failing()


def test_switches_of_the_user_are_not_news() -> None:
    @torch.compiler.disable
    def disabled(x: Tensor) -> Tensor:
        return x * 1j

    def calls(x: Tensor) -> Tensor:
        return disabled(x)

    torch.compiler.reset()  # "eager_on_recompile" runs what an earlier test has compiled
    with config.patch(on_plain="error"):
        assert torch.equal(dynamlir.compile(disabled)(X), X * 1j)
        for stance in ("force_eager", "eager_on_recompile", "eager_then_compile"):
            for door in DOORS.values():
                if stance == "eager_then_compile" and door is not dynamlir.compile:
                    # Torch compiles at once if it has run a `torch.while_loop` before.
                    continue
                with torch.compiler.set_stance(stance):
                    assert torch.equal(door(complex_numbers)(X), complex_numbers(X))
    # Here it is news: more runs plain than the part that was switched off.
    (warning,) = heard(dynamlir.compile(calls), X)
    assert "disabled" in str(warning.message)


def test_arguments_that_do_not_fit_are_not_news() -> None:
    compiled = dynamlir.compile(complex_numbers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError, match="positional argument"):
            compiled(X, X)


def test_capture_that_is_switched_off(tmp_path: Path) -> None:
    code = "import dynamlir; f = lambda x: x; assert dynamlir.compile(f) is f"
    environment = {**os.environ, "DYNAMLIR_CAPTURE": "0"}
    done = forked.python(code, env=environment)
    assert done.returncode == 0 and "PlainRunWarning" not in done.stderr, done.stderr


# ---- reasons that no entry has


def test_calls_while_another_thread_compiles_are_counted() -> None:
    begun, finish = threading.Event(), threading.Event()

    def slow(gm: Any, inputs: Any) -> Any:
        begun.set()
        assert finish.wait(60)
        return gm.forward

    compiled = dynamlir.compile(lambda x: x + 1, backend=slow)
    thread = threading.Thread(target=lambda: compiled(X))
    thread.start()
    assert begun.wait(60)
    try:
        with config.patch(on_plain="error"):
            assert torch.equal(compiled(X), X + 1)
    finally:
        finish.set()
        thread.join()
    assert reasons.counts() == {"compiling": 1}
    assert torch.equal(compiled(X), X + 1) and reasons.counts() == {"compiling": 1}


def test_what_changes_while_it_is_compiled() -> None:
    """The entry's guards fail for the very call that it was compiled for."""
    scale = [2.0]

    def function(x: Tensor) -> Tensor:
        return x * scale[0]

    def meddles(gm: Any, inputs: Any) -> Any:
        scale[0] += 1.0
        return gm.forward

    compiled = dynamlir.compile(function, backend=meddles)
    (warning,) = heard(compiled, X)
    assert "unguardable" in str(warning.message) and "changed while it was compiled" in str(warning.message)
    assert (warning.filename, warning.lineno) == (__file__, function.__code__.co_firstlineno)


@pytest.mark.filterwarnings("ignore")
def test_what_never_holds_is_compiled_ever_less_often() -> None:
    """Guards on objects that the call itself creates fail for the next call."""

    graphs = []

    def counts(gm: Any, inputs: Any) -> Any:
        graphs.append(gm)
        return gm.forward

    def made(x: Tensor) -> Tensor:
        print(end="")
        return x * 2

    def function(x: Tensor) -> Tensor:
        return types.FunctionType(made.__code__, {"print": print})(x + 1)

    compiled = dynamlir.compile(function, backend=counts)
    for _ in range(100):
        assert torch.equal(compiled(X), function(X))
    assert len(graphs) < 30


# ---- what is counted stays counted, and fullgraph as it was


def test_fullgraph_raises_and_does_not_warn() -> None:
    compiled = dynamlir.compile(complex_numbers, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(dynamlir.Unsupported, match="complex"):
                compiled(X)


def test_what_is_raised_is_torch_s_exception_too() -> None:
    from torch._dynamo.exc import Unsupported
    from torch._dynamo.utils import counters

    counted = sum(map(len, counters.values()))
    with pytest.raises(Unsupported) as raised:
        dynamlir.compile(complex_numbers, fullgraph=True)(X)
    error = raised.value
    assert isinstance(error, dynamlir.Unsupported) and error.real_stack is not None
    assert f"{type(error).__module__}.{type(error).__qualname__}" == "dynamlir.Unsupported"
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(again) is type(error) and str(again) == str(error) == error.args[0]
    assert sum(map(len, counters.values())) == counted  # it is no graph break of TorchDynamo's


def test_torch_s_exception_is_not_imported_before_one_is_raised() -> None:
    program = "import sys, dynamlir; assert 'torch._dynamo' not in sys.modules"
    assert forked.python(program, only_torch=True).returncode == 0


def test_what_python_calls_without_a_frame() -> None:
    """A callable object, a bound method, a partial: each is reported with a name and a line."""

    class Scale:
        def __call__(self, x: Tensor) -> Tensor:
            return x * 1j

        def method(self, x: Tensor) -> Tensor:
            return x * 1j

    line = Scale.__call__.__code__.co_firstlineno + 1
    for what, name, at in ((Scale(), "Scale", line), (Scale().method, "method", line + 3)):
        (warning,) = heard(dynamlir.compile(what), X)
        assert name in str(warning.message)
        assert (warning.filename, warning.lineno) == (__file__, at)


def test_code_without_a_file() -> None:
    namespace: dict[str, Any] = {}
    exec("def made(x):\n    return x * 1j\n", namespace)
    for name, door in DOORS.items():
        dynamlir.reset()
        (warning,) = heard(door(namespace["made"]), X)
        # Torch records no lines for code that has no file.
        assert (warning.filename, warning.lineno) == ("<string>", 2 if name in OURS else 1)
