"""Events around a program: signals, threads, tracing, the collector, frames inspected by other code."""

import _thread
import gc
import inspect
import signal
import sys
import threading
import warnings
import weakref

from .support import case


@case
def signal_in_a_loop():
    seen = []

    def handler(number, frame):
        seen.append(frame.f_code.co_name)
        raise KeyboardInterrupt("from the handler")

    former = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        while True:
            pass
    except KeyboardInterrupt as error:
        return seen, str(error)
    finally:
        signal.signal(signal.SIGALRM, former)


@case
def interrupted_main_thread():
    try:
        _thread.interrupt_main()
        for _ in range(10**6):
            pass
        return "not interrupted"
    except KeyboardInterrupt:
        return "interrupted"


@case
def threads_take_turns():
    progress = []

    def count():
        while len(progress) < 3:
            progress.append(threading.current_thread().name)

    thread = threading.Thread(target=count, name="other")
    thread.start()
    # This never ends unless the interpreter releases the lock now and then.
    while len(progress) < 3:
        pass
    thread.join()
    return progress


@case
def collected_in_a_loop():
    class Node:
        pass

    node = Node()
    node.itself = node
    gone = weakref.ref(node)
    del node
    for _ in range(100_000):
        if gone() is None:
            return "collected"
        [[] for _ in range(10)]
    return "kept"


@case
def traced_calls():
    events = []

    def tracer(frame, event, argument):
        events.append((frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno))
        return tracer

    def traced(x):
        y = x + 1
        return y

    sys.settrace(tracer)
    try:
        traced(1)
    finally:
        sys.settrace(None)
    return [event for event in events if event[0] == "traced"]


@case
def frames_of_callers():
    def inner():
        frame, names = sys._getframe(), []
        while frame and len(names) < 3:
            names.append((frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno))
            frame = frame.f_back
        return names, [entry.function for entry in inspect.stack()[:3]], sys._getframe(1).f_locals["here"]

    here = "seen"
    return inner(), here


@case
def frame_outlives_its_call():
    def inner(a):
        b = [a]
        return sys._getframe(), b

    frame, b = inner(1)
    return frame.f_locals, frame.f_lineno - frame.f_code.co_firstlineno, frame.f_locals["b"] is b


@case
def frame_of_an_exception():
    def inner(a):
        b = a / 0
        return b

    try:
        inner(1)
    except ZeroDivisionError as error:
        frame = error.__traceback__.tb_next.tb_frame
        seen = dict(frame.f_locals), frame.f_lineno - frame.f_code.co_firstlineno, frame.f_lasti
        frame.clear()
        return seen, dict(frame.f_locals)


@case
def frame_that_runs_is_not_cleared():
    sys._getframe().clear()


@case
def warning_of_a_caller():
    def warn():
        warnings.warn("mind", stacklevel=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn()
    return [(str(warning.message), warning.lineno - warning_of_a_caller.__code__.co_firstlineno) for warning in caught]


@case
def code_run_by_exec_and_eval():
    scope = {"x": 2}
    exec("y = [x * i for i in range(3)]\ndef f(a): return a + x", scope)
    return scope["y"], scope["f"](1), eval("x + max(y)", scope), eval("[i for i in range(2)]")


@case
def replaced_code():
    def f():
        return "old"

    def g():
        return "new"

    before = f()
    f.__code__ = g.__code__
    return before, f()
