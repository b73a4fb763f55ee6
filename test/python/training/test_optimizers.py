"""Steps of torch's optimizers through both doors: eager's parameters and states, whole graphs, rates that change."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from numbers_in_graphs import NUMBERS
from sampled import one_in_product

STEPS = 20
SHAPES = [(3, 4), (8,), (1,), (3, 4), (2, 3, 4), (), (8,), (16, 1, 3, 3), (7, 7), (64, 33)]

OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {}),
    "sgd-momentum": (torch.optim.SGD, {"momentum": 0.9}),
    "sgd-nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "sgd-dampening": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.1}),
    "sgd-maximize": (torch.optim.SGD, {"momentum": 0.9, "maximize": True}),
    "adam": (torch.optim.Adam, {}),
    "adam-decay": (torch.optim.Adam, {"weight_decay": 0.01}),
    "adamw": (torch.optim.AdamW, {}),
    "adamw-amsgrad": (torch.optim.AdamW, {"amsgrad": True}),
    "adamw-maximize": (torch.optim.AdamW, {"maximize": True}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.01}),
    "adagrad-decay": (torch.optim.Adagrad, {"weight_decay": 0.01}),
    "rmsprop": (torch.optim.RMSprop, {}),
    "rmsprop-centered": (torch.optim.RMSprop, {"centered": True, "momentum": 0.9}),
    "rmsprop-decay": (torch.optim.RMSprop, {"weight_decay": 0.01, "momentum": 0.5}),
}


@dataclasses.dataclass
class Pair:
    """The same parameters twice: for ``eager`` and for a compiled step."""

    eager: torch.optim.Optimizer
    ours: torch.optim.Optimizer

    @staticmethod
    def of(
        kind: type[torch.optim.Optimizer],
        lr: float | torch.Tensor = 1e-2,
        dtype: torch.dtype = torch.float32,
        **settings: Any,
    ) -> Pair:
        def make() -> torch.optim.Optimizer:
            torch.manual_seed(0)
            parameters = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
            rate = lr.clone() if isinstance(lr, torch.Tensor) else lr
            return kind(parameters, lr=rate, **settings)  # type: ignore[call-arg]

        return Pair(make(), make())

    def each(self) -> tuple[torch.optim.Optimizer, torch.optim.Optimizer]:
        return self.eager, self.ours

    def draw(self, seed: int) -> None:
        """Draws new gradients, the same for both."""
        for optimizer in self.each():
            source = torch.Generator().manual_seed(seed)
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = torch.randn(parameter.shape, generator=source, dtype=parameter.dtype)

    def set(self, **settings: Any) -> None:
        for optimizer in self.each():
            optimizer.param_groups[0].update(settings)

    def agree(self) -> None:
        """Checks that parameters and states are equal up to rounding: through torch.compile, bias corrections are
        ``f32``.
        """
        for one, other in zip(*(optimizer.param_groups[0]["params"] for optimizer in self.each()), strict=True):
            torch.testing.assert_close(other, one, rtol=2e-4, atol=2e-6)
            assert other._version == one._version
            states = self.eager.state[one], self.ours.state[other]
            assert states[0].keys() == states[1].keys()
            for name, value in states[0].items():
                torch.testing.assert_close(states[1][name], value, rtol=1e-4, atol=1e-6, msg=f"state {name}")


def run(pair: Pair, step: Callable[[], Any], change: Callable[[int], dict[str, Any]], steps: int = STEPS) -> list[int]:
    """Runs steps of both on equal gradients; returns the number of graphs after each."""
    graphs = []
    for at in range(steps):
        pair.draw(at)
        pair.set(**change(at))
        pair.eager.step()
        step()
        graphs.append(len(dynamlir.compiles()))
    pair.agree()
    return graphs


@pytest.mark.parametrize(("name", "foreach"), one_in_product(3, OPTIMIZERS, [False, True]))
def test_torch_compile_follows_a_schedule(name: str, foreach: bool) -> None:
    """The first change of the rate turns it into an input of a second graph, which serves all later rates."""
    kind, settings = OPTIMIZERS[name]
    pair = Pair.of(kind, foreach=foreach, **settings)
    step = torch.compile(pair.ours.step, backend="dynamlir")
    graphs = run(pair, step, lambda at: {"lr": 1e-2 / (1 + at)})
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert graphs[2:] == [graphs[2]] * (STEPS - 2), graphs


@pytest.mark.parametrize(("name", "foreach"), one_in_product(3, OPTIMIZERS, [False, True]))
def test_our_door_compiles_a_step_whole(name: str, foreach: bool) -> None:
    """A first step, which creates the state, may run plain."""
    kind, settings = OPTIMIZERS[name]
    pair = Pair.of(kind, foreach=foreach, **settings)
    step = dynamlir.compile(pair.ours.step)
    run(pair, step, lambda at: {}, 2)
    before = dict(dynamlir.counters()["fallbacks"])
    graphs = run(pair, step, lambda at: {})
    assert dict(dynamlir.counters()["fallbacks"]) == before, dynamlir.explain_last()
    assert graphs == [graphs[0]] * STEPS, graphs
    assert graphs[0] >= 1


@pytest.mark.parametrize(("name", "foreach"), one_in_product(3, OPTIMIZERS, [False, True]))
def test_our_door_computes_with_doubles_where_eager_does(name: str, foreach: bool) -> None:
    """Step counts are ``f32`` tensors. Eager reads them, and computes bias corrections with Python floats."""
    kind, settings = OPTIMIZERS[name]
    pair = Pair.of(kind, foreach=foreach, dtype=torch.float64, **settings)
    run(pair, dynamlir.compile(pair.ours.step), lambda at: {"lr": 1e-2 / (1 + at)})
    for one, other in zip(*(optimizer.param_groups[0]["params"] for optimizer in pair.each()), strict=True):
        torch.testing.assert_close(other, one, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", ["sgd-momentum", "adam", "adamw"])
def test_a_rate_in_a_tensor_is_an_input_of_our_door_as_well(name: str) -> None:
    kind, settings = OPTIMIZERS[name]
    pair = Pair.of(kind, lr=torch.tensor(1e-2), foreach=False, **settings)
    step = dynamlir.compile(pair.ours.step)
    run(pair, step, lambda at: {}, 2)
    before, graphs = dict(dynamlir.counters()["fallbacks"]), len(dynamlir.compiles())

    def step_with_another_rate(at: int) -> dict[str, Any]:
        for optimizer in pair.each():
            optimizer.param_groups[0]["lr"].fill_(1e-2 / (1 + at))
        return {}

    made = run(pair, step, step_with_another_rate)
    assert dict(dynamlir.counters()["fallbacks"]) == before, dynamlir.explain_last()
    assert made == [made[0]] * STEPS and made[0] <= graphs + 1


EVERY = OPTIMIZERS | {
    "sgd-decay": (torch.optim.SGD, {"weight_decay": 0.01}),
    "adam-amsgrad": (torch.optim.Adam, {"amsgrad": True, "maximize": True}),
    "adagrad-maximize": (torch.optim.Adagrad, {"maximize": True}),
    "rmsprop-maximize": (torch.optim.RMSprop, {"maximize": True, "momentum": 0.9, "centered": True}),
}
CAPTURABLE = {"adam", "adamw", "adamw-amsgrad", "rmsprop"}

Schedule = Callable[[torch.optim.Optimizer], torch.optim.lr_scheduler.LRScheduler]
SCHEDULES: dict[str, Schedule] = {
    "step": lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 3, gamma=0.5),
    "cosine": lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS),
    "lambda": lambda optimizer: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, at / 5)),
    "one cycle": lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=2 * STEPS + 2),
}
"""The third starts with a rate of zero; the last also changes betas, or the momentum."""


def follow(pair: Pair, step: Callable[[], Any], schedule: Schedule) -> list[int]:
    """The number of graphs after each step under a schedule."""
    schedulers = [schedule(optimizer) for optimizer in pair.each()]
    graphs = []
    for at in range(STEPS):
        pair.draw(at)
        pair.eager.step()
        step()
        for scheduler in schedulers:
            scheduler.step()
        graphs.append(len(dynamlir.compiles()))
    pair.agree()
    return graphs


def compiled(step: Callable[[], Any], door: str) -> Callable[[], Any]:
    return dynamlir.compile(step) if door == "ours" else torch.compile(step, backend="dynamlir")


@pytest.mark.parametrize(("name", "foreach"), one_in_product(3, EVERY, [False, True]))
def test_our_door_follows_a_schedule(name: str, foreach: bool) -> None:
    """As through torch.compile. The first step, which creates the state, runs plain: graphs do not store tensors."""
    kind, settings = EVERY[name]
    pair = Pair.of(kind, foreach=foreach, **settings)
    step = dynamlir.compile(pair.ours.step)
    graphs = run(pair, step, lambda at: {"lr": 1e-2 / (1 + at)})
    fallbacks = dynamlir.counters()["fallbacks"]
    assert sum(fallbacks.values()) <= 1, dynamlir.explain_last()
    assert graphs[4:] == [graphs[4]] * (STEPS - 4), graphs


MOVING = ["sgd-momentum", "sgd-nesterov", "adam", "adamw", "adagrad", "rmsprop-centered"]


@pytest.mark.parametrize(("name", "schedule", "door"), one_in_product(5, MOVING, SCHEDULES, ["ours", "torch"]))
def test_schedules_of_torch(name: str, schedule: str, door: str) -> None:
    kind, settings = EVERY[name]
    if schedule == "one cycle" and kind is torch.optim.Adagrad:
        pytest.skip("it has neither betas nor a momentum")
    pair = Pair.of(kind, foreach=False, **settings)
    graphs = follow(pair, compiled(pair.ours.step, door), SCHEDULES[schedule])
    assert graphs[8:] == [graphs[8]] * (STEPS - 8), graphs
    # Our own door runs the first step in plain Python, because it creates the state.
    assert dynamlir.counters()["fallbacks"] in ({}, {"side-effect": 1}), dynamlir.explain_last()


@pytest.mark.parametrize("door", ["ours", "torch"])
@pytest.mark.parametrize("name", sorted(CAPTURABLE))
def test_capturable(name: str, door: str) -> None:
    """Eager refuses `capturable` on the CPU, so it is compared with the other form, which creates the state."""
    kind, settings = EVERY[name]
    pair = Pair.of(kind, foreach=False, **settings)
    run(pair, pair.ours.step, lambda at: {}, 2)
    pair.ours.param_groups[0]["capturable"] = True
    graphs = run(pair, compiled(pair.ours.step, door), lambda at: {"lr": 1e-2 / (1 + at)})
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert graphs[2:] == [graphs[2]] * (STEPS - 2), graphs


def test_one_door_after_the_other() -> None:
    """TorchDynamo disables, for itself, the function in which optimizers create their state. The user did not ask for
    this.
    """
    first, second = (Pair.of(torch.optim.AdamW, foreach=False) for _ in range(2))
    run(first, compiled(first.ours.step, "torch"), lambda at: {}, 3)
    step = compiled(second.ours.step, "ours")
    run(second, step, lambda at: {}, 4)
    assert sum(dynamlir.counters()["fallbacks"].values()) <= 1, dynamlir.explain_last()
    assert "disabled" not in dynamlir.counters()["fallbacks"]


def test_betas_are_numbers_too() -> None:
    """Dynamo turns those that change into inputs."""
    pair = Pair.of(torch.optim.AdamW, foreach=False)
    step = torch.compile(pair.ours.step, backend="dynamlir")
    graphs = run(pair, step, lambda at: {"betas": (0.9 - at / 100, 0.999 - at / 1000)}, 6)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert graphs[-1] == graphs[-3]


def test_a_failed_step_leaves_everything_as_it_was() -> None:
    """Writes in place come after everything that may fail."""
    pair = Pair.of(torch.optim.SGD, momentum=0.9, foreach=False)
    step = torch.compile(pair.ours.step, backend="dynamlir")
    run(pair, step, lambda at: {}, 3)
    first, second = pair.ours.param_groups[0]["params"][:2]
    before = [parameter.detach().clone() for parameter in (first, second)]
    pair.draw(7)
    second.grad = first.detach().view(-1)[:8]  # an alias of a written tensor
    step()
    expected = before[0] - 1e-2 * pair.ours.state[first]["momentum_buffer"]
    torch.testing.assert_close(first.detach(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_that_change_are_inputs(name: str, dtype: torch.dtype) -> None:
    function, x = NUMBERS[name], torch.randn(3, 40, dtype=dtype)
    compiled = torch.compile(function, backend="dynamlir")
    for a, b in [(0.25, 0.5), (0.3, 0.7), (0.9, 1.5), (0.55, 3.25)]:
        torch.testing.assert_close(compiled(x, a, b), function(x, a, b), rtol=1e-6, atol=1e-6)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert len(dynamlir.compiles()) == 2


@pytest.mark.parametrize(
    ("function", "error"),
    [(lambda x, a: x * (1.0 / a), ZeroDivisionError), (lambda x, a: x * 0.5 ** (-1 / (a + 1e-3)), OverflowError)],
)
def test_python_raises_for_numbers(function: Callable[..., Any], error: type[Exception]) -> None:
    x = torch.randn(8)
    compiled = torch.compile(function, backend="dynamlir")
    for a in (0.5, 0.25, 0.125):
        torch.testing.assert_close(compiled(x, a), function(x, a))
    with pytest.raises(error):
        function(x, 0.0 if error is ZeroDivisionError else -1e-3 + 1e-5)
    with pytest.raises(error):
        compiled(x, 0.0 if error is ZeroDivisionError else -1e-3 + 1e-5)


def test_numbers_that_python_looks_at_leave_the_graph_to_eager() -> None:
    compiled = torch.compile(lambda x, a: torch.nn.functional.leaky_relu(x, a), backend="dynamlir")
    x = torch.randn(8)
    for a in (0.5, 0.25, 0.125):
        torch.testing.assert_close(compiled(x, a), torch.nn.functional.leaky_relu(x, a))
    assert "data-dependent" in dynamlir.counters()["fallbacks"]
