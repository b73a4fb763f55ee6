"""Third-party backends receive graphs that Python can print, and fail as they fail in torch.compile."""

from __future__ import annotations

import functools
import random

import dynamlir
import pytest
import torch

X = torch.tensor([0.5, 2.0, -1.0])
BACKENDS = ["eager", "python", "jit", "aot_eager", "dynamlir"]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    dynamlir.reset()
    with torch.no_grad():
        yield


def svd_into(x):
    outs = torch.empty(2, 2), torch.empty(2), torch.empty(2, 2)
    torch.linalg.svd(x[:2].outer(x[1:]) + torch.eye(2), out=outs)
    return outs[1] + 1


ARGUMENTS = {
    "bool as dtype": lambda x: x.to(bool),
    "int as dtype": lambda x: x.to(dtype=int),
    "float as dtype": lambda x: torch.zeros(3, dtype=float) + x,
    "a tensor type": lambda x: x.type(torch.HalfTensor),
    "a tensor type that is written into": lambda x: torch.zeros(3).type(torch.DoubleTensor).copy_(x),
    "a dtype": lambda x: x.type(torch.int16),
    "a device": lambda x: x.to(torch.device("cpu")) + 1,
    "a layout": lambda x: torch.zeros(3, layout=torch.strided) + x,
    "a memory format": lambda x: x.reshape(1, 1, 3, 1).contiguous(memory_format=torch.channels_last),
    "from": lambda x: x.clone().random_(**{"from": 3, "to": 4}),
    "from, by a function": lambda x: torch.Tensor.random_(x.clone(), **{"from": 3, "to": 4}),
    "a slice": lambda x: x[slice(None, None, 2)],
    "an ellipsis": lambda x: x[..., None],
    "infinity": lambda x: torch.nan_to_num(x / 0, nan=float("inf")),
    "out": svd_into,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments(name, backend):
    if name.startswith("from") and backend == "aot_eager":
        pytest.skip("torch.fx cannot print the operator, aten.random.from")
    function = ARGUMENTS[name]
    compiled = dynamlir.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        expected, seen = function(X), compiled(X)
        assert seen.dtype == expected.dtype
        assert torch.allclose(seen, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_tuple_of_results_is_written(backend):
    def largest(x, values, indices):
        torch.topk(x, 1, out=(values, indices))

    given = [(torch.zeros(1), torch.zeros(1, dtype=torch.int64)) for _ in range(2)]
    compiled = dynamlir.compile(largest, backend=backend)
    for values, indices in given:
        compiled(X, values, indices)
        assert (values.item(), indices.item()) == (2.0, 1)


def duck(gm, inputs):
    raise RuntimeError("duck!")


def out_of_range(gm, inputs):
    raise IndexError("dimension out of range")


@pytest.mark.parametrize("backend", [duck, out_of_range])
def test_failing_backends_raise_what_they_raise_in_torch_compile(backend):
    told = []
    for door in (torch.compile, dynamlir.compile):
        compiled = door(lambda x: x + 1, backend=backend)
        for _ in range(2):
            with pytest.raises(Exception) as caught:
                compiled(X)
            told.append((type(caught.value), getattr(caught.value, "backend_name", None)))
    assert len(set(told)) == 1, told


def test_the_message_names_the_backend_and_what_it_raised():
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match=r"duck.*raised:\s+RuntimeError: duck!"):
        dynamlir.compile(lambda x: x + 1, backend=duck)(X)


def test_errors_of_backends_are_suppressed_where_torch_is_told_so():
    with torch._dynamo.config.patch(suppress_errors=True):
        compiled = dynamlir.compile(lambda x: x + 1, backend=duck)
        for _ in range(2):
            assert torch.equal(compiled(X), X + 1)
    assert set(dynamlir.counters()["fallbacks"]) == {"backend-error"}


def test_an_interruption_in_a_backend_is_the_users():
    def interrupted(gm, inputs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dynamlir.compile(lambda x: x + 1, backend=interrupted)(X)


def test_partials_are_backends():
    def backend(gm, inputs, *, times):
        return lambda *args: [out * times for out in gm(*args)]

    compiled = dynamlir.compile(lambda x: x + 1, backend=functools.partial(backend, times=2))
    assert torch.equal(compiled(X), (X + 1) * 2)


def test_a_backend_that_runs_the_graph_draws_no_random_numbers():
    def backend(graph, examples):
        random.random()
        graph(*examples)
        return graph.forward

    def function(x):
        return torch.dropout(x, 0.5, True) + torch.rand(3)

    x = torch.ones(3)
    torch.manual_seed(3)
    random.seed(3)
    expected = [function(x) for _ in range(2)], random.random()
    torch.manual_seed(3)
    random.seed(3)
    compiled = dynamlir.compile(function, backend=backend)
    seen = [compiled(x) for _ in range(2)], random.random()
    torch.testing.assert_close(seen, expected, rtol=0, atol=0)


def test_autocast_is_not_dead_code():
    def backend(graph, _):
        graph.graph.eliminate_dead_code()
        graph.recompile()
        return graph.forward

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x

    x = torch.ones(4, 4)
    assert dynamlir.compile(function, backend=backend)(x).dtype == function(x).dtype == torch.bfloat16


@pytest.mark.parametrize("mode", ["grad", "inference", "autocast"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "runs"])
def test_the_state_that_a_backend_leaves(mode, backend):
    """A backend may run the graph, which may set state without restoring it: first and later calls act alike."""

    def runs(module, inputs):
        module(*inputs)
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        return module.forward

    def left_off(x):
        y = x.sin()
        torch.set_grad_enabled(False)
        return y

    def switched(x):
        with torch.no_grad():
            y = x.cos()
        return x * y

    function = left_off if mode == "grad" else switched
    compiled = dynamlir.compile(function, backend=runs if backend == "runs" else backend)
    for _ in range(2):
        for call in (function, compiled):
            with torch.enable_grad(), torch.autocast("cpu", enabled=mode == "autocast"):
                result = call(torch.ones(3, requires_grad=mode != "inference"))
                assert result.requires_grad == (mode != "inference")
                assert torch.is_grad_enabled() == (mode != "grad")
                assert torch.is_autocast_enabled("cpu") == (mode == "autocast")


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_gradients_within_the_graph(backend):
    """Code that such a backend cannot trace falls back to plain Python, as all of them do in torch's own capture."""

    def penalty(x, w):
        (g,) = torch.autograd.grad((x * w).abs().sum(), x, create_graph=True)
        return g.square().sum()

    def through_a_transform(x, w):
        return torch.func.grad(lambda x: (x * w).tanh().sum())(x)

    with torch.enable_grad():
        x, w = X.clone().requires_grad_(), X.flip(0).requires_grad_()
        for function in (penalty, through_a_transform):
            found, expected = (f(x, w) for f in (dynamlir.compile(function, backend=backend), function))
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(*(torch.autograd.grad(one.sum(), w)[0] for one in (found, expected)))
