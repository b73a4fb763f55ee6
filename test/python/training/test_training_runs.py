"""Models trained for some steps: each gradient is as near to the doubles' as eager's; with dropout, the same losses.

`scripts/bench/run steps` does this with twenty-four models and twenty steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dynamlir
import pytest
import small_networks
import torch
from both import DOORS
from sampled import one_in
from suite import steps, training_models

pytestmark = [pytest.mark.filterwarnings("ignore")]

STEPS = 4


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small gain nothing from threads, and get slower when the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def made(make: Any, dropout: bool = False) -> training_models.Made:
    """The model; skips the test if its library is missing."""
    try:
        return training_models.made(make, dropout)
    except ModuleNotFoundError as missing:
        pytest.skip(str(missing))


def compiled_only(graphs: int) -> None:
    """Checks that everything was compiled: a graph of floats, and one of doubles."""
    assert [report.eager for report in dynamlir.compiles()] == [None] * graphs and not dynamlir.fallbacks()


# The last two are swapped: mobilenetv3 takes longer to compile than three others.
@pytest.mark.parametrize("name", one_in(2, [*training_models.EIGHT[:-2], *reversed(training_models.EIGHT[-2:])]))
def test_gradients_of_each_step(name: str) -> None:
    errors = steps.train(made(small_networks.MODELS[name]), dynamlir.compile, STEPS)
    assert errors.steps == STEPS and errors.right, errors
    compiled_only(2)


# One block where resnet18 has two equal ones.
@pytest.mark.parametrize(
    "make",
    [small_networks.MODELS["bert"], small_networks.timm_model("resnet18", layers=(1, 1, 1, 1))],
    ids=["bert", "resnet"],
)
def test_gradients_of_each_step_through_torchs_door(make: Any) -> None:
    errors = steps.train(made(make), DOORS["torch.compile"], 2)
    assert errors.steps == 2 and errors.right, errors
    compiled_only(2)


@pytest.mark.parametrize("name", ["bert", "vit-tiny"])
def test_losses_with_dropout(name: str) -> None:
    found = steps.losses(made(steps.dropping()[name], dropout=True), dynamlir.compile, 4, 8)
    assert steps.are_alike(*steps.alike(*found)), found
    compiled_only(1)


# -- the comparison itself


def linear() -> training_models.Made:
    torch.manual_seed(0)
    module = torch.nn.Linear(4, 3)
    return module, {"input": torch.randn(2, 4)}


def test_a_wrong_gradient_is_seen() -> None:
    assert steps.train(linear(), lambda module: module, 2).right

    def wrong(module: torch.nn.Module) -> Any:
        module.weight.register_hook(lambda gradient: gradient * (1 + 1e-4))
        return module

    errors = steps.train(linear(), wrong, 2)
    assert errors.worst > 1 and errors.doubles > steps.DOUBLES and errors.where.startswith("weight")


def test_a_missing_gradient_is_seen() -> None:
    def without(module: torch.nn.Module) -> Any:
        return lambda **inputs: torch.nn.functional.linear(inputs["input"], module.weight.detach(), module.bias)

    assert steps.train(linear(), without, 1).worst == float("inf")


def test_other_losses_are_seen() -> None:
    eager = [1.0 + 0.01 * at for at in range(8)]
    assert steps.are_alike(*steps.alike(eager, [value + 0.01 for value in eager]))
    assert not steps.are_alike(*steps.alike(eager, [value + 0.1 for value in eager]))
    assert not steps.are_alike(*steps.alike(eager, [1.035 + 10 * (value - 1.035) for value in eager]))


def test_the_rule_picks_at_equal_distances() -> None:
    assert training_models.middles(list("abcdefgh"), 2) == [2, 6]
    assert training_models.middles(list("abc"), 3) == [0, 1, 2]
