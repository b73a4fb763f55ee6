"""Exceptions that a signal handler raises during capture or compilation reach the caller unchanged."""

from __future__ import annotations

import functools
import linecache
import logging
import os
import signal
import subprocess
import sys
import threading
import traceback
import types

import dynamlir
import pytest
import torch
import tqdm
from dynamlir import interruptions, modes, progress
from dynamlir.capture.session import Session
from torch._dynamo import symbolic_convert

OURS = os.path.dirname(dynamlir.__file__) + os.sep


class Deadline(Exception):
    """An exception that a user's signal handler raises."""


class Halt(BaseException):
    """An exception that `except Exception` does not catch."""


def body(x):
    for _ in range(60):
        x = torch.sin(x) * 1.01 + x.sum(0, keepdim=True)
    return x


@pytest.fixture
def alarm():
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    # The handler may have raised after `logging` or `tqdm` acquired a lock and before it would have released it.
    owned = {
        lock: lock._is_owned
        for lock in [logging._lock, *(known().lock for known in logging._handlerList if known())]
        if lock
    }
    for lock in tqdm.tqdm.get_lock().locks:
        owned[lock] = lock._is_owned if hasattr(lock, "_is_owned") else lock._semlock._is_mine
    for lock, is_owned in owned.items():
        while is_owned():
            lock.release()


@pytest.fixture
def dropped(monkeypatch):
    """The classes of exceptions that a handler raised in a `__del__` or weakref callback, where CPython drops them."""
    found: list[type] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: found.append(report.exc_type))
    return found


class Handler:
    """A handler that is not a function. With `ours` it waits until dynamlir's code runs.

    TorchDynamo's own code may be left with a mode still set, which is not ours to fix. The same is true for
    `linecache`, which fake modes query for the stack and which takes any `OSError` for a missing file, and for handlers
    of `logging`, which drop any `Exception` raised while they format a record (pytest's handler for files does not even
    report it).
    """

    # Standard library files whose code takes a signal handler's exception for a failure of its own.
    SWALLOWING = (linecache.__file__, logging.__file__)

    def __init__(self, kind, hits, ours=False):
        """`hits` receives the stack at each exception raised, so that a failure names the code that swallowed it."""
        self.kind, self.hits, self.ours = kind, hits, ours

    def __call__(self, number=0, frame=None):
        if (self.ours and not runs_ours(frame)) or passes(frame, self.SWALLOWING):
            signal.setitimer(signal.ITIMER_REAL, 0.001)
            return
        self.hits.append("".join(traceback.format_stack(frame, limit=12)))
        raise self.kind("late")

    def method(self, *args):
        self(*args)


def runs_ours(frame):
    """Returns true if dynamlir's code runs, without TorchDynamo's tracer on top of it, which may swallow exceptions."""
    while frame is not None and not frame.f_code.co_filename.startswith(OURS):
        if frame.f_code.co_filename == symbolic_convert.__file__:
            return False
        frame = frame.f_back
    return frame is not None


def passes(frame, files):
    while frame is not None:
        if frame.f_code.co_filename.startswith(files):
            return True
        frame = frame.f_back
    return False


def swallowing(x):
    try:
        return body(x)
    except BaseException:
        return x - 1000


@pytest.mark.parametrize("kind", [KeyboardInterrupt, Deadline, Halt, TimeoutError])
@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_an_interruption_reaches_the_caller(kind, door, alarm, dropped):
    hits: list[str] = []
    handler = Handler(kind, hits, ours=door == "torch.compile")
    signal.signal(signal.SIGALRM, handler.method if kind is Halt else lambda *args: handler(*args))
    x = torch.ones(2, 3)
    plain = [body(x) + n for n in range(12)]
    if door == "torch.compile":
        # The code that triggers torch's first-use imports may catch exceptions raised in them.
        torch.compile(lambda x: body(x) - 1, backend="dynamlir")(x)
    swallowed, raised = [], 0
    for n in range(12):
        hits.clear()
        function = lambda x: body(x) + n  # noqa: B023, E731
        compiled = (
            dynamlir.compile(function) if door == "dynamlir.compile" else torch.compile(function, backend="dynamlir")
        )
        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.011 * n)
        try:
            result = compiled(x)
            signal.setitimer(signal.ITIMER_REAL, 0)
            swallowed += hits
            torch.testing.assert_close(result, plain[n])
        except kind as error:
            assert kind is KeyboardInterrupt or error.args == ("late",)
            raised += 1
        except Exception as error:
            # TorchDynamo wraps its backend's exceptions.
            assert door == "torch.compile" and kind is not KeyboardInterrupt, error
            raised += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Nothing half done remains: the next call is right.
        torch.testing.assert_close(compiled(x), plain[n])
        assert torch._C._len_torch_dispatch_stack() == 0
    assert len(swallowed) == dropped.count(kind), "\n".join(swallowed)
    assert raised > 0


def once(function, late):
    """Returns the function with an interruption before or after its first call."""
    calls = []

    def wrapped(*args, **kwargs):
        calls.append(1)
        if len(calls) == 1 and not late:
            raise KeyboardInterrupt
        result = function(*args, **kwargs)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return result

    return wrapped


@pytest.mark.parametrize(
    ("owner", "name"), [(Session, "__exit__"), (modes.FakeMode, "__enter__"), (modes.set_aside, "__exit__")]
)
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_modes_are_put_back(owner, name, late, door, monkeypatch):
    """Wherever between two steps the interruption happens."""
    if door == "torch.compile" and owner is Session:
        pytest.skip("only dynamlir's own capture has a session")
    torch._dynamo.reset()
    x, offset = torch.ones(2), 1.5
    function = lambda x: (x + offset).sin().clamp(min=torch.tensor(0.25))  # noqa: E731
    compiled = dynamlir.compile(function) if door == "dynamlir.compile" else torch.compile(function, backend="dynamlir")
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, once(getattr(owner, name), late))
        with pytest.raises(KeyboardInterrupt):
            compiled(x)
    assert torch._C._len_torch_dispatch_stack() == 0
    torch.testing.assert_close(compiled(x), function(x))
    assert torch._C._len_torch_dispatch_stack() == 0


@pytest.mark.parametrize(
    "name", [name for name, found in vars(Session).items() if isinstance(found, types.FunctionType)]
)
def test_whatever_is_asked_of_the_session(name, monkeypatch):
    """The caller gets the interruption of any query: of the first one, one in the middle and the last one."""
    asked, when = [], [0]
    method = getattr(Session, name)

    @functools.wraps(method)
    def interrupted(*args, **kwargs):
        asked.append(name)
        if len(asked) == when[0]:
            raise KeyboardInterrupt
        return method(*args, **kwargs)

    layers = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()) for _ in range(3)))

    def function(x, kept, scale):
        made = torch.zeros(2, 3).add_(x * scale)
        made = torch.cat([made + torch.tensor([1.0, 2.0, 3.0]), kept[None]])[:2]
        return {"out": layers(x) + made, "view": made.view(-1), "x": x}

    def run():
        asked.clear()
        return dynamlir.compile(lambda *args: function(*args))(torch.ones(2, 3), torch.ones(3), 2.0)

    monkeypatch.setattr(Session, name, interrupted)
    expected, times = run(), len(asked)
    assert not dynamlir.fallbacks()
    for at in sorted({min(1, times), (times + 1) // 2, times} - {0}):
        when[0] = at
        with pytest.raises(KeyboardInterrupt):
            run()
        assert torch._C._len_torch_dispatch_stack() == 0
    when[0] = 0
    torch.testing.assert_close(run(), expected)


def test_a_fake_mode_that_is_left_within_itself():
    """Torch's dispatcher would end the process."""
    mode = modes.FakeMode()
    with mode:
        fake = torch.ones(2)

        def dispatch(*args):
            mode.__enter__()
            raise KeyboardInterrupt

        mode.dispatch = dispatch
        with pytest.raises(KeyboardInterrupt):
            fake + 1
        del mode.dispatch
        assert type(fake + 1) is type(fake)
    assert torch._C._len_torch_dispatch_stack() == 0


def test_an_interruption_of_the_question_what_it_is(monkeypatch):
    """A second interruption, or the first one while an exception of the program is inspected."""
    monkeypatch.setattr(interruptions, "of", once(interruptions.of, False))
    monkeypatch.setattr(Session, "_add_input", lambda *args: 1 / 0)
    with pytest.raises(KeyboardInterrupt):
        dynamlir.compile(lambda x: x + 1)(torch.ones(2))


def test_the_progress_line_forgets_an_interrupted_capture(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", once(progress.time.monotonic, True))
    with pytest.raises(KeyboardInterrupt), progress.silent():
        pass
    assert not progress._captures
    assert not progress._changing.locked()


MEMBERS = [member for kind in (str, bytes, list, dict, set, float, int, torch.Tensor) for member in vars(kind).values()]


def test_an_interruption_of_the_guards_texts(alarm, dropped):
    """Reading the text of a C function checks for signals, and other code takes the exception for a missing text."""
    x = torch.ones(2, 3)

    def function(x):
        count = 0
        for member in MEMBERS:
            count += member is x
        return x + count

    raised, swallowed = 0, []
    for n in range(40):
        hits: list[str] = []
        signal.signal(signal.SIGALRM, Handler(Deadline, hits))
        compiled = dynamlir.compile(lambda x: function(x) + n)  # noqa: B023
        signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0015 * n)
        try:
            result = compiled(x)
            signal.setitimer(signal.ITIMER_REAL, 0)
            swallowed += hits
            torch.testing.assert_close(result, x + n)
        except Deadline:
            raised += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch.testing.assert_close(compiled(x), x + n)
    assert len(swallowed) == dropped.count(Deadline), "\n".join(swallowed)
    assert raised > 0


def test_the_function_does_not_handle_what_interrupts_its_capture(alarm):
    """Otherwise the graph of the handler would represent the function."""
    x = torch.ones(2, 3)
    expected = body(x)
    for n in range(8):
        hits: list[str] = []
        signal.signal(signal.SIGALRM, Handler(Deadline, hits))
        compiled = dynamlir.compile(lambda x: swallowing(x) + 0 * n)  # noqa: B023
        signal.setitimer(signal.ITIMER_REAL, 0.004 + 0.01 * n)
        try:
            compiled(x)
        except Deadline:
            assert hits
        signal.setitimer(signal.ITIMER_REAL, 0)
        torch.testing.assert_close(compiled(x), expected)


def test_an_interrupt_that_the_function_raises_is_its_own():
    def function(x):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            return x + 1

    x = torch.ones(2)
    compiled = dynamlir.compile(function)
    assert [compiled(x).tolist() for _ in range(2)] == [[2.0, 2.0]] * 2
    assert {event.reason for event in dynamlir.fallbacks()} <= {"raised"}


@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_what_the_caller_handles_is_not_raised_again(door, alarm):
    """It is the context of every exception raised meanwhile."""

    def catches(x):
        try:
            return x.missing
        except AttributeError:
            return x + 1

    def raises(x):
        raise ValueError("its own")

    def handler(*args):
        raise Deadline("before")

    signal.signal(signal.SIGALRM, handler)
    x = torch.ones(2)
    compile_ = dynamlir.compile if door == "dynamlir.compile" else functools.partial(torch.compile, backend="dynamlir")
    for interrupt in (lambda: handler(), lambda: exec("raise KeyboardInterrupt")):
        torch._dynamo.reset()
        try:
            interrupt()
        except (Deadline, KeyboardInterrupt):
            compiled = compile_(lambda x: catches(x) * 2)
            assert compiled(x).tolist() == [4.0, 4.0]
            with pytest.raises(ValueError, match="its own"):
                compile_(lambda x: raises(x))(x)


def test_captures_of_two_threads_leave_no_hook_that_swallows(dropped, monkeypatch):
    """The first capture to begin is the first to end: its hook stays beneath that of the other capture."""
    first, second = threading.Event(), threading.Event()
    finish = Session.finish

    def finished(session, *args):
        if threading.current_thread() is threading.main_thread():
            other.start()
            assert first.wait(60)
        else:
            first.set()
            assert second.wait(60)
        return finish(session, *args)

    monkeypatch.setattr(Session, "finish", finished)
    x = torch.ones(2)
    other = threading.Thread(target=dynamlir.compile(lambda x: x + 1), args=(x,))
    assert dynamlir.compile(lambda x: x + 2)(x).tolist() == [3.0, 3.0]
    second.set()
    other.join()

    class Last:
        def __del__(self):
            raise KeyboardInterrupt

    Last()
    assert dropped == [KeyboardInterrupt]


TABLE = """
import sys
import dynamlir, torch

asked = []


class Interrupts:
    @staticmethod
    def find_spec(name, *rest):
        if name == "dynamlir.capture.transforms" and not asked:
            asked.append(name)
            raise KeyboardInterrupt


compiled = dynamlir.compile(lambda x: torch.func.grad(lambda y: (y * y).sum())(x), fullgraph=True)
x = torch.ones(3)
sys.meta_path.insert(0, Interrupts)
try:
    compiled(x)
except KeyboardInterrupt:
    pass
else:
    sys.exit("it was swallowed")
assert asked
assert torch.equal(compiled(x), 2 * x)
"""


def test_an_interruption_while_the_table_of_c_functions_is_made() -> None:
    """The first capture of a process builds it: an interrupted table is built again from the start."""
    done = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
