"""Functions compiled by one front door pass through the other, either way, without any message."""

from __future__ import annotations

import functools
import logging
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir import nested_doors
from torch import nn

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def waves(x):
    return x.sin() * 2 + x.cos()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).relu() + 1


class Around(nn.Module):
    """Calls a callable that another door has compiled."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        super().__init__()
        self.inner, self.last = inner, nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.inner(x * 2))


DOORS: dict[str, Callable[[Any], Any]] = {
    "ours": dynamlir.compile,
    "ours, whole": functools.partial(dynamlir.compile, fullgraph=True),
    "ours, eager": functools.partial(dynamlir.compile, backend="eager"),
    "torch's": functools.partial(torch.compile, backend="dynamlir"),
    "torch's, eager": functools.partial(torch.compile, backend="eager"),
}
doors_ = pytest.mark.parametrize("outer", DOORS)
inner_ = pytest.mark.parametrize("inner", DOORS)
subjects = pytest.mark.parametrize("make", [lambda: waves, Net], ids=["function", "module"])


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Checks for no warnings, logs or output; torch's warnings about its own behaviour do not count."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("torch").addHandler(handler)
    torch.manual_seed(1)
    try:
        # Torch hides some of its own warnings at the place that shows them.
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            # Torch gives this warning for 3.13.0 at each guard that it creates.
            warnings.filterwarnings("ignore", "Guards may run slower on Python 3.13.0", RuntimeWarning)
            yield
    finally:
        logging.getLogger("torch").removeHandler(handler)
    assert [str(one.message) for one in said] == [] and not lines and capfd.readouterr() == ("", "")
    assert set(dynamlir.counters()["fallbacks"]) <= {"tracing"}


def same(function: Any, compiled: Any, gradients: bool = True) -> None:
    for rows in (3, 3, 2):
        ours, theirs = (X[:rows].clone().requires_grad_(gradients) for _ in range(2))
        found, expected = compiled(ours), function(theirs)
        torch.testing.assert_close(found, expected)
        if gradients:
            found.sum().backward()
            expected.sum().backward()
            torch.testing.assert_close(ours.grad, theirs.grad)


@doors_
@inner_
@subjects
def test_what_is_compiled_is_compiled(make, inner, outer):
    made = make()
    same(made, DOORS[outer](DOORS[inner](made)))


@doors_
@inner_
@subjects
def test_what_is_compiled_is_called(make, inner, outer):
    made = make()
    around = Around(made)
    expected = Around(made)
    expected.load_state_dict(around.state_dict())
    around.inner = DOORS[inner](made)
    same(expected, DOORS[outer](around))


def test_the_last_door_decides():
    graphs = []

    def notes(graph, inputs):
        graphs.append(graph)
        return graph.forward

    ways = [dynamlir.compile, DOORS["torch's, eager"], functools.partial(dynamlir.compile, backend="eager")]
    for compiled in [way(waves) for way in ways]:
        again = dynamlir.compile(dynamlir.compile(compiled, backend=notes), backend=notes)
        assert nested_doors.innermost(again) is waves and nested_doors.innermost(compiled) is waves
        torch.testing.assert_close(again(X), waves(X))
    assert len(graphs) == 3
    module = Net()
    for compiled in (dynamlir.compile(module), torch.compile(module, backend="eager")):
        assert nested_doors.innermost(dynamlir.compile(compiled)) is module
    assert nested_doors.innermost(torch.compiler.disable(waves)) is not waves


def test_what_wraps_something_compiled_is_not_it():
    compiled = torch.compile(waves, backend="eager")

    @functools.wraps(compiled)
    def twice(x):
        return compiled(compiled(x))

    assert nested_doors.innermost(twice) is twice
    same(lambda x: waves(waves(x)), dynamlir.compile(twice))


def test_methods():
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        @torch.compile(backend="eager")
        def theirs(self, x):
            return x * self.by

        @dynamlir.compile
        def ours(self, x):
            return x * self.by

    three, five = Scale(3.0), Scale(5.0)
    for one in (three, five):
        for method in (one.theirs, one.ours):
            torch.testing.assert_close(dynamlir.compile(method)(X), X * one.by)


def test_a_module_that_compiles_itself():
    net = Net()
    net.compile(backend="eager")
    plain = Net()
    plain.load_state_dict(net.state_dict())
    same(plain, dynamlir.compile(net))
    around = Around(net)
    expected = Around(plain)
    expected.load_state_dict(around.state_dict())
    same(expected, dynamlir.compile(around))


@pytest.mark.parametrize("outer", ["torch's", "torch's, eager", "ours", "ours, whole"])
def test_our_programs_are_parts_of_what_calls_them(outer):
    with torch.no_grad():
        program = dynamlir.export(waves, X)

        def calls(x):
            return program(x + 1) * program.module()(x)

        for _ in range(2):
            torch.testing.assert_close(DOORS[outer](calls)(X), waves(X + 1) * waves(X))


def test_torchs_export_goes_through():
    net = Net().eval()
    for inner in (dynamlir.compile(net), dynamlir.compile(net, fullgraph=True)):
        program = torch.export.export(Around(inner), (X,))
        assert torch.ops.aten.relu.default in [node.target for node in program.graph.nodes]
        assert program.module()(X).shape == (3, 2)


@pytest.mark.parametrize("make", [lambda: waves, Net], ids=["function", "module"])
@pytest.mark.parametrize("warm", [False, True])
def test_explain_of_what_is_compiled(make, warm):
    def broken(x):
        y = made(x)
        torch._dynamo.graph_break()
        return y + 1

    made = make()
    expected = dynamlir.explain(broken)(X)
    assert expected.graph_count == 2
    with dynamlir.config.patch(on_plain="ignore"):
        for door in DOORS.values():
            compiled = door(broken)
            if warm and door is not DOORS["ours, whole"]:
                compiled(X)
            found = dynamlir.explain(compiled)(X)
            assert (found.graph_count, found.ops) == (expected.graph_count, expected.ops)
    dynamlir.reset()


def test_the_tracer_stays_out():
    """Even where the tracer reaches a call that it does not trace into and the callee is captured under its hook."""
    compiled = dynamlir.compile(waves)

    def called_by_c(x):
        (found,) = map(functools.partial(compiled), [x])
        return found + 1

    same(lambda x: waves(x) + 1, torch.compile(called_by_c, backend="eager"))
    rules = torch._dynamo.trace_rules
    assert rules.check_file(nested_doors.__file__).skipped
