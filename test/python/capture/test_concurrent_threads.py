"""While one thread captures a call, the objects of other threads live and die as usual."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import tracemalloc
import weakref

import dynamlir
import pytest
import torch
from dynamlir.capture.session import Session


@pytest.fixture
def meanwhile(monkeypatch):
    """Lets another thread run a function during each capture, while the capturing thread waits for it."""
    doing = []
    add_input = Session._add_input

    def interposed(session, *args):
        if doing:
            other = threading.Thread(target=doing.pop())
            other.start()
            other.join(60)
        return add_input(session, *args)

    monkeypatch.setattr(Session, "_add_input", interposed)
    return doing


def with_del(log):
    class Resource:
        def __del__(self):
            log.append("del")

    return Resource()


def with_del_and_slots(log):
    class Resource:
        __slots__ = ("number",)

        def __del__(self):
            log.append("del")

    return Resource()


def of_a_list(log):
    class Resource(list):
        def __del__(self):
            log.append(len(self))

    return Resource([1, 2])


def generator(log):
    def rows():
        try:
            yield 1
        finally:
            log.append("finally")

    suspended = rows()
    next(suspended)
    return suspended


def within_a_with(log):
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            log.append(error[0])

    def rows():
        with Manager():
            yield 1

    suspended = rows()
    next(suspended)
    return suspended


def coroutine(log):
    class Pause:
        def __await__(self):
            yield

    async def work():
        try:
            await Pause()
        finally:
            log.append("finally")

    suspended = work()
    suspended.send(None)
    return suspended


def asynchronous_generator(log):
    async def rows():
        try:
            yield 1
        finally:
            log.append("finally")

    async def first(suspended):
        return await anext(suspended)

    suspended = rows()
    with contextlib.suppress(StopIteration):
        first(suspended).send(None)
    return suspended


def weakly_referred(log):
    class Thing:
        pass

    thing = Thing()
    weakref.finalize(thing, log.append, "finalize").atexit = False
    return thing


def called_back(log):
    class Thing:
        pass

    thing = Thing()
    return [weakref.ref(thing, lambda reference: log.append("callback")), thing]


def in_a_cycle(log):
    made = with_del(log)
    made.itself = made
    return made


KINDS = [
    with_del,
    with_del_and_slots,
    of_a_list,
    generator,
    within_a_with,
    coroutine,
    asynchronous_generator,
    weakly_referred,
    called_back,
    in_a_cycle,
]


def test_what_another_thread_makes_runs_its_code_when_it_dies(meanwhile):
    plain, logs, kept = {}, {}, []
    for make in KINDS:
        plain[make.__name__] = []
        make(plain[make.__name__])
    gc.collect()
    assert all(plain.values())

    def others():
        for make in KINDS:
            logs[make.__name__] = []
            kept.append(make(logs[make.__name__]))

    meanwhile.append(others)
    compiled = dynamlir.compile(lambda x: x * 2 + len(KINDS))
    assert compiled(torch.ones(2)).tolist() == [12.0, 12.0]
    assert not dynamlir.fallbacks()
    assert not any(logs.values())
    kept.clear()
    gc.collect()
    assert logs == plain


@pytest.mark.parametrize("make", [with_del, generator])
def test_what_the_call_makes_is_still_told(make, meanwhile):
    """Next to objects that another thread creates, before and after it."""
    log, theirs, kept = [], [], []

    def f(x, y):
        before = make(log)
        z = x + y
        return z, before, make(log)

    meanwhile.append(lambda: kept.append(make(theirs)))
    compiled = dynamlir.compile(f)
    for _ in range(2):
        log.clear()
        z, before, after = compiled(torch.ones(2), torch.ones(2))
        assert z.tolist() == [2.0, 2.0] and not log
        del before, after
        gc.collect()
        assert len(log) == 2
    assert not theirs
    kept.clear()
    gc.collect()
    assert len(theirs) == 1


def test_two_threads_that_capture_at_once(meanwhile):
    """Each thread finds the objects that it has created, and not those of the other."""
    log, theirs, x = [], [], torch.ones(1)

    def captured(x):
        return x + 1, generator(log)

    meanwhile.append(lambda: theirs.append(dynamlir.explain(captured)(x)))
    assert dynamlir.explain(lambda x: x + 2)(x).graph_break_count == 0
    assert theirs[0].graph_break_count > 0
    gc.collect()
    # Leftovers of a capture are freed without finalizers, and the call itself ran once.
    assert log == ["finally"]


def test_objects_that_come_and_go(meanwhile):
    """Memory freed by another thread belongs to the call if the call creates an object in it."""
    log, held = [], []

    def churn():
        made = [generator([]) for _ in range(200)]
        held.extend(generator(log) for _ in range(3))
        del made

    def f(x, y):
        z = x + y
        rows = [generator([]) for _ in range(50)]
        return z + sum(next(row, 1) for row in rows)

    meanwhile.append(churn)
    compiled = dynamlir.compile(f)
    assert [compiled(torch.ones(1), torch.ones(1)).item() for _ in range(2)] == [52.0, 52.0]
    held.clear()
    gc.collect()
    assert log == ["finally"] * 3


def test_beside_tracemalloc(meanwhile):
    """tracemalloc installs its allocator in the same place as ours, and starts and stops while ours is installed."""
    log, kept = [], []

    def starts():
        tracemalloc.start()
        kept.append(generator(log))

    def stops():
        kept.append(generator(log))
        tracemalloc.stop()

    try:
        for doing in (starts, stops, lambda: kept.append(generator(log))):
            meanwhile.append(doing)
            function = lambda x: x + len(kept)  # noqa: E731
            assert dynamlir.compile(function)(torch.ones(1)).item() == 1.0 + len(kept)
    finally:
        tracemalloc.stop()
    assert not log
    kept.clear()
    gc.collect()
    assert log == ["finally"] * 3


def test_a_task_of_an_event_loop_elsewhere(meanwhile):
    """A loop in another thread starts tasks while a call is captured, and cancels them later."""
    log = []
    loop = asyncio.new_event_loop()
    runner = threading.Thread(target=loop.run_forever)
    runner.start()

    async def work():
        try:
            await asyncio.sleep(600)
        finally:
            log.append("finally")

    tasks = []

    def begin():
        tasks.append(asyncio.run_coroutine_threadsafe(work(), loop))
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)

    meanwhile.append(begin)
    assert dynamlir.compile(lambda x: x + 3)(torch.ones(1)).item() == 4.0
    tasks[0].cancel()
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
    loop.call_soon_threadsafe(loop.stop)
    runner.join(60)
    loop.close()
    assert log == ["finally"]
    assert not dynamlir.fallbacks()
