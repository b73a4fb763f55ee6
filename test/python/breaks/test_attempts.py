"""Each further attempt at capturing a frame is logged with its reason (``DYNAMLIR_LOGS=attempts``)."""

from __future__ import annotations

import logging
from collections.abc import Callable

import dynamlir
import pytest
import torch
from torch import Tensor


def logged(caplog: pytest.LogCaptureFixture, function: Callable[..., object], *calls: object) -> list[str]:
    """The lines that calls of a compiled function log."""
    compiled = dynamlir.compile(function)
    with caplog.at_level(logging.INFO, "dynamlir.attempts"):
        for given in calls:
            compiled(given)
    return [record.message for record in caplog.records if record.name == "dynamlir.attempts"]


def doubled(x: Tensor) -> Tensor:
    return x * 2


def branching(x: Tensor) -> Tensor:
    if x.sum() > 0:
        return x + 1
    return x - 1


def counted(number: float) -> Tensor:
    return torch.ones(int(number)) * number


def written(number: float) -> Tensor:
    return torch.ones(3) * len(f"{number}")


def asking(x: Tensor) -> Tensor:
    scale = 3 if torch.compiler.is_compiling() else 2
    print("a graph break")
    return x * scale


def test_a_first_attempt_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, doubled, torch.ones(2)) == []


def test_a_graph_break_takes_a_second_attempt(caplog: pytest.LogCaptureFixture) -> None:
    first, *_ = logged(caplog, branching, torch.ones(2))
    assert first.startswith("branching: attempt 2, since the graph breaks, and ends before that instruction, after ")
    assert "test_attempts.py" in first


def test_numbers_become_constants(caplog: pytest.LogCaptureFixture) -> None:
    (line,) = logged(caplog, counted, 1.5, 2.5)
    assert "Python needs the values of some symbols, which become constants" in line
    caplog.clear()
    (line,) = logged(caplog, written, 1.5, 2.5)
    assert "all numbers are constants, after data-dependent-text" in line


def test_eagers_answer_follows(caplog: pytest.LogCaptureFixture) -> None:
    lines = logged(caplog, asking, torch.ones(2))
    assert any("the program has asked if it is being compiled, and gets eager's answer" in line for line in lines), (
        lines
    )
