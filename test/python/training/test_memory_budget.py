"""`memory_budget`: fewer bytes are saved for backward, and the gradients are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from torch import nn

DOORS = [
    lambda function, **options: dynamlir.compile(function, **options),
    lambda function, **options: torch.compile(function, backend="dynamlir", **options),
]


def steps(door: Callable[..., Any], budget: float | None) -> tuple[int, list[torch.Tensor]]:
    """The number of saved bytes, and all gradients."""
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    dynamlir.reset()
    torch._dynamo.reset()
    options = {} if budget is None else {"options": {"memory_budget": budget}}
    x = torch.randn(2, 16, 32, requires_grad=True)
    door(model, **options)(x).square().sum().backward()
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None
    return sum(report.saved), [x.grad, *(parameter.grad for parameter in model.parameters())]


@pytest.mark.parametrize("door", DOORS)
def test_the_less_is_allowed_the_less_is_kept(door: Callable[..., Any]) -> None:
    default, wanted = steps(door, None)
    kept = []
    for budget in (0.0, 0.3, 0.6, 1.0):
        saved, found = steps(door, budget)
        kept.append(saved)
        torch.testing.assert_close(found, wanted)
    assert kept == sorted(kept) and kept[0] < kept[1] < kept[-1]
    assert kept[0] < 0.7 * default <= kept[-1]


def test_a_setting_is_as_good_as_an_option() -> None:
    with dynamlir.config.patch(memory_budget=0.0):
        setting, _ = steps(DOORS[0], None)
    assert setting == steps(DOORS[0], 0.0)[0] < steps(DOORS[0], None)[0]


@pytest.mark.parametrize("budget", [-0.1, 1.5, 50, "half"])
def test_a_budget_is_a_share(budget: object) -> None:
    with pytest.raises(ValueError, match=r"memory_budget.*expected a number from 0\.0 to 1\.0"):
        dynamlir.compile(nn.Linear(2, 2), options={"memory_budget": budget})
