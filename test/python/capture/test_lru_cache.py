"""Functions under `functools.lru_cache`: cached answers are used, even if the function would now return another value.

A call that is not in the cache runs as plain Python, once, at the point where the program makes it. The program's next
call is captured with the answer from the cache.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any

import dynamlir
import pytest
import torch

X = torch.ones(2)


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", dynamlir.PlainRunWarning)
        yield


def reasons() -> list[str]:
    return [event.reason for event in dynamlir.fallbacks()]


def scaled(**options: Any) -> Any:
    """A cached function that records its calls, and that depends on a value that the cache does not see."""

    @functools.lru_cache(**options)
    def scale(k: int, *more: int, **named: int) -> float:
        scale.calls.append(k)
        return k * scale.factor + sum(more) + sum(named.values())

    scale.calls, scale.factor = [], 3
    return scale


@pytest.mark.parametrize("options", [{}, {"maxsize": None}, {"maxsize": 2}, {"typed": True}], ids=str)
@pytest.mark.parametrize("call", ["(2)", "(2, 5)", "(2, b=4)", "(2, 5, b=4, c=1)"])
def test_the_function_is_called_once_and_its_answer_stays(options: dict[str, Any], call: str) -> None:
    scale = scaled(**options)
    compiled = dynamlir.compile(eval(f"lambda x: x * scale{call}", {"scale": scale}))
    right = eval(f"other{call}", {"other": scaled()})
    for again in range(3):
        assert torch.equal(compiled(X), X * right)
        assert scale.calls == [2]
        assert scale.cache_info().hits == again, "each call of the program counts once"
        scale.factor = 100
    assert reasons() == ["first-call"]
    assert len(compiled._cache) == 2


def test_a_cleared_cache_is_asked_anew() -> None:
    scale = scaled()
    compiled = dynamlir.compile(lambda x: x * scale(2))
    scale(2)
    assert torch.equal(compiled(X), X * 6) and not reasons()
    scale.factor = 5
    assert torch.equal(compiled(X), X * 6)
    scale.cache_clear()
    assert torch.equal(compiled(X), X * 10) and scale.calls == [2, 2]
    assert torch.equal(compiled(X), X * 10) and scale.calls == [2, 2]
    assert reasons() == ["first-call"]


@dynamlir.config.patch(on_plain="ignore")
def test_an_answer_that_is_forgotten_for_others() -> None:
    scale = scaled(maxsize=1)
    compiled = dynamlir.compile(lambda x: x * scale(2))
    for factor in (3, 4, 5):
        scale.factor = factor
        scale(7)
        for _ in range(2):
            assert torch.equal(compiled(X), X * 2 * factor)
    assert scale.calls == [7, 2] * 3


def test_an_answer_of_any_kind() -> None:
    @functools.cache
    def table(n: int) -> torch.Tensor:
        return torch.arange(n).float()

    @functools.cache
    def names() -> dict[str, float]:
        return {"a": 2.0}

    compiled = dynamlir.compile(lambda x: (x + table(2)) * names()["a"], fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(X), (X + table(2)) * 2.0)
    names()["a"] = 3.0
    assert torch.equal(compiled(X), (X + table(2)) * 3.0)


def test_what_is_raised_is_raised_each_time() -> None:
    calls = []

    @functools.lru_cache
    def picky(k: int) -> int:
        calls.append(k)
        raise ValueError(k)

    compiled = dynamlir.compile(lambda x: x * picky(2))
    for count in (1, 2):
        with pytest.raises(ValueError, match="2"):
            compiled(X)
        assert calls == [2] * count


def test_a_cache_that_keeps_nothing_is_told() -> None:
    scale = scaled(maxsize=0)
    compiled = dynamlir.compile(lambda x: x * scale(2))
    assert torch.equal(compiled(X), X * 6)
    with pytest.raises(dynamlir.PlainRunWarning, match="first-call"):
        compiled(X)
    assert scale.calls == [2], "raised before anything ran"
    whole = dynamlir.compile(lambda x: x * scale(2), fullgraph=True)
    whole(X)
    with pytest.raises(dynamlir.Unsupported, match="first-call"):
        whole(X)


def test_tensors_are_known_by_which_they_are() -> None:
    @functools.lru_cache
    def doubled(x: torch.Tensor, *, plus: float = 0.0) -> torch.Tensor:
        return x * 2 + plus

    compiled = dynamlir.compile(lambda x: (doubled(x), doubled(x, plus=1.0).sum() + doubled(x + 1)), fullgraph=True)
    x = torch.ones(2)
    first, total = compiled(x)
    assert torch.equal(first, x * 2) and torch.equal(total, 6 + (x + 1) * 2)
    assert doubled.cache_info()[:2] == (0, 3) and dynamlir.counters()["graphs"] >= 2
    x.add_(1)
    again, _ = compiled(x)
    assert again is first, "the cache does not see what is in a tensor"
    assert doubled.cache_info()[:2] == (2, 4) and not reasons()
    other, _ = compiled(x.clone())
    assert torch.equal(other, x * 2)


class Layer:
    def __init__(self) -> None:
        self.weight, self.calls = X * 3, 0

    @functools.lru_cache  # noqa: B019
    def factor(self, k: int) -> int:
        self.calls += 1
        return k + self.calls

    @functools.lru_cache  # noqa: B019
    def weighted(self, k: int) -> torch.Tensor:
        return self.weight * k


@pytest.mark.parametrize("made", [False, True])
def test_objects_are_known_by_which_they_are(made: bool) -> None:
    layer = Layer()

    def scaled(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        own = Layer() if made else layer
        return x * own.factor(2) * own.factor(2), own.calls

    compiled = dynamlir.compile(scaled)
    for _ in range(3):
        result, calls = compiled(X)
        assert torch.equal(result, X * 9) and calls == 1
    assert not reasons()


def test_what_would_be_computed_by_plain_python_is_told() -> None:
    layer = Layer()
    compiled = dynamlir.compile(lambda x: x * layer.weighted(2), fullgraph=True)
    with pytest.raises(dynamlir.Unsupported, match="c-function"):
        compiled(X)
