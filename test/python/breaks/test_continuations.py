"""Continuations after a graph break as Python source: `Explanation.continuations`, and the topic `bytecode`."""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from between import X, said, say


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield


class Entered(contextlib.AbstractContextManager[None]):
    """The context of a ``with`` in a continuation, which has already been entered."""

    def __init__(self, context: Any) -> None:
        self.context = context

    def __enter__(self) -> None:
        pass

    def __exit__(self, *raised: Any) -> Any:
        return self.context.__exit__(*raised)


def told(function: Callable[..., Any], *args: Any) -> list[str]:
    """The continuations of a call as text, with the numbers in their names replaced."""
    return [
        re.sub(r"__resume_at_\d+", "__resume_at_N", text) for text in dynamlir.explain(function)(*args).continuations
    ]


def made(text: str) -> Callable[..., Any]:
    """The first continuation that a text defines."""
    names: dict[str, Any] = {"say": say, "torch": torch}
    exec(text, names)
    return next(value for name, value in names.items() if name.startswith("__resume_at"))


def test_after_a_statement() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        unused = y * 3
        say("here", unused is None)
        return y * 2

    whole, rest = told(function, X)
    assert whole == ""
    assert rest == "def __resume_at_N_1(y):\n    return y * 2\n"
    torch.testing.assert_close(made(rest)(X + 1), function(X))


def test_names_have_offsets_and_numbers() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        say(1)
        x = x + 2
        say(2)
        return x * 2

    _, first, second = dynamlir.explain(function)(X).continuations
    names = [re.match(r"def __resume_at_(\d+)_(\d+)\(x\):", text) for text in (first, second)]
    assert all(names)
    (one, two) = [[int(group) for group in name.groups()] for name in names if name]
    assert (one[1], two[1]) == (1, 2) and one[0] < two[0] and not one[0] % 2


def test_in_the_middle_of_an_expression() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.stack([x.sin(), x + len(x.tolist())])

    _, rest = told(function, X)
    assert re.fullmatch(r"def __resume_at_N_1\((\w+, )+\w+\):\n    return stack_[01]\(\[.*\]\)\n", rest), rest


def test_in_a_loop_the_rest_of_the_iteration_comes_first() -> None:
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        for i in range(n):
            x = x + 1
            say(i)
            x = x * 2
            if i > 2:
                break
        return x - 1

    rest = next(text for text in told(function, X, 3) if text.startswith("def __resume_at_N_1"))
    # From CPython 3.12 on, each exit of the loop has its own return.
    if sys.version_info >= (3, 12):
        rest = rest.replace("        return x - 1\n", "")
    assert rest == (
        "def __resume_at_N_1(iterator_0, x, i):\n"
        "    x = x * 2\n"
        "    if not i > 2:\n"
        "        for i in iterator_0:\n"
        "            x = x + 1\n"
        "            say(i)\n"
        "            x = x * 2\n"
        "            if i > 2:\n"
        "                break\n"
        "    return x - 1\n"
    )
    torch.testing.assert_close(made(rest)(iter([1, 2]), X + 1, 0), function(X, 3))
    torch.testing.assert_close(made(rest)(iter([4, 5, 6]), X + 1, 3), (X + 1) * 2 - 1)


def test_in_a_loop_that_data_ends() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        while x.sum() < 40:
            x = x * 2
            say("again")
            x = x + 1
        return x

    for text in filter(None, told(function, X)):
        # A continuation is either the whole loop or begins with the rest of an iteration.
        x = X * 2 if text.splitlines()[1].strip() == "x = x + 1" else X
        torch.testing.assert_close(made(text)(x), function(X), msg=text)


def test_in_a_try() -> None:
    def function(x: torch.Tensor, word: str) -> torch.Tensor:
        y = x + 1
        try:
            say("t")
            y = y * int(word)
        except ValueError:
            y = y - 1
        finally:
            y = y * 3
        return y

    (rest,) = [text for text in told(function, X, "2") if "try:" in text and re.search(r"\((word, y|y, word)\)", text)]
    assert [line.strip() for line in rest.splitlines()[1:]] == [
        "try:",
        "y = y * int(word)",
        "except ValueError:",
        "y = y - 1",
        "finally:",
        "y = y * 3",
        "return y",
    ]
    order = re.findall(r"\((\w+), (\w+)\)", rest)[0]
    for word in ("2", "no"):
        given = {"y": X + 1, "word": word}
        torch.testing.assert_close(made(rest)(*(given[name] for name in order)), function(X, word))


def test_in_a_with_in_a_loop_in_a_with() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
        with torch.no_grad():
            for step in (1, 2):
                with torch.enable_grad():
                    x = x + step
                    say(step, torch.is_grad_enabled())
                    x = x * 2
                x = x - 1
            seen = torch.is_grad_enabled()
        return x, seen

    rest = next(
        text for text in told(function, X) if re.search(r"\(entered_0, iterator_\d, entered_\d, x, seen\)", text)
    )
    outer, inner = torch.no_grad(), torch.enable_grad()
    outer.__enter__()
    steps = iter((1, 2))
    x = X + next(steps)
    inner.__enter__()
    value, seen = made(rest)(Entered(outer), steps, Entered(inner), x, None)
    expected, _ = function(X)
    torch.testing.assert_close(value, expected)
    assert seen is False and torch.is_grad_enabled()


def inner(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    say("inner")
    return y * 2


def test_in_a_callee_those_around_are_given_what_it_has_returned() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = inner(x + 1) + 3
        return y.cos()

    _, rest = told(function, X)
    own, around = rest.split("\n\n")
    assert own == "def __resume_at_N_1(y):\n    return y * 2"
    assert around == "def __resume_at_N_1(returned):\n    y = returned + 3\n    return y.cos()\n"
    torch.testing.assert_close(made(around)(made(own)((X + 1).sin())), function(X))


def test_shared_variables_stay_shared() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        count = 0

        def bump() -> None:
            nonlocal count
            count += 1

        y = x + 1
        say("before")
        bump()
        count = count + 1
        return y * 2, count

    rest = told(function, X)[-1]
    assert "# free variables: count" in rest and "nonlocal count" in rest
    assert re.search(r"def __resume_at_N_1\((bump, y|y, bump)\):", rest), rest


def test_what_cannot_be_told_is_said_in_a_line() -> None:
    def function(x: torch.Tensor, failing: bool) -> torch.Tensor:
        x = x + 1
        say("before")
        try:
            if failing:
                raise ExceptionGroup("several", [ValueError()])
            x = x * 3
        except* ValueError:
            x = x - 1
        return x * 2

    rest = told(function, X, False)[-1]
    assert re.fullmatch(r"# .*function from offset \d+ on, which cannot be written as a function: .*\n", rest), rest


def test_what_is_captured_whole_has_none() -> None:
    assert dynamlir.explain(lambda x: x + 1)(X).continuations == ("",)


def test_the_topic_bytecode_shows_them(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        say("here")
        return y * 2

    said.clear()
    with caplog.at_level(logging.DEBUG, logger="dynamlir.bytecode"):
        dynamlir.compile(function)(X)
    shown = [record.getMessage() for record in caplog.records]
    assert any(re.search(r"def __resume_at_\d+_1\(y\):\n    return y \* 2", text) for text in shown), shown
    assert sum("def function" in text for text in shown) >= 1
