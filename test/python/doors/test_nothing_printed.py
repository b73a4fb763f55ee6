"""An exception that the program raises, and may handle, is the only trace of a failure: stderr stays empty."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from both import each_door
from dynamlir.graph_modules import quiet

X = torch.arange(6.0).reshape(2, 3)


def rows_out_of_range(x):
    return x[torch.tensor([0, 5]) + x.long().sum() * 0]


def divided_by_zero(x):
    return x.long() // (x.long() * 0)


def solved(x):
    return torch.linalg.inv(x[:, :2] * 0)


def embedded(x):
    return torch.nn.functional.embedding(x.long() + 4, torch.ones(3, 2)) + 1


def classified(x):
    return torch.nn.functional.nll_loss(x, torch.tensor([1, 7]) + x.long()[:, 0] * 0)


RAISING = [rows_out_of_range, divided_by_zero, solved, embedded, classified]


@pytest.mark.filterwarnings("ignore")
@each_door()
@pytest.mark.parametrize("function", RAISING)
def test_what_a_graph_raises(function, door, capfd):
    with pytest.raises((RuntimeError, IndexError)) as expected:
        function(X)
    compiled = door(function)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as raised:
            compiled(X)
        assert str(raised.value) == str(expected.value)
    assert capfd.readouterr() == ("", "")


def test_what_a_graph_raises_that_was_not_compiled(capfd):
    """With complex numbers the whole graph runs as torch's operations, whose code is generated at the first run."""

    def unfit(x):
        return torch.view_as_real(x * 1j) + x[x.long() + 9].sum()

    compiled = torch.compile(unfit, backend="dynamlir")
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(X)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", lambda graph, inputs: graph])
def test_what_other_backends_graphs_raise(backend, capfd):
    compiled = dynamlir.compile(rows_out_of_range, backend=backend)
    for _ in range(2):
        with pytest.raises((IndexError, RuntimeError)):
            compiled(X)
    assert capfd.readouterr() == ("", "")


def test_a_graph_is_called_with_its_hooks():
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    seen = []
    graph.register_forward_hook(lambda module, inputs, output: seen.append(output))
    assert torch.equal(quiet(graph)(X), X + 1) and len(seen) == 1

    class Doubling(torch.fx.GraphModule):
        def __call__(self, x):
            return super().__call__(x) * 2

    assert torch.equal(quiet(Doubling(graph, graph.graph))(X), (X + 1) * 2)
