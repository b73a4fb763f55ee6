"""User objects as operands of operations: torch queries them for numbers, sizes and more through their Python methods.

During a capture, code that torch calls this way would run unnoticed: on fakes, once too often, or never again. Such a
call therefore runs plain. Methods that Python itself calls, such as `__rmul__`, are traced into.
"""

from __future__ import annotations

import collections
import enum
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

X = torch.ones(2)
LOG: list[str] = []


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    LOG.clear()
    with torch.no_grad(), dynamlir.config.patch(on_plain="ignore"):
        yield


class Logged:
    """Answers each query and logs it."""

    def __index__(self) -> int:
        LOG.append("index")
        return 2

    def __len__(self) -> int:
        LOG.append("len")
        return 1

    def __getitem__(self, at: int) -> float:
        LOG.append("item")
        if at:
            raise IndexError
        return 2.0

    def __radd__(self, other: Any) -> Any:
        LOG.append("radd")
        return other * 2

    def __eq__(self, other: object) -> bool:
        LOG.append("eq")
        return True

    __hash__ = object.__hash__


class Overrides:
    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> int:
        LOG.append("function")
        return 5


ONE, OVERRIDES = Logged(), Overrides()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.zeros(ONE),
        lambda x: x.view(1, ONE),
        lambda x: x.new_zeros((1, ONE)),
        lambda x: x[:ONE],
        lambda x: x.new_zeros(size=[ONE]),
        lambda x: x + ONE,
        lambda x: x == ONE,
        lambda x: torch.add(x, OVERRIDES),
        lambda x: x + torch.tensor(ONE),
    ],
)
def test_what_torch_calls_is_called_as_in_plain_python(function: Callable[..., Any]) -> None:
    def outcome(run: Callable[..., Any]) -> str:
        LOG.clear()
        try:
            return f"{run(X)} {LOG}"
        except Exception as error:
            return f"{type(error).__name__} {LOG}"

    right = outcome(function)
    assert "[]" not in right
    compiled = dynamlir.compile(function)
    assert [outcome(compiled) for _ in range(3)] == [right] * 3
    events = dynamlir.fallbacks()
    assert {event.reason for event in events} == {"c-function"} and "which may call" in events[0].message


class Size(enum.IntEnum):
    TWO = 2


Pair = collections.namedtuple("Pair", "rows columns")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.view(1, Size.TWO),
        lambda x: x.new_zeros(Pair(1, 2)) + x,
        lambda x: x.new_zeros(torch.Size([2])) + x,
        lambda x: x.to(torch.float64),
        lambda x: x * True,
    ],
)
def test_what_runs_no_python_code_is_captured(function: Callable[..., Any]) -> None:
    assert torch.equal(dynamlir.compile(function, fullgraph=True)(X), function(X))


class Length:
    """Scales tensors, like a class of a units library."""

    metres = 3.0

    def __mul__(self, other: Any) -> Any:
        return other * self.metres

    __rmul__ = __mul__

    def __le__(self, other: Any) -> Any:
        return other >= self.metres

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented


def test_operators_of_the_other_operand_are_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    length = Length()

    def function(x: torch.Tensor) -> Any:
        return x * length, length * x, x >= length, length <= x

    compiled = dynamlir.compile(function, fullgraph=True)
    for metres in (3.0, 0.5):
        monkeypatch.setattr(length, "metres", metres)
        for seen, right in zip(compiled(X), function(X), strict=True):
            assert torch.equal(seen, right)
    monkeypatch.setattr(Length, "__rmul__", lambda self, other: other * 7)
    assert torch.equal(compiled(X)[0], X * 7)
    # Now torch passes the operation to the object's `__torch_function__`.
    monkeypatch.setattr(Length, "__torch_function__", classmethod(lambda *_: 5), raising=False)
    assert dynamlir.compile(lambda x: x * length)(X) == 5


def test_an_operator_that_nobody_has_raises_as_in_plain_python() -> None:
    length = Length()
    compiled = dynamlir.compile(lambda x: x - length)
    with pytest.raises(TypeError, match="unsupported operand"):
        compiled(X)


def test_an_index_is_asked_once() -> None:
    asked = []

    class Place:
        def __index__(self) -> int:
            return 1

    values, place = [1.0, 2.0], Place()
    compiled = dynamlir.compile(lambda x: x * values[place], fullgraph=True)
    assert torch.equal(compiled(X), X * 2.0) and not asked
    Place.__index__ = lambda self: 0
    assert torch.equal(compiled(X), X * 1.0)
