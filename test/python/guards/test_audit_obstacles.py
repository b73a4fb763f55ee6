"""Audits under adverse conditions (threads, interruptions, errors, objects that lie, programs that change) report no
false difference and leave the program alone.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import dynamlir
import pytest
import torch
from audited import BOX, LOG, audited, in_the_graph, ones
from dynamlir.capture import fingerprint

pytestmark = [pytest.mark.stale]
__all__ = ["audited"]


def logs(x: torch.Tensor) -> torch.Tensor:
    LOG.append("called")
    return x + 1


def changing(change: Callable[[], None], after: int = 0) -> Any:
    """Patches the function that renders programs as text, so that something happens in the middle of an audit."""
    original, calls = fingerprint.program, itertools.count()

    def program(session: Any) -> Any:
        if next(calls) >= after:
            change()
        return original(session)

    return mock.patch.object(fingerprint, "program", program)


def test_what_another_thread_writes_meanwhile_is_no_difference() -> None:
    compiled = dynamlir.compile(in_the_graph)
    compiled(ones())

    def write() -> None:
        writing = threading.Thread(target=lambda: setattr(BOX, "held", (5, 6)))
        writing.start()
        writing.join()

    with changing(write):
        assert torch.equal(compiled(ones()), ones() * 5)
    assert not dynamlir.audits().differences
    assert dynamlir.audits().skipped == {"what the call looks at changed meanwhile": 1}


def test_what_differs_each_time_is_no_difference() -> None:
    compiled = dynamlir.compile(in_the_graph)
    compiled(ones())
    numbers = itertools.count()
    with mock.patch.object(fingerprint, "program", lambda session: [(f"line {next(numbers)}", [])]):
        assert torch.equal(compiled(ones()), ones() * 2)
    assert dynamlir.audits().skipped == {"it is not the same program when it is captured twice": 1}
    (between,) = dynamlir.audits().unsteady
    assert (between.what, between.kept, between.found) == ("the program", "line 0", "line 1")


def test_functions_that_are_not_looked_into_are_not_called_again() -> None:
    calls = []

    @torch.compiler.assume_constant_result
    def constant() -> int:
        calls.append(1)
        return 2

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * constant()

    compiled = dynamlir.compile(program)
    for _ in range(3):
        assert torch.equal(compiled(ones()), ones() * 2)
    assert len(calls) == 1
    assert list(dynamlir.audits().skipped.values()) == [2] and not dynamlir.audits().same


def test_an_interruption_is_the_callers_and_leaves_the_entry() -> None:
    compiled = dynamlir.compile(logs)
    compiled(ones())

    def interrupt() -> None:
        raise KeyboardInterrupt

    filters = list(warnings.filters)
    with changing(interrupt), pytest.raises(KeyboardInterrupt):
        compiled(ones())
    assert len(LOG) == 1 and len(compiled._cache) == 1 and filters == warnings.filters
    assert not torch._C._len_torch_dispatch_stack()
    compiled(ones())
    assert len(LOG) == 2 and dynamlir.audits().same == 1


def test_an_audit_that_fails_is_skipped() -> None:
    compiled = dynamlir.compile(in_the_graph)
    compiled(ones())

    def fail() -> None:
        raise ValueError("on purpose")

    with changing(fail):
        assert torch.equal(compiled(ones()), ones() * 2)
    assert list(dynamlir.audits().skipped) == ["it failed: ValueError: on purpose"]


class Lying:
    """An object that lies about itself and counts the queries it receives."""

    asked = 0

    def __init__(self) -> None:
        self.n = 2

    def __eq__(self, other: object) -> bool:
        type(self).asked += 1
        return True

    def __hash__(self) -> int:
        type(self).asked += 1
        return 1

    def __repr__(self) -> str:
        type(self).asked += 1
        return "lying"

    @property
    def __class__(self) -> Any:
        Lying.asked += 1
        return int


def test_objects_that_lie_are_asked_nothing_more() -> None:
    def program(x: torch.Tensor, lying: Any) -> Any:
        return x * lying.n, [lying]

    lying, compiled = Lying(), dynamlir.compile(program)
    compiled(ones(), lying)
    before = Lying.asked
    for _ in range(2):
        result, (same,) = compiled(ones(), lying)
        assert same is lying and torch.equal(result, ones() * 2)
    with dynamlir.config.patch(audit=False):
        between = Lying.asked
        compiled(ones(), lying)
        once = Lying.asked - between
    assert between - before == 2 * once and dynamlir.audits().same == 2


def test_a_program_that_changes_what_it_reads_is_audited_before_it_does() -> None:
    def steps(x: torch.Tensor, state: dict[str, Any]) -> torch.Tensor:
        state["n"] = state["n"] * 2 if state["n"] < 8 else 1
        return x * state["n"]

    compiled, ours, theirs = dynamlir.compile(steps), {"n": 1}, {"n": 1}
    for _ in range(12):
        assert torch.equal(compiled(ones(), ours), steps(ones(), theirs)) and ours == theirs
    assert not dynamlir.audits().differences and not dynamlir.audits().skipped
