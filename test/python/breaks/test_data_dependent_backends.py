"""Unbacked sizes behind third-party backends: one graph, which checks the assumptions of the capture."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any

import dynamlir
import pytest
import torch
import torch._dynamo
from data_dependent_programs import COUNTS, PROGRAMS, count, ones, same
from dynamlir import reports

pytestmark = [pytest.mark.usefixtures("quiet")]


class Graphs:
    """A backend that keeps each graph and runs it unchanged."""

    def __init__(self) -> None:
        self.made: list[torch.fx.GraphModule] = []

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.made.append(graph)
        return graph.forward

    @property
    def only(self) -> torch.fx.GraphModule:
        (graph,) = self.made
        return graph


def targets(graph: torch.fx.GraphModule) -> list[str]:
    return [node.target if isinstance(node.target, str) else node.target.__name__ for node in graph.graph.nodes]


def repeated() -> int:
    """The number of calls that were rerun as plain Python; resets it."""
    count = reports.counters().get("calls_repeated_eagerly", 0)
    reports.reset()
    return count


@pytest.fixture(autouse=True)
def fresh() -> None:
    dynamlir.reset()
    reports.reset()


def both(program: Callable[..., Any], compiled: Callable[..., Any], make: Callable[[], Sequence[Any]]) -> Any:
    """Compares a call with eager: its result or exception, the modes and random numbers after it, and its arguments."""
    outcomes = []
    for function in (program, compiled):
        torch.manual_seed(3)
        given = make()
        try:
            outcome: Any = function(*given)
        except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
            outcome = (type(error).__name__, str(error))
        outcomes.append((outcome, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.rand(2), *given))
    same(outcomes[1], outcomes[0])
    return outcomes[1][0]


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "a float"])
def test_one_graph_for_all_counts(name: str) -> None:
    graphs = Graphs()
    compiled = dynamlir.compile(PROGRAMS[name], backend=graphs, dynamic=True, fullgraph=True)
    for number in COUNTS:
        same(compiled(ones(number)), PROGRAMS[name](ones(number)))
    assert graphs.only and repeated() == 0


def test_torchs_switches_decide() -> None:
    def program(x: torch.Tensor) -> Any:
        return x[x > 0], count(x).item()

    kept = dynamlir.compile(program, backend="eager")
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        whole = dynamlir.compile(program, backend="eager", fullgraph=True)
        same(whole(ones(3)), program(ones(3)))
    same(kept(ones(3)), program(ones(3)))
    assert {"data-dependent-size"} <= set(dynamlir.counters()["fallbacks"])


def test_a_size_is_what_the_tensor_had_when_it_was_made() -> None:
    def program(x: torch.Tensor) -> Any:
        found = (x.view(2, -1) > 0).nonzero()
        n = found.shape[0]
        torch._check(n >= 2)
        found.t_()
        return found, n, torch.zeros(n * 2 + 1)

    graphs = Graphs()
    compiled = dynamlir.compile(program, backend=graphs, dynamic=True, fullgraph=True)
    for number in (4, 2, 7):
        same(compiled(ones(number)), program(ones(number)))
    names = targets(graphs.only)
    assert names.index("nonzero") + 1 == names.index("size") < names.index("t_")


def test_what_is_not_promised_needs_no_node() -> None:
    graphs = Graphs()
    dynamlir.compile(lambda x: (x > 0).nonzero() * 2, backend=graphs, dynamic=True)(ones(3))
    assert targets(graphs.only) == ["L_x_", "gt", "nonzero", "mul", "output"]


def without_dead_code(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


PASSES: dict[str, Callable[[torch.fx.GraphModule], Callable[..., Any]]] = {
    "dead code": without_dead_code,
    "a copy": copy.deepcopy,
    "traced again by fx": torch.fx.symbolic_trace,
    "interpreted": lambda graph: torch.fx.Interpreter(graph).run,
}


@pytest.mark.parametrize("name", PASSES)
def test_checks_outlive_passes(name: str) -> None:
    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        assert "s0" in graph.print_readable(print_output=False)
        return PASSES[name](graph)

    def program(t: torch.Tensor, x: torch.Tensor) -> Any:
        n = _below(t.item())
        return x[:n] * 2, x.new_zeros(n, n + 1)

    compiled = dynamlir.compile(program, backend=backend, dynamic=True, fullgraph=True)
    for number in (2, 0, 8, 3):
        both(program, compiled, lambda number=number: [torch.tensor(number), ones(3)])
    assert repeated() == 1 and dynamlir.counters()["fallbacks"] == {"run-error": 1}


def _below(n: int) -> int:
    torch._check(n >= 0)
    torch._check(n < 5, lambda: "too many")
    return n


def with_random(t: torch.Tensor) -> Any:
    noise = torch.rand(3)
    return noise, torch.ones(_below(t.item())) * torch.rand(1)


def within_autocast(t: torch.Tensor) -> Any:
    a = torch.ones(4, 4)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        b = a @ a
        return b[: _below(t.item())], a @ a


def of_two(t: torch.Tensor) -> Any:
    a, b = t.view(-1).repeat(2).tolist()
    torch._check(a * b < 10, lambda: "the product")
    return torch.arange(10)[a * b :] if a >= 0 else a


def divided(t: torch.Tensor) -> Any:
    n = t.item()
    return torch.ones(3) * (12 // n), 12 % n, (n * n + 2 * n) // n


def joined(t: torch.Tensor) -> Any:
    n = t.item()
    torch._check((n >= 0) & (n < 5), lambda: "not among these")
    return torch.zeros(n), True & (n < 7)


def handled(t: torch.Tensor) -> Any:
    n = t.item()
    torch._check(n >= 0)
    x = torch.arange(6.0).view(2, 3)
    try:
        return x[n, 1:]
    except IndexError:
        return x


FAILING: dict[str, Callable[..., Any]] = {
    "random numbers": with_random,
    "autocast": within_autocast,
    "two numbers": of_two,
    "a division": divided,
    "joined": joined,
    "what raises for some": handled,
}


@pytest.mark.parametrize("name", FAILING)
def test_where_a_check_fails_eager_raises(name: str) -> None:
    program, graphs = FAILING[name], Graphs()
    compiled = dynamlir.compile(program, backend=graphs, dynamic=True)
    for number in (3, 2, 7, -1, 0, 1, 4):
        both(program, compiled, lambda number=number: [torch.tensor(number)])
    assert graphs.made


@pytest.mark.parametrize("number", [2, 7])
def test_nothing_is_written_twice(number: int) -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[: _below(t.item())]

    compiled = dynamlir.compile(program, backend="eager", dynamic=True)
    for _ in range(2):
        both(program, compiled, lambda: [torch.zeros(6), torch.tensor(number)])
    assert repeated() == 0
    with pytest.raises(dynamlir.Unsupported, match="after an input is written"):
        dynamlir.compile(program, backend="eager", dynamic=True, fullgraph=True)(torch.zeros(6), torch.tensor(2))


def test_what_is_written_where_nothing_is_checked_later() -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> Any:
        n = _below(t.item())
        x.mul_(n)
        return x[x > 0] + n

    compiled = dynamlir.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for number in (2, 3, 0, 7):
        both(program, compiled, lambda number=number: [torch.arange(-3.0, 3.0), torch.tensor(number)])
    assert repeated() == 1


def test_gradients() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return ((x * w)[x > 0] ** 2).sum() * w.sum()

    compiled = dynamlir.compile(program, backend="eager", dynamic=True, fullgraph=True)
    for number in (3, 0, 5):
        ours, theirs = (torch.linspace(-1, 1, 24).requires_grad_() for _ in range(2))
        compiled(ones(number), ours).backward()
        program(ones(number), theirs).backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_positions() -> None:
    def program(x: torch.Tensor, t: torch.Tensor) -> Any:
        n = t.item()
        torch._check(n >= 0)
        torch._check(n < x.shape[0])
        return x[n], x[1:, n], x[n, n] * 2

    for backend in ("eager", "dynamlir"):
        compiled = dynamlir.compile(program, backend=backend, dynamic=True, fullgraph=True)
        for number in (2, 0, 1, 3):
            given = torch.arange(16.0).view(4, 4), torch.tensor(number)
            same(compiled(*given), program(*given))


def test_lists_of_several_dimensions() -> None:
    def program(t: torch.Tensor) -> Any:
        (a, b), (c, d) = t.tolist()
        return t.view(-1, 1).tolist(), a * d - b * c

    for backend in ("eager", "dynamlir"):
        compiled = dynamlir.compile(program, backend=backend, dynamic=True, fullgraph=True)
        for number in range(3):
            t = torch.arange(4).view(2, 2) * (number - 1)
            same(compiled(t), program(t))


def test_sizes_in_what_the_graph_takes_for_a_constant() -> None:
    import collections

    Pair = collections.namedtuple("Pair", "rows columns")

    def program(t: torch.Tensor) -> torch.Tensor:
        return torch.ones(Pair(_below(t.item()), 2))

    compiled = dynamlir.compile(program, backend="eager", dynamic=True)
    for number in (2, 3, 0):
        t = torch.tensor(number)
        same(compiled(t), program(t))


def aot(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    from torch._functorch.aot_autograd import aot_module_simplified

    return aot_module_simplified(graph, tuple(inputs), fw_compiler=lambda graph, _: graph.forward)


def jit(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    return torch.jit.trace(graph, tuple(inputs), check_trace=False)


@pytest.mark.parametrize("backend", [aot, jit])
@pytest.mark.parametrize("name", ["an int as a size", "a mask", "an int in a slice"])
def test_backends_that_trace(backend: Any, name: str) -> None:
    """A program that a backend cannot take runs plain, with a reason; results are never wrong."""
    compiled = dynamlir.compile(PROGRAMS[name], backend=backend, dynamic=True)
    for number in (3, 5, 0):
        torch.testing.assert_close(compiled(ones(number)), PROGRAMS[name](ones(number)))
    assert set(dynamlir.counters()["fallbacks"]) <= {"traced-again"}


def test_a_backend_that_runs_the_graph_meets_a_check_that_fails() -> None:
    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        random.random()
        graph(*inputs)
        return graph.forward

    for number in (7, 2):
        compiled = dynamlir.compile(within_autocast, backend=backend, dynamic=True)
        both(within_autocast, compiled, lambda number=number: [torch.tensor(number)])
