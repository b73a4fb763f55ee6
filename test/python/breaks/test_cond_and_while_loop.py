"""`torch.cond` and `torch.while_loop` in compiled functions: eager's results, from graphs around Python's decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from dynamlir.capture import regions
from same_trees import same
from torch import nn
from torch._higher_order_ops import while_loop

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(3, 4, generator=GENERATOR)
BOTH = (X.abs(), -X.abs())
LINEAR, OTHER = nn.Linear(4, 4), nn.Linear(4, 4)


def halved(t: torch.Tensor) -> torch.Tensor:
    return t / 2


def by_lambdas(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return torch.cond(y.sum() > 0, lambda t: LINEAR(t).relu(), lambda t: t.sin() - 1, (y,)) + 1


def by_functions(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, halved, torch.sin, [x])


def by_modules(x: torch.Tensor) -> torch.Tensor:
    return torch.cond((x.sum() > 0).reshape(1), LINEAR, OTHER, operands=(x,)).tanh()


def of_trees(x: torch.Tensor) -> Any:
    found = torch.cond(
        x.mean() > 0,
        lambda d, t: {"a": d["a"] + t, "b": (t.exp(),)},
        lambda d, t: {"a": d["a"] - t, "b": (t.cos(),)},
        ({"a": x}, x + 1),
    )
    return found["a"], found["b"][0] * 2


def of_closures(x: torch.Tensor) -> torch.Tensor:
    scale = x.std()
    return torch.cond(x.sum() > 0, lambda t: t * scale, lambda t: t / scale, (x,))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, self.up, self.down, (x.relu() + x,)).sum(-1)


def twice(x: torch.Tensor) -> torch.Tensor:
    y = torch.cond(x.sum() > 0, halved, lambda t: t * 3, (x,))
    return torch.cond(y.sum() > 1, lambda t: t + 1, lambda t: t - 1, (y,))


CONDS: dict[str, Callable[..., Any]] = {
    "lambdas": by_lambdas,
    "functions": by_functions,
    "modules": by_modules,
    "trees": of_trees,
    "closures": of_closures,
    "in a module": Net(),
    "two": twice,
}


@pytest.fixture
def torchs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the calls of torch's own functions through which TorchDynamo traces the branches."""
    called: list[str] = []
    utils = torch._higher_order_ops.utils
    original = utils._hop_compile_and_call

    def noted(*args: Any) -> Any:
        called.append("cond")
        return original(*args)

    monkeypatch.setattr(utils, "_hop_compile_and_call", noted)
    return called


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("name", CONDS)
def test_cond(name: str, gradients: bool, torchs: list[str]) -> None:
    function = CONDS[name]
    with torch.set_grad_enabled(gradients):
        expected = [function(x) for x in BOTH]
        torchs.clear()
        dynamlir.reset()
        compiled = dynamlir.compile(function)
        for _ in range(3):
            for x, result in zip(BOTH, expected):
                same(compiled(x), result)
    if not gradients or name in ("modules", "in a module"):
        assert not torchs and dynamlir.counters()["graphs"] >= 2
    assert {event.reason for event in dynamlir.fallbacks()} <= {"data-dependent-branch", "dispatch-mode", "resumed"}


def test_gradients_of_the_branch_that_was_taken() -> None:
    def gradients(function: Callable[..., Any], x: torch.Tensor) -> list[Any]:
        LINEAR.zero_grad(), OTHER.zero_grad()
        given = x.clone().requires_grad_()
        function(given).square().sum().backward()
        return [given.grad, LINEAR.weight.grad, OTHER.weight.grad]

    compiled = dynamlir.compile(by_modules)
    for x in BOTH:
        ours, theirs = gradients(compiled, x), gradients(by_modules, x)
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(
                torch.zeros(()) if one is None else one.sum(), torch.zeros(()) if other is None else other.sum()
            )


@pytest.mark.parametrize("known", [True, False, 1, 0.0])
def test_known_predicates_are_one_graph(known: Any) -> None:
    def function(x: torch.Tensor, known: Any) -> torch.Tensor:
        return torch.cond(known, lambda t: t + 1, lambda t: t - 1, (x,))

    compiled = dynamlir.compile(function, fullgraph=True)
    same(compiled(X, known), function(X, known))
    by_rank = dynamlir.compile(lambda x: torch.cond(x.dim() == 2, torch.sin, torch.cos, (x,)), fullgraph=True)
    same(by_rank(X), X.sin())
    same(by_rank(X[0]), X[0].cos())


@torch.no_grad()
@pytest.mark.parametrize("name", CONDS)
def test_whole_graphs_may_have_regions(name: str) -> None:
    """Between their graphs nothing is plain Python: no warning is given, and no graph break is counted."""
    function = CONDS[name]
    compiled = dynamlir.compile(function, fullgraph=True)
    with dynamlir.config.patch(on_plain="error"), dynamlir.error_on_graph_break(True):
        for x in (*BOTH, *BOTH):
            same(compiled(x), function(x))
    counters = dynamlir.counters()
    assert counters["regions"] >= 1 and "graph_breaks" not in counters
    assert "region" not in counters["fallbacks"]


@torch.no_grad()
def test_whole_graphs_may_have_regions_in_loops_and_arguments() -> None:
    def of_branch(layer: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda t: layer(t).relu()

    def looping(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = torch.cond(x.sum() > 0, of_branch(layer), halved, (x,))
        return x + 1

    def nested(x: torch.Tensor) -> torch.Tensor:
        inner = torch.cond(x.sum() > 1, halved, torch.sin, (x,))
        return torch.cond(x.sum() > 0, torch.add, torch.sub, (x, torch.cond(x.sum() > 2, halved, torch.cos, (inner,))))

    layers = nn.ModuleList([LINEAR, OTHER, LINEAR])
    for function in (looping, nested):
        compiled = dynamlir.compile(function, fullgraph=True)
        for x in (*BOTH, X / 100, *BOTH):
            same(compiled(x), function(x))


@torch.no_grad()
def test_what_cannot_be_carried_over_a_region_is_named() -> None:
    def looping(x: torch.Tensor) -> torch.Tensor:
        for scale in (number * 2.0 for number in (1, 2)):
            x = torch.cond(x.sum() > 0, halved, torch.sin, (x * scale,))
        return x

    with pytest.raises(dynamlir.Unsupported, match="generator"):
        dynamlir.compile(looping, fullgraph=True)(X)
    same(dynamlir.compile(looping)(X), looping(X))


@torch.no_grad()
def test_what_comes_after_a_region_has_to_be_whole_as_well() -> None:
    def printing(x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, halved, torch.sin, (x,))
        print("never seen")
        return y + 1

    compiled = dynamlir.compile(printing, fullgraph=True)
    for _ in range(2):
        with pytest.raises(dynamlir.Unsupported, match="print at"):
            compiled(X)


@torch.no_grad()
def test_whole_graphs_have_no_regions_that_torch_would_refuse() -> None:
    for name in TORCHS:
        with pytest.raises(dynamlir.Unsupported, match=r"data-dependent-branch.*torch.cond"):
            dynamlir.compile(TORCHS[name], fullgraph=True)(X)


SEEN: list[int] = []


def noting(t: torch.Tensor) -> torch.Tensor:
    SEEN.append(1)
    return t + 1


# Cases that torch itself has to run, or to refuse.
TORCHS: dict[str, Callable[..., Any]] = {
    "other shapes": lambda x: torch.cond(x.sum() > 0, lambda t: t[0], lambda t: t, (x,)),
    "its operand": lambda x: torch.cond(x.sum() > 0, lambda t: t, lambda t: t + 1, (x,)),
    "a number": lambda x: torch.cond(x.sum() > 0, lambda t: 1, lambda t: 2, (x,)),
    "an effect": lambda x: torch.cond(x.sum() > 0, noting, halved, (x,)),
    "several predicates": lambda x: torch.cond(x > 0, halved, torch.sin, (x,)),
    "no tensor": lambda x: torch.cond(x.sum() > 0, lambda t, n: t + n, lambda t, n: t - n, (x, 3)),
}


@torch.no_grad()
@pytest.mark.parametrize("name", TORCHS)
def test_what_torch_refuses_it_refuses(name: str) -> None:
    def outcome(function: Callable[..., Any]) -> Any:
        SEEN.clear()
        try:
            return function(X), len(SEEN)
        except Exception as error:
            return type(error), len(SEEN)

    theirs = outcome(TORCHS[name])
    compiled = dynamlir.compile(TORCHS[name])
    for _ in range(2):
        ours = outcome(compiled)
        assert ours[1] == theirs[1]
        if isinstance(theirs[0], torch.Tensor):
            same(ours[0], theirs[0])
        else:
            assert ours[0] == theirs[0]


@torch.no_grad()
def test_other_branches_are_looked_at_anew(torchs: list[str]) -> None:
    def function(x: torch.Tensor, branch: Callable[..., Any]) -> torch.Tensor:
        return torch.cond(x.sum() > 0, branch, torch.sin, (x,))

    compiled = dynamlir.compile(function)
    same(compiled(X.abs(), halved), X.abs() / 2)
    assert not torchs
    with pytest.raises(Exception):  # noqa: B017 (it is TorchDynamo's)
        compiled(X.abs(), lambda t: t[0])
    assert torchs


def loop(x: torch.Tensor) -> Any:
    count, value = while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (torch.tensor(0), x + 1))
    return value - 1, count


def until(x: torch.Tensor) -> Any:
    (value,) = while_loop(lambda t: t.sum() < 100, lambda t: (LINEAR(t).abs() + t * 2,), (x.abs(),))
    return value * 2


def never(x: torch.Tensor) -> Any:
    (value,) = while_loop(lambda t: t.sum() < -1000, lambda t: (t + 1,), (x,))
    return value


@torch.no_grad()
@pytest.mark.parametrize("function", [loop, until, never])
def test_while_loop(function: Callable[..., Any], torchs: list[str]) -> None:
    for parameter in LINEAR.parameters():
        parameter.requires_grad_(False)
    expected = [function(x) for x in BOTH]
    torchs.clear()
    compiled = dynamlir.compile(function)
    for _ in range(2):
        for x, result in zip(BOTH, expected):
            ours = compiled(x)
            same(ours, result)
            assert ours is not x
    for parameter in LINEAR.parameters():
        parameter.requires_grad_(True)
    assert not torchs


@torch.no_grad()
def test_regions_within_regions(torchs: list[str]) -> None:
    def inner(x: torch.Tensor) -> torch.Tensor:
        (x,) = while_loop(lambda t: t.sum() < 3, lambda t: (t + 1,), (x,))
        return torch.cond(x[0, 0] > 0, lambda t: t * 10, lambda t: t - 1, (x,))

    def function(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda t: inner(t) + 1, lambda t: t + inner(-t), (x,))

    given = [X, -X, X + 5]
    expected = [function(x) for x in given]
    torchs.clear()
    compiled = dynamlir.compile(function)
    for _ in range(2):
        for x, result in zip(given, expected):
            same(compiled(x), result)
    assert not torchs


def test_loops_that_are_torchs() -> None:
    with pytest.raises(Exception):  # noqa: B017 (it is TorchDynamo's)
        dynamlir.compile(lambda x: while_loop(lambda t: t.sum() < 3, lambda t: (t[0],), (x,)))(X)


def test_what_agrees() -> None:
    def told(result: Any) -> Any:
        return regions.facts(result, (X,), [LINEAR.weight])

    assert regions.loop_agrees((X,), told(X.sum() < 3), told((X + 1,)))
    for decided, result in [(X.sum() < 3, (X,)), (X < 3, (X + 1,)), (X.sum() < 3, [X + 1]), (X.sum(), (X + 1,))]:
        assert not regions.loop_agrees((X,), told(decided), told(result))
    assert regions.branches_agree(X.sum() < 3, (X,), told(X + 1), told(X * 2))
    for result in (X, X[0], LINEAR.weight, 3, X.double(), [X + 1], (X + 1).t().contiguous().t()):
        assert not regions.branches_agree(X.sum() < 3, (X,), told(X + 1), told(result))
