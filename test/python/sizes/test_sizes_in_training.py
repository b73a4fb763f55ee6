"""Training on batches of many sizes: the losses and parameters of eager, with few graphs."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

WORDS = 30


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.inner, self.head = nn.Embedding(WORDS, 16), nn.Linear(16, 32), nn.Linear(32, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(F.gelu(self.inner(self.words(ids))))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, 16), nn.Embedding(64, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.head = nn.Linear(16, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.head(self.layer(x, src_mask=mask, is_causal=True))


class Convolutions(nn.Module):
    """Its norm updates statistics with a factor that depends on the number of elements."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, 16)
        self.convolution, self.norm = nn.Conv1d(16, 16, 3, padding=1), nn.BatchNorm1d(16)
        self.head = nn.Linear(16, WORDS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.words(ids).transpose(1, 2)
        return self.head(F.gelu(self.norm(self.convolution(x))).transpose(1, 2))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    dynamlir.reset()
    torch.manual_seed(0)
    with dynamlir.config.patch(on_plain="ignore"):
        yield
    dynamlir.reset()
    torch.compiler.reset()


def batches(count: int) -> Iterator[torch.Tensor]:
    sizes = random.Random(1)
    for _ in range(count):
        yield torch.randint(0, WORDS, (sizes.randint(2, 6), sizes.randint(4, 40)))


def loss_of(model: nn.Module, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def step(model: nn.Module, optimizer: torch.optim.Optimizer, ids: torch.Tensor) -> torch.Tensor:
    optimizer.zero_grad()
    loss = loss_of(model, ids)
    loss.backward()
    optimizer.step()
    return loss.detach()


def forward_compiled(model: nn.Module) -> tuple[Callable[..., torch.Tensor], Any]:
    compiled = dynamlir.compile(model)
    return (lambda own, optimizer, ids: step(compiled, optimizer, ids)), compiled


def loss_compiled(model: nn.Module) -> tuple[Callable[..., torch.Tensor], Any]:
    compiled = dynamlir.compile(loss_of)
    return _calling(compiled), compiled


def _calling(compiled: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def call(own: nn.Module, optimizer: torch.optim.Optimizer, ids: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = compiled(own, ids)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return call


def step_compiled(model: nn.Module) -> tuple[Callable[..., torch.Tensor], Any]:
    compiled = dynamlir.compile(step)
    return compiled, compiled


def torch_compiled(model: nn.Module) -> tuple[Callable[..., torch.Tensor], Any]:
    """Not with `dynamic=True`: then Dynamo would also turn numbers such as the norm of an embedding into inputs."""
    compiled = torch.compile(loss_of, backend="dynamlir")
    return _calling(compiled), None


@pytest.mark.parametrize("how", [forward_compiled, loss_compiled, step_compiled, torch_compiled])
@pytest.mark.parametrize("make", [Layers, Transformer, Convolutions])
def test_batches_of_any_size(make: Callable[[], nn.Module], how: Callable[[nn.Module], Any]) -> None:
    model = make()
    other = copy.deepcopy(model)
    optimizer, another = (torch.optim.SGD(own.parameters(), 0.1) for own in (model, other))
    call, compiled = how(model)
    for ids in batches(12):
        torch.testing.assert_close(call(model, optimizer, ids), step(other, another, ids))
    for left, right in zip([*model.parameters(), *model.buffers()], [*other.parameters(), *other.buffers()]):
        torch.testing.assert_close(left, right, rtol=1e-4, atol=1e-5)
    assert compiled is None or len(compiled._cache) <= 3
    assert dynamlir.counters()["graphs_compiled"] <= 3
    assert not dynamlir.counters()["fallbacks"]


def test_gaps_in_memory_stay_what_they_are() -> None:
    """Rows that are parts of longer ones: shorter by a constant, or by a constant factor."""
    for cut in (
        lambda x: x[:, :-1],
        lambda x: x[:, 2:],
        lambda x: x.chunk(2, 1)[1],
        lambda x: x[1:, : x.shape[1] // 4],
    ):
        compiled = dynamlir.compile(lambda x: (x.transpose(0, 1) * 2, x.stride()))
        for columns in (8, 12, 20, 16, 40):
            x = cut(torch.randn(6, columns))
            assert torch.equal(compiled(x)[0], x.transpose(0, 1) * 2)
            assert compiled(x)[1] == x.stride()
        assert len(compiled._cache) <= 3, cut
    # If they are neither, each stride needs its own entry.
    compiled = dynamlir.compile(lambda x: (x + 1, x.stride()))
    for columns, whole in [(4, 9), (5, 17), (6, 6), (7, 20)]:
        x = torch.randn(3, whole)[:, :columns]
        assert torch.equal(compiled(x)[0], x + 1) and compiled(x)[1] == x.stride()
