"""Compiled functions in rare uses of the interpreter: a subinterpreter, tracebacks by faulthandler in deep calls,
recursion up to the limit, annotations with undefined names.
"""

from __future__ import annotations

import faulthandler
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import forked
import pytest
import torch

X = torch.linspace(-1, 1, 4)
# On 3.11 torch's backward refuses to run in a process that has had two interpreters, so this runs in its own.
BESIDE = """
import sys
import dynamlir, torch

PROGRAM = '''
class Counted:
    def __init__(self, count):
        self.count = count
    def squares(self):
        return sum(number * number for number in range(self.count))
for _ in range(50):
    assert Counted(50).squares() == 40425
'''

def run_beside():
    if sys.version_info >= (3, 13):
        import _interpreters as interpreters
        other = interpreters.create()
        failure = interpreters.exec(other, PROGRAM)
        assert failure is None, failure
    else:
        import _xxsubinterpreters as interpreters
        other = interpreters.create()
        interpreters.run_string(other, PROGRAM)
    interpreters.destroy(other)

def function(x):
    return (x * 2).sin()

x = torch.linspace(-1, 1, 4)
compiled = dynamlir.compile(function, fullgraph=True)
for _ in range(3):
    assert torch.equal(compiled(x), function(x))
    run_beside()
assert torch.equal(compiled(x[:3]), function(x[:3]))
print("done")
"""


def test_an_interpreter_beside_this_one() -> None:
    finished = forked.python(BESIDE)
    assert finished.returncode == 0, finished.stderr[-2000:]
    assert finished.stdout == "done\n"


def traced(depth: int, x: Any, seen: list[str]) -> Any:
    if depth == 0:
        with tempfile.TemporaryFile() as file:
            faulthandler.dump_traceback(file)
            file.seek(0)
            seen.append(file.read().decode())
        return x + 1
    return traced(depth - 1, x, seen) * 1.5


@pytest.mark.parametrize("depth", [3, 30])
def test_faulthandler_in_deep_calls(depth: int) -> None:
    """It names each call, including those with frames between graphs; it shows at most a hundred active calls."""

    def calls(function: Callable[..., Any]) -> list[str]:
        seen: list[str] = []
        function(depth, X, seen)
        lines = [line.strip() for line in seen[0].splitlines()]
        return [line for line in lines if line.endswith("in traced")]

    expected = calls(traced)
    assert len(expected) == depth + 1
    compiled = dynamlir.compile(traced)
    assert [calls(compiled) for _ in range(3)] == [expected] * 3


@pytest.fixture
def limit() -> Iterator[None]:
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("limit")
@pytest.mark.parametrize("allowed", [200, 10**9, 2**31 - 1])
def test_limits_of_recursion_at_their_ends(allowed: int) -> None:
    def down(depth: int, x: Any) -> Any:
        return x if depth == 0 else down(depth - 1, x) + 1

    compiled = dynamlir.compile(down)
    sys.setrecursionlimit(allowed)
    assert torch.equal(compiled(60, X), down(60, X))


@pytest.mark.usefixtures("limit")
def test_a_limit_that_is_reached() -> None:
    def down(depth: int, x: Any) -> Any:
        return x if depth == 0 else down(depth - 1, x) + 1

    compiled = dynamlir.compile(down)
    sys.setrecursionlimit(200)
    for function in (down, compiled, compiled):
        with pytest.raises(RecursionError):
            function(400, X)
    assert torch.equal(compiled(3, X), X + 3)


# Without the __future__ import of this file, whose annotations are never evaluated.
ANNOTATED = """
def annotated(x):
    class Adds:
        amount: nobody_defines = 1
        def add(self, x: nor_this) -> nor_that:
            return x + self.amount
    y: local = x * 2
    return Adds().add(y)
"""


def test_annotations_of_names_that_nobody_defines() -> None:
    """CPython evaluates them when a class or a function is created; from 3.14 on, only when they are requested."""
    scope: dict[str, Any] = {}
    exec(compile(ANNOTATED, __file__, "exec", dont_inherit=True), scope)
    function = scope["annotated"]
    compiled = dynamlir.compile(function)
    for _ in range(2):
        if sys.version_info >= (3, 14):
            assert torch.equal(compiled(X), function(X))
        else:
            for one in (function, compiled):
                with pytest.raises(NameError, match="nobody_defines"):
                    one(X)
