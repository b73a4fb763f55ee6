"""Distributions check their arguments: in a graph by assertions; a call that fails them falls back to plain Python."""

from __future__ import annotations

from typing import Any

import dynamlir
import pytest
import torch
from torch import distributions as D

X = torch.linspace(0.5, 2.0, 4)


@pytest.fixture(autouse=True)
def validated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restores the checks, which TorchDynamo switches off for the process once it has run."""
    monkeypatch.setattr(D.Distribution, "_validate_args", True)


def gaussian(x, scale):
    return D.Independent(D.Normal(x, scale), 1).log_prob(x + 1)


def written(x, scale):
    x.add_(1)
    return D.Normal(x, scale).log_prob(x) + D.Categorical(logits=x).entropy()


def outcome(run: Any, *args: Any) -> tuple[Any, ...]:
    own = [arg.clone() for arg in args]
    try:
        value = run(*own).tolist()
    except ValueError as error:
        value = str(error)
    return value, [arg.tolist() for arg in own]


@pytest.mark.parametrize("function", [gaussian, written])
def test_what_holds_is_one_graph_and_what_does_not_raises(function: Any) -> None:
    dynamlir.reset()
    compiled = dynamlir.compile(function, fullgraph=True)
    for scale in (X, X * 2):
        ours, theirs = compiled(X.clone(), scale), function(X.clone(), scale)
        torch.testing.assert_close(ours, theirs)
    assert dynamlir.counters()["graphs"] == 1
    wrong = (X, torch.tensor([1.0, -1.0, 1.0, 1.0]))
    assert outcome(compiled, *wrong) == outcome(function, *wrong)
    torch.testing.assert_close(compiled(X.clone(), X), function(X.clone(), X))


def test_the_loss_of_a_policy_is_one_graph() -> None:
    def loss(weight, states, actions, gains):
        logits = states @ weight
        return -(D.Categorical(logits=logits).log_prob(actions) * gains).mean()

    states, actions, gains = torch.randn(6, 4), torch.tensor([0, 2, 1, 1, 0, 2]), torch.randn(6)
    compiled = dynamlir.compile(loss, fullgraph=True)
    found = []
    for run in (loss, compiled):
        weight = torch.arange(12.0).reshape(4, 3).div(10).requires_grad_()
        value = run(weight, states, actions, gains)
        value.backward()
        found.append((value.detach(), weight.grad))
    torch.testing.assert_close(*found)


def test_another_backend_leaves_the_decision_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamlir.config, "on_plain", "ignore")
    compiled = dynamlir.compile(gaussian, backend="eager")
    for scale in (X, -X):
        assert outcome(compiled, X, scale) == outcome(gaussian, X, scale)
