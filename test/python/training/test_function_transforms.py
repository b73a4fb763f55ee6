"""`torch.func` in compiled functions: vmap, grad, jvp and their combinations, `functional_call`; one graph each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from same_trees import same
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

GENERATOR = torch.Generator().manual_seed(0)
X, Y, W = (torch.randn(size, generator=GENERATOR) for size in ((3, 4), (3, 4), (4, 4)))
LINEAR = nn.Linear(4, 2)
NET = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1))
NORM = nn.BatchNorm1d(4)
TIED = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
TIED[1].weight = TIED[0].weight
Function = Callable[..., Any]


def state_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}


def one_graph(function: Function, *args: Any) -> Any:
    """Checks for eager's results from one graph that several calls share."""
    expected = function(*args)
    dynamlir.reset()
    compiled = dynamlir.compile(function, fullgraph=True)
    for _ in range(3):
        same(compiled(*args), expected)
    assert len(compiled._cache) == 1
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return compiled


def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (functional_call(NET, parameters, (x.unsqueeze(0),)).sum() - y.sum()).square()


def branches(row: torch.Tensor) -> torch.Tensor:
    return row * 2 if row.dim() == 1 and row.shape[0] == 4 else row


def in_place(row: torch.Tensor) -> torch.Tensor:
    out = row.clone()
    out[1:].mul_(3)
    return out.add_(1)


TRANSFORMS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "vmap": (lambda x: vmap(lambda row: row.sin().sum())(x), (X,)),
    "vmap of torch's": (lambda x: torch.vmap(torch.sum)(x), (X,)),
    "vmap, dims": (lambda x, w: vmap(torch.dot, in_dims=(1, None))(x, w), (X, W[0, :3])),
    "vmap, out dims": (lambda x: vmap(lambda row: (row @ W, row * 2), out_dims=(1, -1))(x), (X,)),
    "vmap of vmap": (lambda x: vmap(vmap(lambda one: one * 2 + 1))(x), (X,)),
    "vmap of a tree": (lambda x: vmap(lambda d: {"out": d["a"] * d["b"][0]})({"a": x, "b": [x]}), (X,)),
    "vmap of a module": (lambda x: vmap(LINEAR)(x), (X,)),
    "vmap of layers": (lambda x: vmap(NET)(x), (X,)),
    "vmap that decides": (lambda x: vmap(branches)(x), (X,)),
    "vmap that writes": (lambda x: vmap(in_place)(x), (X,)),
    "vmap of nothing": (lambda x: vmap(lambda row: row)(x), (X,)),
    "vmap of attention": (
        lambda x: vmap(lambda a: nn.functional.scaled_dot_product_attention(a, a, a))(x),
        (torch.randn(2, 2, 5, 4, generator=GENERATOR),),
    ),
    "vmap in between": (lambda x: vmap(lambda row: row.softmax(0))(x.relu()).sum(0), (X,)),
    "chunks": (lambda x: vmap(lambda row: row.cos(), chunk_size=2)(x), (X,)),
    "grad": (lambda x: grad(lambda t: t.sin().sum())(x), (X,)),
    "grad within vmap": (lambda x: vmap(grad(lambda t: (t**3).sum()))(x), (X,)),
    "value within vmap": (lambda x: vmap(grad_and_value(lambda t: (t**3).sum()))(x), (X,)),
    "grad of vmap": (lambda x: grad(lambda t: vmap(torch.sin)(t).sum())(x), (X,)),
    "second order": (lambda x: vmap(grad(grad(lambda t: t**3)))(x[0]), (X,)),
    "vjp within vmap": (lambda x: vmap(lambda row: vjp(torch.sin, row)[1](row)[0])(x), (X,)),
    "jvp": (lambda x, t: jvp(lambda a: a.sin() * a, (x,), (t,)), (X, Y)),
    "jvp with more": (lambda x, t: jvp(lambda a: (a.sin(), a.cos()), (x,), (t,), has_aux=True), (X, Y)),
    "jvp of constants": (lambda x, t: jvp(lambda a: {"a": a * 2, "c": torch.ones(2)}, (x,), (t,)), (X, Y)),
    "jvp of grad": (lambda x, t: jvp(grad(lambda a: (a**3).sum()), (x,), (t,)), (X, Y)),
    "jacrev": (lambda x: jacrev(torch.sin)(x[0]), (X,)),
    "jacfwd": (lambda x, w: jacfwd(lambda a, b: (a @ b).tanh(), argnums=(0, 1))(x[0], w), (X, W)),
    "hessian": (lambda x: hessian(lambda t: t.sin().prod())(x[0]), (X,)),
    "per sample": (lambda p, x, y: vmap(grad(loss), in_dims=(None, 0, 0))(p, x, y), (state_of(NET), X, Y)),
    "functional_call": (lambda p, x: functional_call(LINEAR, p, (x,)), (state_of(LINEAR), X)),
    "functional_call, some": (lambda w, x: functional_call(NET, {"0.weight": w}, x), (torch.ones(8, 4), X)),
    "functional_call, statistics": (lambda s, x: functional_call(NORM.eval(), [s, {}], (x,)), (state_of(NORM), X)),
    "grad of functional_call": (lambda p, x: grad(loss)(p, x[0], x[1]), (state_of(NET), X)),
}


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str, gradients: bool) -> None:
    function, args = TRANSFORMS[name]
    with torch.set_grad_enabled(gradients):
        one_graph(function, *args)


def test_tied_weights() -> None:
    before = TIED[0].weight
    one_graph(lambda w, x: functional_call(TIED, {"1.weight": w}, (x,)), W, X)
    assert TIED[1].weight is before and TIED[0].weight is before


def test_statistics_of_the_caller_are_written() -> None:
    ours, theirs = state_of(NORM), state_of(NORM)
    norm = copy.deepcopy(NORM).train()

    def call(state: dict[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
        return functional_call(norm, state, (x,))

    compiled = dynamlir.compile(call, fullgraph=True)
    for at in range(3):
        same(compiled(ours, X + at), call(theirs, X + at))
        same(ours, theirs)
    assert norm.num_batches_tracked == 0 and not dynamlir.counters()["fallbacks"]


def test_gradients_through_vmap() -> None:
    def step(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row: (row @ weight).tanh().sum())(x)

    def gradients(function: Function) -> list[torch.Tensor]:
        x, weight = X.clone().requires_grad_(), W.clone().requires_grad_()
        function(x, weight).square().sum().backward()
        return [x.grad, weight.grad]

    same(gradients(dynamlir.compile(step, fullgraph=True)), gradients(step))
    assert not dynamlir.counters()["fallbacks"]


def test_random_numbers_within_vmap() -> None:
    different = dynamlir.compile(
        lambda x: vmap(lambda row: row + torch.rand(4), randomness="different")(x), fullgraph=True
    )
    alike = dynamlir.compile(lambda x: vmap(lambda row: row + torch.rand(4), randomness="same")(x), fullgraph=True)
    zeros = torch.zeros(3, 4)
    assert not torch.equal(different(zeros)[0], different(zeros)[1])
    rows = alike(zeros)
    assert torch.equal(rows[0], rows[1]) and not torch.equal(rows, alike(zeros))


def test_random_numbers_that_are_refused() -> None:
    with pytest.raises(RuntimeError, match="randomness"):
        dynamlir.compile(lambda x: vmap(lambda row: row + torch.rand(4))(x))(X)


WRONG: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "sizes": (lambda x, w: vmap(torch.add)(x, w), (X, W)),
    "no tensor": (lambda x: vmap(lambda row: 3)(x), (X,)),
    "no scalar": (lambda x: grad(torch.sin)(x), (X,)),
    "no scalar within vmap": (lambda x: vmap(grad(torch.sin))(x), (X,)),
    "a number": (lambda x: vmap(lambda row: row * row[0].item())(x), (X,)),
    "writes to what is not mapped": (lambda x, y: vmap(lambda row: y[0].add_(row))(x), (X, Y.clone())),
    "primals": (lambda x: jvp(torch.sin, x, x), (X,)),
    "two for one": (lambda w: functional_call(TIED, {"0.weight": w, "1.weight": w + 1}, (w,)), (W,)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_uses_raise_what_eager_raises(name: str) -> None:
    function, args = WRONG[name]
    with pytest.raises(Exception) as theirs:
        function(*args)
    with pytest.raises(type(theirs.value)) as ours:
        dynamlir.compile(function)(*args)
    assert str(ours.value) == str(theirs.value)
    assert torch._C._functorch.maybe_current_level() is None


# -- operations that cannot be captured within a transform: the transform's whole call runs plain, with graphs around it

SEEN: list[Any] = []


class Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, tangent: torch.Tensor) -> Any:
        return 2 * ctx.saved_tensors[0] * tangent


def printing(row: torch.Tensor) -> torch.Tensor:
    print("row", tuple(row.shape))
    return row * 2


def noting(row: torch.Tensor) -> torch.Tensor:
    SEEN.append(row.shape)
    return row * 2


def leaking(row: torch.Tensor) -> torch.Tensor:
    SEEN.append(row)
    return row * 2


def deciding(value: torch.Tensor) -> torch.Tensor:
    return value * 2 if value.sum() > 0 else value * 3


PARTLY: dict[str, Function] = {
    "prints": lambda x: vmap(printing)(x.relu()) + 1,
    "leaks": lambda x: vmap(leaking)(x.relu()) + 1,
    "a function": lambda x: vmap(Square.apply)(x.relu()) + 1,
    "a function's gradient": lambda x: vmap(grad(lambda row: Square.apply(row).sum()))(x.relu()) + 1,
    "prints below grad": lambda x: grad(lambda t: printing(t).sum())(x.relu()) + 1,
    "prints below jvp": lambda x: jvp(printing, (x.relu(),), (x,))[1] + 1,
    "decides below jvp": lambda x: jvp(deciding, (x.relu(),), (x,))[1] + 1,
    "prints below vmap in jvp": lambda x: jvp(vmap(printing), (x.relu(),), (x,))[1] + 1,
    "prints below both": lambda x: vmap(grad(lambda row: printing(row).sum()))(x.relu()) + 1,
}


@pytest.mark.parametrize("name", PARTLY)
def test_breaks_within_transforms(name: str, capsys: Any) -> None:
    function = PARTLY[name]
    expected, printed = function(X), capsys.readouterr().out
    dynamlir.reset()
    SEEN.clear()
    compiled = dynamlir.compile(function)
    for calls in range(1, 4):
        same(compiled(X), expected)
        assert capsys.readouterr().out == printed
        assert len(SEEN) == calls * (name == "leaks")
        assert torch._C._functorch.maybe_current_level() is None
        assert torch.autograd.forward_ad._current_level == -1
    assert dynamlir.counters()["graphs"] >= 1
    with pytest.raises(dynamlir.Unsupported):
        dynamlir.compile(function, fullgraph=True)(X)


def test_effects_of_other_kinds_stay_in_the_graph() -> None:
    SEEN.clear()
    compiled = dynamlir.compile(lambda x: vmap(noting)(x), fullgraph=True)
    for _ in range(2):
        same(compiled(X), X * 2)
    assert len(SEEN) == 2 and SEEN[0] == SEEN[1] == (4,)


def test_calls_within_an_outer_transform_run_plain() -> None:
    compiled = dynamlir.compile(torch.sin)
    same(vmap(compiled)(X), X.sin())
    assert "transform" in dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("backend", ["eager", "python", "aot_eager"])
@pytest.mark.parametrize("name", ["vmap", "vmap of a module", "grad within vmap", "jvp", "per sample"])
def test_other_backends(name: str, backend: str) -> None:
    function, args = TRANSFORMS[name]
    same(dynamlir.compile(function, backend=backend, fullgraph=True)(*args), function(*args))


@pytest.mark.parametrize("name", ["vmap of a module", "per sample", "jacfwd", "functional_call"])
def test_exports(name: str, tmp_path: Any) -> None:
    function, args = TRANSFORMS[name]
    program = dynamlir.export(function, *args)
    same(program(*args), function(*args))
    program.save(tmp_path)
    same(dynamlir.load(tmp_path)(*args), function(*args))
