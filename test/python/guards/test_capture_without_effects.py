"""A capture has no effects: whatever a program reads, the world and the process are unchanged afterwards.

A capture may only run the program's own code, each part as often as plain Python would. A function that writes runs as
plain Python: its effects are those of one call.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import forked
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from sampled import examples, one_in
from untouched import compare, known, programs, watch


def drawn(count: int) -> Any:
    """The settings of a test of random programs, the same in each run."""
    checks = [HealthCheck.function_scoped_fixture]
    return settings(max_examples=count, deadline=None, derandomize=True, suppress_health_check=checks)


@pytest.fixture(scope="module", autouse=True)
def used_before() -> None:
    """Triggers everything that is created or imported once."""
    reads = ("LIST[0]", "copy.deepcopy(LIST)[0]", "print(end='')", "len(inspect.signature(helper).parameters)")
    for body in (*(f"y = BLOCK(y) * {read}" for read in reads), "y = y + len(repr(DATA))\ny = y * CONFIG.scaled(2)"):
        world = programs.world(body)
        compiled = [dynamlir.compile(world.main, backend=backend) for backend in ("eager", "dynamlir")]
        for function in (world.main, dynamlir.explain(world.main), *compiled):
            with torch.no_grad():
                programs.called(function, world)
    gc.collect()


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    capfd.readouterr()
    yield
    assert capfd.readouterr() == ("", "")


def touched(body: str) -> list[str]:
    """The changes that only a capture makes."""
    world = programs.world(body)
    with programs.imported(world):
        return compare.changes(world, lambda: programs.called(dynamlir.explain(world.main), world))


def cases(expressions: list[str], expected: dict[str, str]) -> list[Any]:
    """One test each, some of which are expected to fail."""
    marks = {each: [pytest.mark.xfail(reason=why, strict=True)] for each, why in expected.items()}
    return [pytest.param(each, marks=marks.get(each, ())) for each in expressions]


ALIKE = [each for each in programs.WRITES if each not in known.TOUCHED]


@pytest.mark.whole
@pytest.mark.parametrize("read", one_in(3, programs.entries("reads.txt")))
def test_what_is_read_is_not_touched(read: str, silent: None) -> None:
    assert touched(f"y = y * ({read})") == []


@pytest.mark.whole
@pytest.mark.parametrize("write", one_in(3, cases(programs.WRITES, known.TOUCHED)))
def test_what_would_be_written_is_not(write: str, silent: None) -> None:
    assert touched(f"y = y + 1\n{write}") == []


@pytest.mark.whole
@drawn(examples(10, 60))
@given(programs.bodies())
def test_programs_that_read(silent: None, body: str) -> None:
    assert touched(body) == []


@pytest.mark.whole
@drawn(examples(8, 40))
@given(programs.writing())
def test_programs_that_write(silent: None, body: str) -> None:
    assert touched(body) == []


@pytest.mark.parametrize("write", one_in(3, cases(ALIKE, known.UNLIKE)))
def test_effects_are_those_of_plain_python(write: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert compare.unlike(f"y = y + 1\n{write}", capfd.readouterr) == []


@pytest.mark.parametrize("backend, count", [("eager", examples(8, 25)), ("dynamlir", examples(4, 10))])
def test_what_was_called_and_forgotten_leaves_nothing(backend: str, count: int) -> None:
    """Compared with the changes of another plain call, such as those of random numbers."""

    @drawn(count)
    @given(programs.bodies())
    def check(body: str) -> None:
        world = programs.world(body)

        def act() -> None:
            compiled = dynamlir.compile(world.main, backend=backend)
            for _ in range(2):
                programs.called(compiled, world)
            compiled.reset()  # entries live as long as the compiled function

        with programs.imported(world):
            programs.called(world.main, world)
            # From the first compilation on, the function is referenced weakly.
            dynamlir.compile(world.main, backend=backend)
            plain = compare.changes(world, lambda: programs.called(world.main, world))
            changed = [each.partition(":")[0] for each in plain]
            seen = compare.changes(world, act)
            assert [each for each in seen if each.partition(":")[0] not in changed] == []

    check()


def test_nothing_runs_more_often_than_in_plain_python() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = forked.python("import runpy; runpy.run_module('untouched.counts', run_name='__main__')", env=environment)
    *found, methods = done.stdout.splitlines()
    assert done.returncode == 0 and done.stderr == ""
    assert {line.partition("\t")[0] for line in found} == known.OFTEN, found
    assert int(methods) > 10


TOUCHES: dict[str, Callable[[Any], Any]] = {
    "an item and back": lambda w: (w.TABLE.update(a=5), w.TABLE.update(a=1)),
    "order": lambda w: w.TABLE.update(a=w.TABLE.pop("a")),
    "a list": lambda w: w.LIST.append(1),
    "an equal object": lambda w: setattr(w, "TUPLE", (1, 2, int("3"))),
    "a class": lambda w: (setattr(w.Config, "k", 3), delattr(w.Config, "k")),
    "a slot": lambda w: setattr(w.SLOTS, "number", 4),
    "a cell": lambda w: w.MORE(),
    "a cache": lambda w: w.remembered(1),
    "an iterator": lambda w: next(w.ITERATOR),
    "a generator": lambda w: next(w.GENERATOR),
    "a count": lambda w: next(w.COUNT),
    "a tensor": lambda w: w.TENSOR.add_(0),
    "data beneath": lambda w: w.TENSOR.data.mul_(2),
    "bytes": lambda w: w.BYTES.append(1),
    "a hook": lambda w: w.HOOKED._forward_hooks.clear(),
    "a context variable": lambda w: w.VARIABLE.set(7),
    "a thread's own": lambda w: setattr(w.LOCAL, "k", 7),
    "a lock": lambda w: w.LOCK.acquire(),
    "a reference": lambda w: KEPT.append(w.CONFIG),
    "a reference that is weak": lambda w: KEPT.append(w.weakref.ref(w.HOLDER)),
    "random numbers": lambda w: torch.rand(1),
    "a module": lambda w: sys.modules.update(fuzzed_other=w.MODULE),
}
KEPT: list[Any] = []


@pytest.mark.parametrize("touch", TOUCHES)
def test_every_touch_is_seen(touch: str) -> None:
    if touch == "a class" and sys.version_info >= (3, 13):
        pytest.skip("the class has no version yet")
    if touch == "an item and back" and sys.version_info >= (3, 14):
        pytest.skip("dicts have no versions")
    world = programs.world("")
    with programs.imported(world):
        assert compare.changes(world, lambda: TOUCHES[touch](world))
    KEPT.clear()


def test_what_looking_at_a_world_does_is_not_seen() -> None:
    world = programs.world("")
    assert compare.changes(world, lambda: len(watch.parts(world))) == []
