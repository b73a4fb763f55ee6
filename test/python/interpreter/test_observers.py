"""Debuggers, profilers and tools of `sys.monitoring` see the same as without a compiler."""

from __future__ import annotations

import contextlib
import sys

import dynamlir
import pytest
import torch

A = torch.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()
    with torch.no_grad():
        yield


def same(seen, expected):
    torch.testing.assert_close(seen, expected)


def test_tracers_see_what_they_would_see():
    def traced(x):
        y = x + 1
        return y * 2

    def lines(function):
        seen = []

        def tracer(frame, event, arg):
            if frame.f_code is traced.__code__:
                seen.append((event, frame.f_lineno))
                return tracer
            return None

        sys.settrace(tracer)
        try:
            same(function(A), (A + 1) * 2)
        finally:
            sys.settrace(None)
        return seen

    assert lines(dynamlir.compile(traced)) == lines(traced)


def test_profilers():
    def profiled(x):
        return x + 1

    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(event))
    try:
        result = dynamlir.compile(profiled)(A)
    finally:
        sys.setprofile(None)
    same(result, A + 1)
    assert seen


def test_what_a_tool_kept_from_being_captured_is_captured_after_it():
    compiled = dynamlir.compile(lambda x: x + 1)
    sys.settrace(lambda *_: None)
    try:
        for _ in range(2):
            same(compiled(A), A + 1)
    finally:
        sys.settrace(None)
    assert dynamlir.counters()["fallbacks"] == {"observed": 2}
    same(compiled(A), A + 1)
    assert dynamlir.counters()["graphs"] == 1 and dynamlir.counters()["fallbacks"] == {"observed": 2}


def whole(x):
    y = x + 1
    return y * 2


def raising(x):
    y = x + 1
    if y.sum() > 0:
        raise LookupError("no")


@pytest.mark.skipif(sys.version_info < (3, 12), reason="CPython 3.12 made sys.monitoring")
@pytest.mark.parametrize("where", ["anywhere", "in the function"])
@pytest.mark.parametrize("function", [whole, raising])
def test_tools_of_monitoring_see_what_they_would_see(function, where):
    monitoring = sys.monitoring
    names = ["PY_START", "PY_RETURN", "LINE"]
    names += ["RAISE", "PY_UNWIND", "PY_THROW"] if where == "anywhere" else []

    def events(callable_):
        seen = []
        tool = monitoring.PROFILER_ID
        monitoring.use_tool_id(tool, "test")
        chosen = 0
        for name in names:
            event = getattr(monitoring.events, name)
            chosen |= event

            def note(code, *args, name=name):
                if code is function.__code__:
                    seen.append((name, *map(repr, args)))

            monitoring.register_callback(tool, event, note)
        try:
            if where == "anywhere":
                monitoring.set_events(tool, chosen)
            else:
                monitoring.set_local_events(tool, function.__code__, chosen)
            with contextlib.suppress(LookupError):
                callable_(A)
        finally:
            monitoring.set_events(tool, 0)
            monitoring.set_local_events(tool, function.__code__, 0)
            monitoring.free_tool_id(tool)
        return seen

    plain = events(function)
    assert len(plain) > 3 and events(dynamlir.compile(function)) == plain
    assert dynamlir.counters()["fallbacks"] == {"observed": 1}
