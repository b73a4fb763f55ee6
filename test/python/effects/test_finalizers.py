"""Objects that die within a captured call: finalizers run once per call and report nothing; nothing is kept alive."""

from __future__ import annotations

import contextlib
import gc
import sys
import weakref

import dynamlir
import pytest
import torch
from worlds import X, alike, shown
from written import either


@pytest.fixture(autouse=True)
def fresh():
    with torch.no_grad():
        yield


@pytest.fixture(autouse=True)
def no_reports(monkeypatch, capfd):
    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_type))
    yield
    gc.collect()
    assert reports == []
    written = capfd.readouterr().err
    assert "Aborted" not in written and "ignored" not in written


class Plain:
    pass


def resource(log):
    class Resource:
        def __del__(self):
            log.append("del")

    return Resource


def dies(log, kind):
    return lambda x: (kind(), x + 1)[1]


def in_a_cycle(log, kind):
    def function(x):
        made = kind()
        made.itself = made
        return x + 1

    return function


def in_a_cycle_before_the_end(log, kind):
    def function(x):
        made = kind()
        made.itself = made
        print(end="")
        return x + 1

    return function


def replaced(log, kind):
    def function(x):
        made = kind()
        made = 2
        return x + made

    return function


def returned(log, kind):
    return lambda x: (x + 1, kind())


def in_a_closure(log, kind):
    def function(x):
        made = kind()
        use = lambda: made  # noqa: E731
        return x + (use() is made)

    return function


def unfinished_generator(log, kind):
    def steps():
        try:
            yield 1
        finally:
            log.append("finally")

    return lambda x: x + next(steps())


def unfinished_with(log, kind):
    @contextlib.contextmanager
    def context():
        try:
            yield 1
        finally:
            log.append("left")

    def function(x):
        entered = context()
        entered.__enter__()
        return x + 1

    return function


def generator_in_a_cycle(log, kind):
    def steps(box):
        try:
            yield 1
        finally:
            log.append("finally")

    def function(x):
        box = []
        box.append(steps(box))
        next(box[0])
        return x + 1

    return function


def callback(log, kind):
    def function(x):
        plain = Plain()
        reference = weakref.ref(plain, lambda _: log.append("call"))
        del plain
        return x + (reference() is None)

    return function


def existing_callback(log, kind):
    note = lambda _: log.append("call")  # noqa: E731

    def function(x):
        plain = Plain()
        reference = weakref.ref(plain, note)
        del plain
        return x + (reference() is None)

    return function


def finalize(log, kind):
    def function(x):
        plain = Plain()
        weakref.finalize(plain, log.append, "final")
        return x + 1

    return function


def weak_dict(log, kind):
    def function(x):
        table = weakref.WeakValueDictionary()
        plain = Plain()
        table["a"] = plain
        del plain
        return x + len(table)

    return function


@pytest.mark.parametrize(
    "make",
    [
        dies,
        in_a_cycle,
        in_a_cycle_before_the_end,
        replaced,
        returned,
        in_a_closure,
        unfinished_generator,
        unfinished_with,
        generator_in_a_cycle,
        callback,
        existing_callback,
        finalize,
        weak_dict,
    ],
)
def test_the_code_of_what_dies_runs_once_for_each_call(make):
    def world(compile_):
        log = []
        compiled = compile_(make(log, resource(log)))
        results = []
        for _ in range(3):
            results.append(shown(compiled(X))[1])
            gc.collect()
        gc.collect()
        return [str(result) for result in results if not isinstance(result, list) or len(result) != 2] == results, log

    either(world)


def test_what_touches_only_the_frames_own_is_captured():
    class Resource:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append(1)

    def function(x):
        log = []
        Resource(log)
        return x + len(log)

    alike(lambda compile_: [compile_(function)(X) for _ in range(2)])


def test_keys_that_are_tensors_report_nothing():
    def world(compile_):
        y = torch.ones(2)
        table = {y: 1}
        function = compile_(lambda x: x + (y in table))
        return function(y), function(y)

    alike(world)


def test_a_capture_that_ended_keeps_nothing_alive():
    """The exception with the reason must not hold the frames, which hold the model."""
    gc.collect()
    gc.disable()
    try:
        with torch.enable_grad():
            model = torch.nn.Linear(4, 4)
            compiled = dynamlir.compile(lambda model, x: model(x).sum().item())
            compiled(model, torch.ones(4))
            assert [event.reason for event in dynamlir.fallbacks()] == ["data-dependent"]
            reference = weakref.ref(model)
            del model
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "function",
    [
        lambda model, x: model(x),
        lambda model, x: (print(end=""), model(x))[1],
        lambda model, x: model(x).item(),
        lambda model, x: model(x)[5],
        lambda model, x: 1 / 0,
    ],
)
def test_no_capture_keeps_a_model_alive(function):
    gc.collect()
    gc.disable()
    try:
        model = torch.nn.Linear(4, 4)
        with contextlib.suppress(Exception):
            dynamlir.compile(function)(model, torch.ones(4))
        reference = weakref.ref(model)
        del model
        assert reference() is None
    finally:
        gc.enable()
