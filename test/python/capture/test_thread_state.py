"""State of the thread that a function sets and does not restore is set after each call, as plain Python leaves it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

pytestmark = pytest.mark.whole


X = torch.ones(2, 2)
DEVICES = ("cpu", "cuda", "mps")


def grad_off(x):
    torch.set_grad_enabled(False)
    return x * 2


def grad_on(x):
    torch.set_grad_enabled(True)
    return x * 2


def no_grad_entered(x):
    torch.no_grad().__enter__()
    return x * 2


def autocast_on(x):
    torch.set_autocast_enabled("cpu", True)
    return x @ x


def autocast_dtype(x):
    torch.set_autocast_dtype("cpu", torch.float16)
    return x * 2


def autocast_of_another_device(x):
    torch.set_autocast_enabled("mps", True)
    return x * 2


def autocast_cache(x):
    torch.set_autocast_cache_enabled(False)
    return x * 2


def autocast_entered(x):
    torch.autocast("cpu", dtype=torch.bfloat16).__enter__()
    return x @ x


def autocast_cache_switched(x):
    torch.set_autocast_cache_enabled(not torch.is_autocast_cache_enabled())
    return x * (2 if torch.is_autocast_cache_enabled() else 3)


def nesting(x):
    torch.autocast_increment_nesting()
    return x * 2


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    return x + torch.ones(2)


def default_device(x):
    torch.set_default_device("meta")
    return x * 2


def deterministic(x):
    torch.use_deterministic_algorithms(True)
    return x * 2


def random_state(x):
    torch.manual_seed(7)
    return x + torch.rand(2)


def inference_entered(x):
    torch.inference_mode(False).__enter__()
    return x * 2


def raises_after_setting(x):
    torch.set_grad_enabled(not torch.is_grad_enabled())
    raise ValueError("after it was set")


LEAVE = [
    grad_off,
    grad_on,
    no_grad_entered,
    autocast_on,
    autocast_dtype,
    autocast_of_another_device,
    autocast_cache,
    autocast_cache_switched,
    autocast_entered,
    nesting,
    default_dtype,
    default_device,
    deterministic,
    random_state,
    inference_entered,
    raises_after_setting,
]


def nested() -> int:
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def state() -> tuple[Any, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple(
            (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in ("cpu", "cuda", "mps")
        ),
        torch.is_autocast_cache_enabled(),
        nested(),
        torch.get_default_dtype(),
        str(torch.get_default_device()),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_rng_state().tolist(),
    )


def restore(wanted: tuple[Any, ...]) -> None:
    grad, _, autocast, cache, depth, dtype, _, deterministic, random = wanted
    torch.set_default_device(None)
    torch.set_grad_enabled(grad)
    for device, (enabled, kind) in zip(DEVICES, autocast):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, kind)
    torch.set_autocast_cache_enabled(cache)
    while nested() > depth:
        torch.autocast_decrement_nesting()
    torch.set_default_dtype(dtype)
    torch.use_deterministic_algorithms(deterministic)
    torch.set_rng_state(torch.tensor(random, dtype=torch.uint8))


def outcome(function: Callable[..., Any]) -> tuple[Any, ...]:
    """The result or exception of a call, and the state after it; then restores the state from before."""
    before = state()
    try:
        result = function(X)
        told: Any = (result.dtype, str(result.device), result.requires_grad)
        told += (result.tolist(),) if result.device.type == "cpu" else ()
    except ValueError as error:
        told = str(error)
    after = state()
    restore(before)
    return told, after


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    dynamlir.reset()
    before = state()
    yield
    restore(before)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("backend", ["dynamlir", "eager", "python"])
@pytest.mark.parametrize("function", LEAVE, ids=lambda function: function.__name__)
def test_what_is_left_set_is_set_after_every_call(function, backend, grad):
    compiled = dynamlir.compile(function, backend=backend)
    torch.set_grad_enabled(grad)
    for _ in range(3):
        assert outcome(compiled) == outcome(function)


@pytest.mark.parametrize("function", [grad_off, grad_on, no_grad_entered], ids=lambda f: f.__name__)
@pytest.mark.parametrize("grad", [False, True])
def test_as_a_backend_it_leaves_what_torch_compile_leaves(function, grad):
    compiled, expected = (torch.compile(function, backend=backend) for backend in ("dynamlir", "eager"))
    torch.set_grad_enabled(grad)
    for _ in range(3):
        assert outcome(compiled) == outcome(expected)


def test_the_reason_names_the_state_and_the_line():
    dynamlir.compile(autocast_on)(X)
    (event,) = dynamlir.fallbacks()
    assert event.reason == "state-left-set"
    assert "autocast for cpu" in str(event)
    assert f"{__file__}:{autocast_on.__code__.co_firstlineno + 1}" in str(event)


class Switched:
    on = True


def grad_off_and_more(x, log):
    y = (x * 2).sum()
    log.append(y)
    torch.set_grad_enabled(not Switched.on)
    return y * x, (x @ x).detach(), torch.is_grad_enabled()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [grad_off, no_grad_entered], ids=lambda function: function.__name__)
def test_grad_mode_is_off_after_the_graph(function, grad):
    compiled = dynamlir.compile(function, fullgraph=True)
    torch.set_grad_enabled(grad)
    x = torch.ones(2, 2, requires_grad=grad)
    for _ in range(2):
        results, states = [], []
        for call in (function, compiled):
            torch.set_grad_enabled(grad)
            results.append(call(x))
            states.append(torch.is_grad_enabled())
        assert states[0] is states[1] and torch.equal(*results)
        assert results[0].requires_grad is results[1].requires_grad
    assert dynamlir.counters()["graphs"] == 1 and not dynamlir.fallbacks()


def test_what_was_computed_before_has_its_gradient(monkeypatch):
    compiled = dynamlir.compile(grad_off_and_more, fullgraph=True)
    for on in (True, False, True):
        monkeypatch.setattr(Switched, "on", on)
        found = []
        for call in (grad_off_and_more, compiled):
            torch.set_grad_enabled(True)
            log, x = [], torch.eye(2).requires_grad_()
            result, squared, enabled = call(x, log)
            assert torch.is_grad_enabled() is enabled is not on
            (gradient,) = torch.autograd.grad(log[0], x)
            found.append((result.tolist(), result.requires_grad, squared.tolist(), gradient.tolist()))
        assert found[0] == found[1]
    assert not dynamlir.fallbacks()


def test_after_a_break_without_grad_mode_gradients_are_compiled():
    def function(x):
        with torch.no_grad():
            scale = x.sin() + 1
            torch._dynamo.graph_break()
            scale = scale.exp()
        return x * scale

    compiled = dynamlir.compile(function)
    for _ in range(2):
        found = []
        for call in (function, compiled):
            x = torch.ones(2, requires_grad=True)
            (gradient,) = torch.autograd.grad(call(x).sum(), x)
            found.append(gradient)
        assert torch.allclose(*found)
    assert "autograd" not in {event.reason for event in dynamlir.fallbacks()}


def test_what_is_left_set_is_told_and_not_exported():
    (told,) = dynamlir.explain(grad_off)(X).effects
    assert told[0] == "torch.set_grad_enabled(False)" and (__file__, grad_off.__code__.co_firstlineno + 1) in [
        line[:2] for line in told[1]
    ]
    with pytest.raises(dynamlir.Unsupported, match="grad mode is left set"):
        dynamlir.export(grad_off, X)


def broken_after_it_was_set(x):
    y = torch.sin(x)
    torch.set_grad_enabled(False)
    torch._dynamo.graph_break()
    return y + x


def test_a_break_after_it_was_set():
    compiled = dynamlir.compile(broken_after_it_was_set)
    for _ in range(3):
        found = []
        for call in (broken_after_it_was_set, compiled):
            torch.set_grad_enabled(True)
            found.append((call(X.clone().requires_grad_()).requires_grad, torch.is_grad_enabled()))
        assert found == [(False, False)] * 2


def test_what_is_set_back_is_captured():
    def balanced(x):
        with torch.no_grad():
            y = x * 2
        torch.set_autocast_enabled("cpu", True)
        y = y @ x
        torch.set_autocast_enabled("cpu", False)
        return y + 1

    compiled = dynamlir.compile(balanced, fullgraph=True)
    for _ in range(2):
        assert outcome(compiled) == outcome(balanced)
    assert not dynamlir.fallbacks()


@pytest.mark.parametrize("function", [autocast_entered, nesting])
def test_explaining_and_stepping_leave_nothing_set(function):
    before = state()
    dynamlir.explain(function)(X)
    with pytest.raises(RuntimeError):
        dynamlir.trace_steps(function)(X)
    dynamlir.explain(grad_off)(X)
    dynamlir.trace_steps(grad_off)(X)
    assert state() == before


def draws_and_looks_up(x, table, index):
    noise = torch.rand(4)
    return x + noise + table[index]


@pytest.mark.parametrize(
    "door", [dynamlir.compile, functools.partial(torch.compile, backend="dynamlir")], ids=["own", "torch.compile"]
)
@pytest.mark.parametrize("eager_random", [False, True])
def test_a_call_that_fails_leaves_the_random_state_that_eager_leaves(door, eager_random):
    x, table, index = torch.ones(4), torch.randn(6), torch.tensor([0, 1, 2, 3])
    compiled = door(draws_and_looks_up, options={"eager_random": eager_random})
    with torch.no_grad():
        compiled(x, table, index)
        # Without ``eager_random``, a call that succeeds draws other numbers than eager.
        for bad in (index, index + 3, index) if eager_random else (index + 3,):
            after = []
            for function in (draws_and_looks_up, compiled):
                torch.manual_seed(3)
                try:
                    result = function(x, table, bad)
                except IndexError as error:
                    result = str(error)
                after.append(
                    (result.tolist() if isinstance(result, torch.Tensor) else result, torch.get_rng_state().tolist())
                )
            assert after[0] == after[1]


def test_a_recording_that_is_given_up_leaves_no_level_of_forward_mode():
    """Levels that Dynamo has entered in C++ are ended; otherwise the graph could not run plain."""

    def function(x, w):
        primal = (x @ w).relu_()
        tangent = (x * -1).t().contiguous().t()  # another layout, which is copied
        return torch.func.jvp(torch.sigmoid, (primal,), (tangent,))[1]

    x, w = (torch.randn(3, 3, requires_grad=True) for _ in range(2))
    compiled = torch.compile(function, backend="dynamlir")
    with dynamlir.config.patch(on_plain="ignore"):
        for _ in range(2):
            torch.testing.assert_close(compiled(x, w), function(x, w))
