"""The interpreter against CPython: each case of `interpreted/` must return, print and raise the same both ways.

The extension serves every supported version, so the cases run on each installed CPython, in a separate process that has
neither torch nor the package.
"""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from dynamlir import _native
from interpreters import SUPPORTED, found

HERE = Path(__file__).resolve().parents[1]


def interpreters() -> dict[str, str]:
    """The paths of the supported CPythons on this machine, by version; the running one is always included."""
    here = {"{}.{}".format(*sys.version_info): sys.executable}
    for one in found(SUPPORTED):
        here.setdefault(one.version, one.path)
    return here


@pytest.mark.parametrize("version", SUPPORTED)
def test_cases_come_to_the_same(version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no CPython {version} here")
    command = [python, "-m", "interpreted", _native.__file__]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["differences"] == {}
    # CPython runs only the traced calls of one case.
    assert set(report["counts"]["left"]) <= {"traced or profiled"}
    assert report["counts"]["interpreted"] > 1000


def numbers(n):
    total = 0
    for i in range(n):
        total += yield i + total
    return total


def test_generator_goes_on_where_the_other_evaluation_left_it() -> None:
    """A suspended frame has the same state regardless of what evaluated it."""
    expected = numbers(6)
    mixed = numbers(6)
    assert next(expected) == _native.interpret(next, mixed)
    for i, call in enumerate([operator.call, _native.interpret] * 2):
        assert expected.send(i) == call(mixed.send, i)
    states = [(dict(made.gi_frame.f_locals), made.gi_frame.f_lasti) for made in (expected, mixed)]
    assert states[0] == states[1]
    with pytest.raises(StopIteration) as plain:
        [expected.send(9) for _ in range(3)]
    with pytest.raises(StopIteration) as ours:
        [_native.interpret(mixed.send, 9) for _ in range(3)]
    assert plain.value.value == ours.value.value


def test_only_the_thread_that_asked_is_interpreted() -> None:
    def work():
        return sum(i for i in range(50))

    def start():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    _native.interpret(start)
    _native.interpreter_counts(reset=True)
    results = []
    # The thread works while another is being interpreted.
    ready, go = threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: (ready.set(), go.wait(), results.append([work() for _ in range(100)])))
    thread.start()
    ready.wait()

    def meanwhile():
        go.set()
        thread.join()

    _native.interpret(meanwhile)
    assert results == [[1225] * 100]
    # None of the more than 5,100 frames that the thread ran.
    assert _native.interpreter_counts()["interpreted"] < 100


def test_threads_interpret_at_once() -> None:
    def fibonacci(n):
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    results = {}

    def run(n):
        results[n] = _native.interpret(fibonacci, n)

    threads = [threading.Thread(target=run, args=(n,)) for n in (12, 13, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {12: 144, 13: 233, 14: 377}


def test_interpreting_nests() -> None:
    def inner(x):
        return [y * x for y in range(3)]

    def outer(x):
        return _native.interpret(inner, x), inner(x + 1)

    assert _native.interpret(outer, 2) == outer(2)


def test_arguments_and_exceptions_pass_through() -> None:
    def f(a, *b, c, **d):
        return a, b, c, d

    assert _native.interpret(f, 1, 2, c=3, d=4) == (1, (2,), 3, {"d": 4})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument"):
        _native.interpret(f, 1)


def test_what_was_interpreted_is_counted() -> None:
    def leaf():
        return 1

    def calls():
        return [leaf() for _ in range(10)], sum(x for x in range(5))

    _native.interpreter_counts(reset=True)
    _native.interpret(calls)
    counts = _native.interpreter_counts()
    comprehension = 0 if sys.version_info >= (3, 12) else 1
    # From CPython 3.15 on, a generator expression's own code asks for the iterator before it creates the generator.
    asks = 1 if sys.version_info >= (3, 15) else 0
    # `calls`, ten leaves, six resumptions of the generator.
    assert counts == {"interpreted": 1 + comprehension + 10 + asks + 6, "made_generators": 1 - asks, "left": {}}


def test_traced_frames_are_left_to_cpython() -> None:
    def traced():
        return 1

    def run():
        sys.settrace(lambda *_: None)
        try:
            return traced()
        finally:
            sys.settrace(None)

    _native.interpreter_counts(reset=True)
    former = sys.gettrace()
    assert _native.interpret(run) == 1
    sys.settrace(former)
    assert "traced or profiled" in _native.interpreter_counts()["left"]


def test_nothing_is_left_installed() -> None:
    def frames():
        return _native.interpreter_counts()["interpreted"]

    _native.interpret(len, [])
    before = frames()
    (lambda: None)()
    assert frames() == before


def test_references_are_given_back() -> None:
    class Thing:
        pass

    def work(things):
        for thing in things:
            try:
                a, *b = [thing, thing, (thing for _ in range(2))]
                {"k": thing, **{"l": a}}["missing"]
            except KeyError as error:
                kept = error, f"{thing}", [x for x in b[-1]]
            finally:
                thing.seen = lambda thing=thing: thing
        del kept
        for thing in things:
            del thing.seen

    things = [Thing(), Thing()]
    work(things)
    before = [sys.getrefcount(thing) for thing in things]
    for _ in range(20):
        _native.interpret(work, things)
    assert [sys.getrefcount(thing) for thing in things] == before
