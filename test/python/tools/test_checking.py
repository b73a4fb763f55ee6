"""``options={"check": True}``: graphs that compute something other than eager are found, named, and run as eager."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import compilation
from dynamlir.recording import Recording

DOORS: dict[str, Callable[..., Any]] = {
    "dynamlir.compile": dynamlir.compile,
    "torch.compile": lambda function, **given: torch.compile(function, backend="dynamlir", **given),
}


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    yield DOORS[request.param]
    torch.compiler.reset()
    dynamlir.reset()


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler with a bug: its tanh is a sine."""
    complete = compilation._complete

    def confused(recording: Recording, *args: Any) -> None:
        for op in recording.ops:
            if op.schema == "aten.tanh.default":
                op.schema = "aten.sin.default"
        complete(recording, *args)

    monkeypatch.setattr(compilation, "_complete", confused)


def model(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sin() * y
    b = (a + 1).tanh()
    return a @ b, (b * 2).sum(), torch.rand(3)


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)


def agrees(compiled: Callable[..., Any], *given: torch.Tensor) -> bool:
    """Returns true if results, the gradient of the first input, and the random state are eager's."""
    found = []
    for run in (compiled, model):
        torch.manual_seed(7)
        outputs = run(*given)
        found.append([*outputs, *torch.autograd.grad(outputs[1], given[0]), torch.rand(2)])
    return all(torch.allclose(ours, eagers, atol=1e-5) for ours, eagers in zip(*found))


def test_what_is_right_stays_compiled(door: Callable[..., Any]) -> None:
    compiled, given = door(model, options={"check": 2}), inputs()
    assert all(agrees(compiled, *given) for _ in range(4))
    assert dynamlir.fallbacks() == []


def test_what_is_wrong_runs_as_eager_and_is_named(door: Callable[..., Any], wrong_tanh: None) -> None:
    compiled, given = door(model, options={"check": True}), inputs()
    with pytest.warns(dynamlir.PlainRunWarning, match="wrong-result"):
        assert agrees(compiled, *given)
    assert agrees(compiled, *given)
    events = dynamlir.fallbacks()
    assert {event.reason for event in events} == {"wrong-result"}
    line = model.__code__.co_firstlineno + 2
    assert f"the first operation that differs is tanh at {__file__}:{line}" in events[0].message
    assert events[0].message.startswith("output 0 has ")


def test_without_it_the_bug_is_not_seen(door: Callable[..., Any], wrong_tanh: None) -> None:
    """So that the tests above test something."""
    assert not agrees(door(model, options={"eager_random": True}), *inputs())


def test_only_the_first_calls_are_checked(door: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, given = door(model, options={"check": 1}), inputs()
    assert agrees(compiled, *given)
    monkeypatch.setattr("dynamlir.checking._outcome", lambda *args, **named: pytest.fail("checked once more"))
    assert agrees(compiled, *given)


def test_writes_to_inputs(door: Callable[..., Any], wrong_tanh: None) -> None:
    def program(x: torch.Tensor) -> None:
        x.copy_(x.tanh())

    compiled = door(program, options={"check": True})
    x = torch.ones(3)
    with pytest.warns(dynamlir.PlainRunWarning, match="input 0 after the call has"):
        compiled(x)
    assert torch.allclose(x, torch.ones(3).tanh())


def test_gradients(door: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum()

    x = torch.ones(3, requires_grad=True)
    real = torch.autograd.grad

    def wrong(outputs: Any, *args: Any, **named: Any) -> Any:
        found = real(outputs, *args, **named)
        # The nodes of compiled graphs have other names than torch's.
        own = not outputs[0].grad_fn.name().startswith("SumBackward")
        return tuple(2 * gradient for gradient in found) if own else found

    compiled = door(program, options={"check": True})
    monkeypatch.setattr(torch.autograd, "grad", wrong)
    with pytest.warns(dynamlir.PlainRunWarning, match="the gradient of input 0 has"):
        compiled(x)


def test_sums_in_another_order_are_no_difference(door: Callable[..., Any]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x * 1e4).sum(), x.softmax(0).log().mean()

    torch.manual_seed(0)
    compiled = door(program, options={"check": True})
    for _ in range(3):
        compiled(torch.randn(100_000))
    assert dynamlir.fallbacks() == []


def test_inputs_that_share_memory(door: Callable[..., Any]) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 2

    base = torch.arange(6.0)
    compiled = door(program, options={"check": True})
    assert torch.equal(compiled(base[:4], base[2:]), torch.tensor([6.0, 8.0, 8.0, 10.0]))
    assert torch.equal(base, torch.tensor([1.0, 2.0, 3.0, 4.0, 4.0, 5.0]))
    assert dynamlir.fallbacks() == []


@pytest.mark.parametrize("value", [-1, "yes", 1.5, None])
def test_bad_values(value: Any) -> None:
    with pytest.raises(ValueError, match=r"check is .*, expected True, False or a number of calls"):
        dynamlir.compile(model, options={"check": value})


def test_on_plain_raises(door: Callable[..., Any], wrong_tanh: None) -> None:
    compiled = door(model, options={"check": True})
    with dynamlir.config.patch(on_plain="error"), pytest.raises(dynamlir.Unsupported, match="wrong-result"):
        compiled(*inputs())


def test_dynamic_sizes(door: Callable[..., Any], wrong_tanh: None) -> None:
    compiled = door(lambda x: x.tanh().sum(), dynamic=True, options={"check": True})
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for size in (3, 5):
            x = torch.ones(size)
            assert torch.allclose(compiled(x), x.tanh().sum())
    assert any("wrong-result" in str(warning.message) for warning in seen)
