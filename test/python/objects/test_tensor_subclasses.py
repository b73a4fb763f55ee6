"""Tensor subclasses with behavior of their own: it runs in plain Python, with a counted reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import dynamlir
import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

X = torch.arange(3.0)


class Named(torch.Tensor):
    """Has a method of its own, and overrides one of torch's."""

    def special(self) -> Any:
        return self + 100

    def relu(self) -> Any:
        return super().relu() + 7


class Counted(torch.Tensor):
    """Records the functions that are called with it."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Counted.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Tripled(torch.nn.Parameter):
    """A weight that multiplies the results of products by three."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        return result * 3 if func is torch._C._nn.linear else result


class Layer(torch.nn.Module):
    def __init__(self, weight: torch.nn.Parameter) -> None:
        super().__init__()
        self.before, self.weight = torch.nn.Linear(3, 3), weight
        with torch.no_grad():
            self.before.weight.fill_(0.5)
            self.before.bias.fill_(1.0)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.nn.functional.linear(self.before(x).relu(), self.weight).sin()


def changes(x: torch.Tensor) -> Any:
    pair = TwoTensor(x + 1, x + 2)
    pair.add_(1)
    return pair * 2


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "a method that is another": (lambda a: a.relu() + 1, lambda: (X.as_subclass(Named),)),
    "a method of its own": (lambda a: a.special().sin(), lambda: (X.as_subclass(Named),)),
    "made in the function": (lambda a: (a + 1).as_subclass(Named).relu(), lambda: (X,)),
    "made a plain one": (lambda a: a.as_subclass(torch.Tensor).relu() + 1, lambda: (X.as_subclass(Named),)),
    "in a list": (lambda held: held[0].relu() + held[1], lambda: ([X.as_subclass(Named), X],)),
    "asked for its class": (lambda a: a + 1 if isinstance(a, Named) else a - 1, lambda: (X.as_subclass(Named),)),
    "beside a plain one": (lambda a, b: a + b, lambda: (X, X.as_subclass(Named))),
    "that counts": (lambda a: (a + 1).relu() * a.shape[0], lambda: (X.as_subclass(Counted),)),
    "a weight": (Layer(Tripled(torch.ones(3, 3))), lambda: (X,)),
    "a weight of two": (Layer(torch.nn.Parameter(TwoTensor(torch.ones(3, 3), torch.full((3, 3), 2.0)))), lambda: (X,)),
    "two": (lambda a: a.sin() + 1, lambda: (TwoTensor(X, X + 1),)),
    "two, whose parts are read": (lambda a, two: (a + two.a).sin() * two.b, lambda: (X, TwoTensor(X, X + 1))),
    "two, made in the function": (lambda a: TwoTensor(a, a + 1).sin().b * 2, lambda: (X,)),
    "two, returned": (lambda a: TwoTensor(a.sin(), a.cos()), lambda: (X,)),
    "two, changed in place": (changes, lambda: (X,)),
}


@pytest.fixture(autouse=True)
def keys_are_restored() -> Iterator[None]:
    """Restores the thread's dispatch keys: with a subclass as a weight, torch leaves one of them set."""
    included, excluded = torch._C._dispatch_tls_local_include_set(), torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded):
        yield


def seen(value: Any) -> Any:
    if isinstance(value, TwoTensor):
        return TwoTensor, seen(value.a), seen(value.b)
    return type(value), value.detach().as_subclass(torch.Tensor).tolist(), value.requires_grad


@pytest.mark.parametrize("name", PROGRAMS)
def test_its_behaviour_is_what_runs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    function, given = PROGRAMS[name]
    compiled = dynamlir.compile(function)
    outcomes = []
    for call in (function, compiled, compiled, compiled):
        Counted.calls.clear()
        found = call(*given())
        outcomes.append((list(Counted.calls), seen(found)))
    assert outcomes.count(outcomes[0]) == len(outcomes), outcomes
    assert {event.reason for event in dynamlir.fallbacks()} & {"subclass", "tensor-escape"}


def test_what_torch_leaves_set_on_the_thread_is_no_obstacle() -> None:
    torch.nn.functional.linear(X, TwoTensor(torch.ones(3, 3), torch.ones(3, 3)))
    compiled = dynamlir.compile(lambda x: x.sin() + 1)
    torch.testing.assert_close(compiled(X), X.sin() + 1)
    assert not dynamlir.fallbacks()
