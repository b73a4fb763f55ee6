"""Third-party backends see the same state of torch under `dynamlir.compile` as under `torch.compile`, and get the same
inputs.
"""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from torch import nn
from torch._functorch.aot_autograd import aot_module_simplified, make_boxed_func
from torch._guards import TracingContext, detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode

X = torch.linspace(-1, 1, 6).reshape(2, 3)
KEPT = torch.arange(3.0)


def found_by(compile_: Any, function: Any, *args: Any) -> dict[str, Any]:
    """Everything that a backend observes."""
    seen: dict[str, Any] = {}

    def looks(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        mode, context = detect_fake_mode(inputs), TracingContext.try_get()
        assert mode is not None and context is not None
        fakes = [mode.from_tensor(one) for one in inputs if isinstance(one, torch.Tensor)]
        seen.update(
            mode=type(mode) is FakeTensorMode,
            symbols=mode.shape_env is not None,
            context=context.fake_mode is mode,
            shapes=[tuple(fake.shape) for fake in fakes],
        )
        return graph.forward

    compile_(function, backend=looks)(*args)
    return seen


class Normed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, x):
        self.calls.add_(1)
        return self.norm(x) + self.calls


@pytest.mark.parametrize("function", [lambda x: x.sin() + KEPT, nn.Linear(3, 2), Normed()])
def test_what_backends_find(function):
    theirs, ours = (found_by(door, function, X) for door in (torch.compile, dynamlir.compile))
    # The graphs may take their inputs in different orders.
    assert sorted(theirs.pop("shapes")) == sorted(ours.pop("shapes")) and theirs == ours
    assert TracingContext.try_get() is None


def test_nothing_stays_where_a_backend_raises():
    def raises(graph, inputs):
        raise LookupError("not this one")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="not this one"):
        dynamlir.compile(torch.sin, backend=raises)(X)
    assert TracingContext.try_get() is None


def boxed(graph, inputs):
    return aot_module_simplified(graph, inputs, fw_compiler=lambda inner, _: make_boxed_func(inner.forward))


PROGRAMS = [
    lambda x: x + torch.tensor([1.0, 2.0, 3.0]),
    lambda x: KEPT[x.long() % 3] * x,
    lambda x: x.clone().add_(1).t(),
    lambda x: (x, x[0] + 1),
    lambda x: x.add_(1) * 2,
    Normed().eval(),
    nn.TransformerEncoderLayer(3, 1, 4, dropout=0.0, batch_first=True).eval(),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", [boxed, "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_backends_on_autograd(function, backend, dynamic):
    if isinstance(function, Normed):
        function.calls.zero_()
    expected = function(X.clone())
    if isinstance(function, Normed):
        function.calls.zero_()
    torch.testing.assert_close(dynamlir.compile(function, backend=backend, dynamic=dynamic)(X.clone()), expected)


# ---- recurrent layers


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.recurrent, self.last = kind(3, 4, batch_first=True), nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.recurrent(x.tanh()[None])[0]).relu()


@pytest.fixture
def counted():
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    backend.graphs = graphs
    return backend


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_left_out_of_others_graphs(kind, counted, quiet):
    model = Recurrent(kind)
    with torch._dynamo.config.patch(allow_rnn=False):
        for door in (torch.compile, dynamlir.compile):
            counted.graphs.clear()
            torch.testing.assert_close(door(model, backend=counted)(X), model(X))
            text = "\n".join(graph.code for graph in counted.graphs)
            assert (
                len(counted.graphs) == 2 and "tanh" in text and "linear" in text and kind.__name__.lower() not in text
            )
    assert set(dynamlir.counters()["fallbacks"]) == {"disabled"}
    assert "allow_rnn" in dynamlir.explain_last() or any("allow_rnn" in str(one) for one in dynamlir.fallbacks())


def test_recurrent_layers_of_a_training_step(quiet):
    model = Recurrent(nn.LSTM)
    compiled = dynamlir.compile(model, backend="aot_eager")
    compiled(X).sum().backward()
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    model(X).sum().backward()
    torch.testing.assert_close(found, [parameter.grad for parameter in model.parameters()])


def test_they_are_in_the_graph_where_torch_allows_it(counted):
    model = Recurrent(nn.GRU)
    with torch._dynamo.config.patch(allow_rnn=True), torch.no_grad():
        torch.testing.assert_close(dynamlir.compile(model, backend=counted, fullgraph=True)(X), model(X))
    assert len(counted.graphs) == 1


def test_they_are_in_our_own_graphs():
    model = Recurrent(nn.LSTM).eval()
    with torch.no_grad():
        torch.testing.assert_close(dynamlir.compile(model, fullgraph=True)(X), model(X))
        assert dynamlir.explain(model)(X).graph_count == 1


def test_a_whole_graph_is_refused():
    with pytest.raises(dynamlir.Unsupported, match="allow_rnn"):
        dynamlir.compile(Recurrent(nn.GRU), backend="eager", fullgraph=True)(X)
