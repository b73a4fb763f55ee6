"""The steps of a Lightning module, which its trainer calls, are compiled with the module."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from torch import nn


class LightningModule(nn.Module):
    """The parts of Lightning's class that dynamlir looks for."""

    def training_step(self, *args, **kwargs):
        """The default, for modules that do not define the step."""

    def validation_step(self, *args, **kwargs):
        """The default."""


LightningModule.__module__ = "lightning.pytorch.core.module"


class Coder(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)
        self.steps = 0

    def training_step(self, batch, index):
        (x,) = batch
        self.steps += 1
        return (self.decoder(self.encoder(x).relu()) - x).square().mean() * index


@pytest.fixture(autouse=True)
def fresh():
    dynamlir.reset()


def test_a_step_is_compiled():
    module = Coder()
    compiled = dynamlir.compile(module)
    x = torch.randn(3, 4)
    expected = module.training_step((x,), 2)
    loss = compiled.training_step((x,), 2)
    loss.backward()
    assert torch.allclose(loss, expected)
    assert module.encoder.weight.grad is not None and module.steps == 2
    assert dynamlir.counters()["graphs"] >= 1 and not dynamlir.fallbacks()
    assert len(compiled.training_step._cache) == 1


def test_what_is_not_the_views_is_not_compiled():
    module = Coder()
    compiled = dynamlir.compile(module)
    x = torch.randn(3, 4)
    assert compiled.validation_step.__func__ is LightningModule.validation_step
    assert type(compiled).training_step is Coder.training_step
    other = type(compiled)()
    assert torch.allclose(other.training_step((x,), 1), Coder.training_step(other, (x,), 1))
    module.training_step = lambda batch, index: "the module's own"
    assert compiled.training_step((x,), 1) == "the module's own"
