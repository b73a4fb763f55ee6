"""`dynamlir.profile`: the time of each kernel and each extern call, regardless of the graph's caller and outcome."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import dynamlir
import forked
import pytest
import torch

X = torch.randn(64, 64)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    dynamlir.reset()
    with torch.no_grad():
        yield


def softmax(x):
    return torch.softmax(x * 2, -1)


def sorts(x):
    values = torch.sort(x * 2, -1).values
    return values + 1


def compiled(function, *args):
    made = dynamlir.compile(function, fullgraph=True)
    made(*args)
    return made


def test_a_kernel_has_its_calls_its_bytes_and_its_line():
    function = compiled(softmax, X)
    begin = time.perf_counter()
    with dynamlir.profile() as profile:
        for _ in range(5):
            function(X)
    wall = time.perf_counter() - begin
    (graph,) = profile.graphs
    (step,) = graph.steps
    assert (graph.name, graph.calls, step.graph) == ("softmax", 5, "softmax")
    (kernel,) = dynamlir.last_compile().launched
    assert (step.name, step.route, step.calls) == (kernel.name, None, 5 * kernel.launches)
    assert step.bytes == kernel.bytes // kernel.launches == 2 * X.nbytes
    assert step.lines == kernel.lines
    assert __file__ in step.lines[0]
    assert 0 < step.seconds <= graph.seconds == profile.seconds <= wall
    assert step.mean * step.calls == pytest.approx(step.seconds)
    assert step.bandwidth == pytest.approx(step.bytes / step.mean)


def test_an_extern_call_has_its_route_and_its_line():
    function = compiled(sorts, X)
    with dynamlir.profile() as profile:
        function(X)
        function(X)
    (sort,) = (step for step in profile.steps if step.route is not None)
    assert (sort.name, sort.calls, sort.bytes, sort.bandwidth) == ("aten.sort.default", 2, None, None)
    assert __file__ in sort.lines[0]
    assert sort.seconds > 0
    assert {step.route for step in profile.steps} == {None, sort.route}


def test_it_is_printed():
    function = compiled(sorts, X)
    with dynamlir.profile() as profile:
        function(X)
    head, columns, *rows = str(profile).splitlines()
    assert head.startswith("graph sorts: 1 calls, ")
    assert columns.split() == ["step", "by", "calls", "ms", "mean", "µs", "share", "bytes", "GB/s", "line"]
    assert len(rows) == len(profile.steps)
    for row, step in zip(rows, profile.steps, strict=True):
        cells = row.split()
        assert cells[0] == step.name
        assert cells[1] == (step.route or "kernel").split()[0]
        assert __file__ in row


def test_the_latest_report_has_times_once_they_are_measured():
    function = compiled(sorts, X)
    before = str(dynamlir.last_compile())
    assert "µs" not in before
    assert not dynamlir.last_compile().kernel_seconds
    with dynamlir.profile():
        function(X)
    report = dynamlir.last_compile()
    assert set(report.kernel_seconds) == {kernel.name for kernel in report.launched}
    assert all(seconds > 0 for seconds in (*report.kernel_seconds.values(), *report.extern_seconds))
    headers = [line.split() for line in str(report).splitlines() if "µs" in line]
    assert headers == [
        ["kernel", "launches", "bytes", "mean", "µs", "line"],
        ["extern", "route", "count", "mean", "µs", "line"],
    ]


def test_nothing_is_measured_outside():
    function = compiled(softmax, X)
    with dynamlir.profile() as profile:
        pass
    function(X)
    assert profile.graphs == profile.steps == ()
    assert profile.seconds == 0
    assert str(profile) == "No compiled graph was called while this profile was entered."
    assert str(dynamlir.profile()) == str(profile)
    assert not dynamlir.last_compile().kernel_seconds


def calls(profile):
    return sum(graph.calls for graph in profile.graphs)


def test_nested_and_overlapping_profiles_have_sums_of_their_own():
    function = compiled(softmax, X)
    with dynamlir.profile() as outer:
        function(X)
        with dynamlir.profile() as inner:
            function(X)
        function(X)
    assert (calls(outer), calls(inner)) == (3, 1)
    first, second = dynamlir.profile(), dynamlir.profile()
    first.__enter__()
    function(X)
    second.__enter__()
    function(X)
    first.__exit__(None, None, None)
    function(X)
    second.__exit__(None, None, None)
    assert (calls(first), calls(second)) == (2, 2)


def test_a_profile_is_entered_once():
    with dynamlir.profile() as profile, pytest.raises(RuntimeError, match="entered once"):
        profile.__enter__()
    with pytest.raises(RuntimeError, match="entered once"):
        profile.__enter__()


def test_threads_add_up():
    function = compiled(sorts, X)
    started = threading.Barrier(5)

    def call():
        started.wait()
        with torch.no_grad():
            for _ in range(50):
                function(X)

    threads = [threading.Thread(target=call) for _ in range(4)]
    with dynamlir.profile() as profile:
        for thread in threads:
            thread.start()
        started.wait()
        for thread in threads:
            thread.join()
    assert calls(profile) == 200
    assert {step.calls for step in profile.steps} == {200}


@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_both_doors(door):
    function = dynamlir.compile(softmax) if door == "dynamlir.compile" else torch.compile(softmax, backend="dynamlir")
    function(X)
    with dynamlir.profile() as profile:
        function(X)
    assert [graph.calls for graph in profile.graphs] == [1]
    assert "softmax" in profile.graphs[0].name


def test_a_first_call_is_measured_without_its_compilation():
    function = dynamlir.compile(softmax)
    with dynamlir.profile() as profile:
        function(X)
    assert calls(profile) == 1
    assert profile.seconds < dynamlir.last_compile().seconds


def test_a_call_that_raises_is_measured_to_where_it_raised():
    def picks(x, at):
        return torch.sort(x, -1).values + x[at]

    function = compiled(picks, X, torch.zeros(64, dtype=torch.int64))
    with dynamlir.profile() as profile, pytest.raises(IndexError):
        function(X, torch.full((64,), 64))
    (graph,) = profile.graphs
    assert graph.calls == 1
    with dynamlir.profile() as profile:
        function(X, torch.zeros(64, dtype=torch.int64))
    assert profile.steps


def test_an_exception_leaves_the_profile():
    function = compiled(softmax, X)
    with pytest.raises(ValueError, match="mine"), dynamlir.profile() as profile:
        function(X)
        raise ValueError("mine")
    function(X)
    assert calls(profile) == 1


def test_graphs_that_are_gone_stay_in_the_profile_in_words():
    def released():
        def triple(x):
            return torch.softmax(x * 3, -1)

        function = dynamlir.compile(triple)
        function(X)
        function(X)
        return weakref.ref(triple)

    with dynamlir.profile() as profile:
        gone = released()
        gc.collect()
        assert gone() is None
        released()
    assert [graph.calls for graph in profile.graphs] == [2, 2]
    assert all("triple" in graph.name and graph.steps[0].lines for graph in profile.graphs)


def test_reset_within_a_profile():
    function = compiled(softmax, X)
    with dynamlir.profile() as profile:
        function(X)
        dynamlir.reset()
        function(X)
    assert calls(profile) == 2
    assert {graph.name for graph in profile.graphs} == {"softmax"}


def test_profiles_that_nobody_leaves_end_with_their_objects():
    function = compiled(softmax, X)
    dynamlir.profile().__enter__()
    function(X)
    assert not dynamlir.last_compile().kernel_seconds


def test_a_loaded_stage_is_measured(tmp_path):
    compiled_ = dynamlir.compile(softmax, options={"dump": str(tmp_path)})
    compiled_(X)
    (path,) = tmp_path.rglob("03-kernels.mlir")
    executable = dynamlir.load(path)
    with dynamlir.profile() as profile:
        executable(X)
    assert [(graph.name, graph.calls) for graph in profile.graphs] == [("03-kernels.mlir", 1)]


def test_help_tells_what_is_measured():
    text = forked.python("import dynamlir; help(dynamlir.profile)").stdout
    assert "with dynamlir.profile() as p" in text
    assert "GPU" in text


def test_what_is_tried_out_is_no_call(tmp_path):
    function = dynamlir.compile(
        lambda x: x @ x.t(), options={"max_autotune": True, "cache_dir": str(tmp_path), "no_cache": True}
    )
    with dynamlir.profile() as profile:
        function(X)
    assert any(product.source == "measured" for product in dynamlir.last_compile().products)
    assert [graph.calls for graph in profile.graphs] == [1]


def test_leaving_what_was_not_entered() -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        dynamlir.profile().__exit__(None, None, None)
