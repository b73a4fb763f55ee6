"""`dynamlir.export`: whole programs with their signature and state, called like the original."""

from __future__ import annotations

import copy
import subprocess
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import pytest
import torch
from stages import dynamlir_opt
from torch import nn
from torch.utils import _pytree as pytree

GENERATOR = torch.Generator().manual_seed(0)
X, Y = torch.randn(3, 4, generator=GENERATOR), torch.randn(3, 4, generator=GENERATOR)


class Net(nn.Module):
    """Parameters, statistics, a counter that is written in place and a buffer that is assigned."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.BatchNorm1d(4)
        with torch.no_grad():  # statistics of a few similar rows magnify rounding
            self.linear.weight.copy_(torch.eye(4) + 0.1)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: torch.Tensor, *, scale: float = 2.0) -> dict[str, Any]:
        self.count += 1
        self.mean = self.mean * 0.9 + x.detach().mean(0) * 0.1
        return {"y": self.norm(self.linear(x)) * scale, "rest": (self.mean, x, None, scale)}


def same(ours: Any, theirs: Any) -> None:
    """Checks for equal trees: tensors by their values, the rest by type and value."""
    (left, left_spec), (right, right_spec) = pytree.tree_flatten(ours), pytree.tree_flatten(theirs)
    assert left_spec == right_spec
    for one, other in zip(left, right):
        assert type(one) is type(other)
        if isinstance(one, torch.Tensor):
            assert one.requires_grad == other.requires_grad
            torch.testing.assert_close(one, other)
        else:
            assert one == other


def follow(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> dynamlir.ExportedProgram:
    """Exports a call and compares several calls of the program with eager."""
    program = dynamlir.export(fn, *args, **kwargs)
    for _ in range(3):
        same(program(*args, **kwargs), fn(*args, **kwargs))
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    return program


def test_module_with_state() -> None:
    model = Net()
    theirs = copy.deepcopy(model)
    program = dynamlir.export(model, X)
    for at in range(3):
        same(program(X + at), theirs(X + at))
        assert program.state["count"] == at + 1
    same(program.state_dict, theirs.state_dict())
    same(dict(program.module().named_buffers()), dict(theirs.named_buffers()))
    assert model.count == 0 and not model.mean.any() and not model.norm.running_mean.any()
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


def test_signature_of_a_module() -> None:
    model = Net()
    signature = dynamlir.export(model, X, scale=3.0).signature
    assert [(one.place, one.value) for one in signature.user_inputs] == [("args[0]", None), ("kwargs['scale']", 3.0)]
    assert signature.user_inputs[0].graph_input == "L_x_"
    assert set(signature.parameters.values()) == {name for name, _ in model.named_parameters()}
    assert set(signature.buffers.values()) == {name for name, _ in model.named_buffers()}
    assert set(signature.mutated_state) == {
        *("count", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"),
    }
    assert list(signature.assigned) == ["mean"] and not signature.mutated_inputs
    assert [source.kind for source in signature.outputs] == ["result", "result", "input", "constant", "constant"]
    assert signature.training is True and signature.grad_enabled
    assert "buffer count as L_self_buffers_count_, written in place" in str(signature)


def test_gradients_reach_the_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    theirs = copy.deepcopy(model)
    module = dynamlir.export(model, X).module()
    module(X).sum().backward()
    theirs(X).sum().backward()
    same({name: one.grad for name, one in module.named_parameters()}, {n: p.grad for n, p in theirs.named_parameters()})
    assert dict(module.named_parameters())["0.weight"] is model[0].weight
    with pytest.raises(NotImplementedError, match="training mode"):
        module.eval()


def test_graph_runs_by_itself() -> None:
    program = dynamlir.export(lambda x, y: (x @ y.t()).relu(), X, Y)
    assert isinstance(program.graph_module, torch.fx.GraphModule)
    placeholders = [node.target for node in program.graph_module.graph.find_nodes(op="placeholder")]
    assert sorted(placeholders) == ["L_x_", "L_y_"] and tuple(placeholders) == program.signature.graph_inputs
    inputs = {"L_x_": X, "L_y_": Y}
    (result,) = program.graph_module(*(inputs[name] for name in program.signature.graph_inputs))
    torch.testing.assert_close(result, (X @ Y.t()).relu())


SCALE = torch.full((4,), 3.0)


def nested(pair: tuple[Any, ...], *, options: dict[str, Any]) -> Any:
    (a, [b]), more = pair, options["more"]
    return OrderedDict(
        first=[a + b * SCALE, (more["c"],)], last={"n": options["n"], 1: more["c"] - torch.tensor([1.0])}
    )


def test_nested_arguments_and_results() -> None:
    program = follow(nested, (X, [Y]), options={"more": {"c": torch.ones(1)}, "n": 5})
    places = [one.place for one in program.signature.user_inputs]
    assert places == ["args[0][0]", "args[0][1][0]", "kwargs['options']['more']['c']", "kwargs['options']['n']"]
    assert program.signature.constants == {"G_SCALE_": "G_SCALE_"}
    assert set(program.constants) == {"G_SCALE_", "_tensor_constant0"}


def test_keywords_in_another_order() -> None:
    program = dynamlir.export(lambda x, *, a, b: x * a - b, X, a=X, b=Y)
    torch.testing.assert_close(program(X, b=Y, a=X), X * X - Y)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "words"),
    [
        ((X,), {}, TypeError, r"takes \(\*, \{'n': \*\}\), and was given \(\*\)"),
        ((X, {"m": 2}), {}, TypeError, "was given"),
        ((X, {"n": 2}), {"more": 1}, TypeError, r"more=\*"),
        ((X, [2]), {}, TypeError, "was given"),
        ((X.double(), {"n": 2}), {}, TypeError, r"args\[0\] is of torch.float64, and the program takes torch.float32"),
        ((torch.ones(4, 3), {"n": 2}), {}, ValueError, r"args\[0\] has the shape \(4, 3\)"),
        ((torch.ones(4, 3).t(), {"n": 2}), {}, ValueError, r"args\[0\] has the strides \(1, 3\)"),
        ((X, {"n": 3}), {}, ValueError, r"args\[1\]\['n'\] is 3, and the program was made for the constant 2"),
        ((X, {"n": 2.0}), {}, ValueError, "constant 2"),
        ((X, {"n": True}), {}, ValueError, "constant 2"),
        ((1.0, {"n": 2}), {}, TypeError, r"args\[0\] is a float, and the program takes a tensor: float32\[3, 4\]"),
        ((X.clone().requires_grad_(), {"n": 2}), {}, ValueError, "requires a gradient"),
        ((X.to("meta"), {"n": 2}), {}, ValueError, "is on meta"),
    ],
)
def test_arguments_that_do_not_fit(
    args: tuple[Any, ...], kwargs: dict[str, Any], error: type[Exception], words: str
) -> None:
    program = dynamlir.export(lambda x, d: x * d["n"], X, {"n": 2})
    with pytest.raises(error, match=words):
        program(*args, **kwargs)


def test_same_tensors_stay_the_same() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 1 if x is y else x * y

    one, two = dynamlir.export(twice, X, X), dynamlir.export(twice, X, Y)
    torch.testing.assert_close(one(Y, Y), Y + 1)
    torch.testing.assert_close(two(Y, X), Y * X)
    with pytest.raises(ValueError, match=r"args\[0\] and args\[1\] being one tensor"):
        one(X, Y)
    with pytest.raises(ValueError, match=r"args\[0\] and args\[1\] being two tensors"):
        two(X, X)


def test_inputs_that_are_written() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x[0] = y[1]
        return x.mul_(2)

    ours, theirs = X.clone(), X.clone()
    program = dynamlir.export(step, ours, Y)
    assert program.signature.mutated_inputs == (0,)
    torch.testing.assert_close(ours, X, rtol=0, atol=0)
    assert program(ours, Y) is ours
    step(theirs, Y)
    torch.testing.assert_close(ours, theirs)


def test_old_and_new_buffer() -> None:
    class Shift(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(3, 4))

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            before, self.last = self.last, x
            return before, x - before

    model = Shift()
    program = dynamlir.export(model, X)
    for x in (X, Y, X):
        same(program(x), model(x))
    assert program.state["last"] is X


def test_tied_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    program = follow(model, X)
    assert program.state["0.weight"] is program.state["1.weight"]
    assert set(program.state_dict) == set(model.state_dict())


def test_methods_and_decorated_functions() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def score(self, x: torch.Tensor) -> torch.Tensor:
            return (x * self.weight).sum(-1)

    program = follow(Holder().score, X)
    assert program.signature.parameters == {"L_self_parameters_weight_": "weight"}
    follow(dynamlir.compile(lambda x: x.exp()), X)
    follow(dynamlir.compile(nn.Linear(4, 2)), X)


def test_nothing_to_compute() -> None:
    follow(lambda x, y: (y, x, 1), X, Y)


def test_without_gradients() -> None:
    model = nn.Linear(4, 2)
    with torch.no_grad():
        program = dynamlir.export(model, X)
        same(program(X), model(X))
    with pytest.raises(ValueError, match="exported with gradients off"):
        program(X)


def test_autocast_stays_what_it_was() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        program = dynamlir.export(lambda x: x @ x.t(), X)
        same(program(X), X @ X.t())
    with pytest.raises(ValueError, match=r"made under autocast .*bfloat16.*, and it is off"):
        program(X)


def test_tensors_of_elsewhere() -> None:
    model = nn.Linear(4, 2)
    program = follow(lambda x: (model(x), SCALE, Y), X)
    assert [source.kind for source in program.signature.outputs] == ["result", "state", "state"]
    assert program(X)[1] is SCALE and len([*program.module().parameters()]) == 2


def test_state_stays_as_it_was() -> None:
    model = nn.Linear(4, 2)
    program = dynamlir.export(model, X)
    program.module().double()
    with pytest.raises(ValueError, match=r"weight is torch.float64 of \(2, 4\) on cpu, and the program was made for"):
        program(X)


class Growing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = torch.cat([self.seen, x])
        return self.seen.sum()


def test_dropout_draws_anew() -> None:
    program = dynamlir.export(lambda x: torch.dropout(x, 0.5, True), torch.ones(1000))
    first, second = program(torch.ones(1000)), program(torch.ones(1000))
    assert not torch.equal(first, second) and 300 < int((first == 0).sum()) < 700


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.relu()
    print("in between")
    return y * 2


COUNTS: list[int] = []


def counting(x: torch.Tensor) -> torch.Tensor:
    COUNTS.append(1)
    return x + 1


class Context:
    current: object = None


CONTEXT = Context()
CONTEXT.current = None


def within(x: torch.Tensor) -> torch.Tensor:
    CONTEXT.current = "it"
    y = x + len(CONTEXT.current)
    CONTEXT.current = None
    return y


def test_what_is_left_as_it_was_is_no_effect() -> None:
    follow(within, X)
    CONTEXT.current = "other"
    with pytest.raises(dynamlir.Unsupported, match="current = None"):
        dynamlir.export(within, X)
    CONTEXT.current = None


class Marked(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = 1
        return x + 1


@pytest.mark.parametrize(
    ("fn", "reason"),
    [(broken, "print"), (lambda x: x * x.tolist()[0][0], "data-dependent"), (lambda x: [x, object()], "output")],
)
def test_breaks_raise_as_under_fullgraph(fn: Callable[..., Any], reason: str, capsys: Any) -> None:
    with pytest.raises(dynamlir.Unsupported) as ours:
        dynamlir.export(fn, X)
    assert [event.reason for event in dynamlir.fallbacks()] == [reason]
    assert "test_export.py" in str(ours.value) and capsys.readouterr().out == ""
    if reason != "output":
        with pytest.raises(dynamlir.Unsupported) as theirs:
            dynamlir.compile(fn, fullgraph=True)(X)
        assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (counting, r"append\(1\), which an exported program cannot do"),
        (Marked(), r"calls.*= 1, which an exported program cannot do"),
        (Growing(), "a buffer of another shape"),
    ],
)
def test_effects_that_a_program_cannot_have(fn: Callable[..., Any], words: str) -> None:
    with pytest.raises(dynamlir.Unsupported, match=f"side-effect.*{words}"):
        dynamlir.export(fn, X)
    assert not COUNTS


def test_arguments_that_are_neither_tensors_nor_constants() -> None:
    with pytest.raises(TypeError, match=r"args\[1\]\[0\] is a object"):
        dynamlir.export(lambda x, o: x, X, [object()])


@pytest.mark.parametrize("training", [True, False])
def test_text_is_read_by_other_tools(training: bool, tmp_path: Path) -> None:
    model = Net().train(training)
    theirs = copy.deepcopy(model)
    program = dynamlir.export(model, X)
    file = tmp_path / "program.mlir"
    file.write_text(program.mlir)
    done = subprocess.run([dynamlir_opt(), file, "--dynamlir-to-llvm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    executable = dynamlir.load(file)
    results = executable(*program.entry_arguments(X))
    expected = theirs(X)
    at = {place: source.at for place, source in zip(["y", "mean"], program.signature.outputs)}
    torch.testing.assert_close(results[at["y"]], expected["y"])
    torch.testing.assert_close(results[program.signature.assigned["mean"].at], theirs.mean)
    same(program.state["norm.running_var"], theirs.norm.running_var)
    assert program.state["count"] == 1
