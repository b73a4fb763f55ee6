"""`dynamlir.error_on_graph_break`: graph breaks that are errors, around compiled calls and within them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import forked
import pytest
import torch
import torch._dynamo
from between import X, alike, goes_on, said, say


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    yield
    assert not torch._dynamo.utils._get_error_on_graph_break()


def refused(function: Callable[..., Any], *args: Any, line: str) -> None:
    """Checks that a call raises what it raises under ``fullgraph=True``, with this line in the message."""
    said.clear()
    with pytest.raises(dynamlir.Unsupported) as caught:
        function(*args)
    assert line in str(caught.value), caught.value
    assert not said


def speaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    said.append(len(y.tolist()))
    return y * 2


def line_of(function: Callable[..., Any], offset: int) -> str:
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def test_around_a_call_it_is_as_fullgraph() -> None:
    compiled = dynamlir.compile(speaks)
    with pytest.raises(dynamlir.Unsupported) as whole:
        dynamlir.compile(speaks, fullgraph=True)(X)
    with dynamlir.error_on_graph_break(True), pytest.raises(dynamlir.Unsupported) as caught:
        compiled(X)
    assert str(caught.value) == str(whole.value)
    assert line_of(speaks, 2) in str(caught.value)


def test_entries_that_break_are_asked_as_well() -> None:
    compiled = dynamlir.compile(speaks)
    alike(compiled(X), speaks(X))
    with dynamlir.error_on_graph_break(True):
        refused(compiled, X, line=line_of(speaks, 2))
        with dynamlir.error_on_graph_break(False):
            alike(compiled(X), speaks(X))
        refused(compiled, X, line=line_of(speaks, 2))
    alike(compiled(X), speaks(X))
    assert len(compiled._cache) == 1


def test_what_does_not_break_runs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(True):
            y = x.sin()
        return y + 1

    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(3):
        alike(compiled(X), function(X))
    assert dynamlir.counters()["graphs"] == 1 and not dynamlir.fallbacks()


def test_only_the_lines_that_it_covers() -> None:
    def before_and_after(x: torch.Tensor) -> torch.Tensor:
        say(1)
        with dynamlir.error_on_graph_break(True):
            x = x * 2
        say(2)
        return x + 1

    def within(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        with dynamlir.error_on_graph_break(True):
            x = x * 2
            said.append(len(x.tolist()))
        return x

    compiled = dynamlir.compile(before_and_after)
    for _ in range(2):
        alike(compiled(X), before_and_after(X))
    # The middle piece is one graph with code from both sides of the block.
    assert dynamlir.counters()["graph_breaks"] == 2
    compiled = dynamlir.compile(within)
    for _ in range(2):
        refused(compiled, X, line=line_of(within, 4))


def test_the_innermost_decides() -> None:
    def allowed(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(False):
            y = speaks(x)
        return y + 1

    compiled = dynamlir.compile(allowed)
    with dynamlir.error_on_graph_break(True):
        for _ in range(2):
            alike(compiled(X), allowed(X))
    alike(compiled(X), allowed(X))
    assert dynamlir.counters()["graph_breaks"] >= 1

    def outer(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(True):
            with dynamlir.error_on_graph_break(False):
                say("done")
            x = x + 1
            said.append(x.tolist())
        return x

    compiled = dynamlir.compile(outer)
    for _ in range(2):
        said.clear()
        with pytest.raises(dynamlir.Unsupported, match=line_of(outer, 5)):
            compiled(X)
        # The allowed part has run.
        assert [words[2:] for words in said] == [("done",)]


def test_fullgraph_is_stricter() -> None:
    def allowed(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(False):
            return speaks(x)

    compiled = dynamlir.compile(allowed, fullgraph=True)
    refused(compiled, X, line=line_of(speaks, 2))


def test_as_a_decorator_of_what_is_called() -> None:
    callee = dynamlir.error_on_graph_break(True)(speaks)

    def function(x: torch.Tensor) -> torch.Tensor:
        return callee(x.sin())

    refused(dynamlir.compile(function), X, line=line_of(speaks, 2))

    @dynamlir.error_on_graph_break(True)
    def does_not(x: torch.Tensor) -> torch.Tensor:
        return x.cos()

    compiled = dynamlir.compile(does_not, fullgraph=True)
    for _ in range(2):
        alike(compiled(X), does_not(X))


def test_after_a_break_in_the_same_frame() -> None:
    def function(x: torch.Tensor, strict: bool) -> torch.Tensor:
        y = x.sin()
        say("allowed")
        with dynamlir.error_on_graph_break(strict):
            y = speaks(y)
        return y

    compiled = dynamlir.compile(function)
    alike(compiled(X, False), function(X, False))
    for _ in range(2):
        said.clear()
        with pytest.raises(dynamlir.Unsupported, match=line_of(speaks, 2)):
            compiled(X, True)
        assert [words[2:] for words in said] == [("allowed",)]
        assert not torch._dynamo.utils._get_error_on_graph_break()
    alike(compiled(X, False), function(X, False))


def test_in_a_loop_and_where_something_is_raised() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, list[bool]]:
        seen = []
        for at in range(3):
            try:
                with dynamlir.error_on_graph_break(True):
                    x = x + 1
                    if at == 1:
                        raise ValueError(at)
            except ValueError:
                x = x * 2
            seen.append(torch._dynamo.utils._get_error_on_graph_break())
            say(at)
        return x, seen

    compiled = dynamlir.compile(function)
    for _ in range(2):
        alike(compiled(X), function(X))


def test_frames_that_are_plain_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "graph_breaks", False)
    compiled = dynamlir.compile(speaks)
    alike(compiled(X), speaks(X))
    with dynamlir.error_on_graph_break(True):
        for _ in range(2):
            refused(compiled, X, line=line_of(speaks, 2))
    alike(compiled(X), speaks(X))


def test_torchs_own_name() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch._dynamo.error_on_graph_break(True):
            return speaks(x)

    refused(dynamlir.compile(function), X, line=line_of(speaks, 2))
    compiled = dynamlir.compile(speaks)
    with torch._dynamo.error_on_graph_break(True):
        refused(compiled, X, line=line_of(speaks, 2))


def test_our_name_under_torch_compile() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(True):
            say("there")
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(function, backend="dynamlir")(X)


def test_explain_shows_the_break() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with dynamlir.error_on_graph_break(True):
            return speaks(x)

    found = dynamlir.explain(function)(X)
    assert [reason for reason, _ in found.break_reasons if line_of(speaks, 2) in reason]


def test_it_takes_true_or_false() -> None:
    with pytest.raises(TypeError, match="True or False"):
        dynamlir.error_on_graph_break(1)  # type: ignore[arg-type]


def test_torchs_package_is_imported_for_those_who_ask_only() -> None:
    program = """
import sys, torch, dynamlir
assert "torch._dynamo" not in sys.modules

def function(x):
    with dynamlir.error_on_graph_break(True):
        return x + 1

compiled = dynamlir.compile(function, fullgraph=True)
assert compiled(torch.ones(3)).tolist() == [2.0] * 3
assert not dynamlir.fallbacks()
"""
    done = forked.python(program, only_torch=True)
    assert done.returncode == 0, done.stderr


def test_an_exception_that_leaves_the_region_may_end_a_graph() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            with dynamlir.error_on_graph_break(True):
                y = x + 1
                raise KeyError("inside")
        except KeyError:
            say("outside")
            return y

    goes_on(function, X)


@dynamlir.error_on_graph_break(True)
def wrong_size(x: torch.Tensor) -> torch.Tensor:
    return x.view(x.numel() + 1)


def test_an_exception_of_the_programs_is_no_break() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        try:
            return wrong_size(x)
        except RuntimeError:
            say("outside")
            return x + 1

    compiled = dynamlir.compile(function)
    for _ in range(3):
        alike(compiled(X), function(X))
