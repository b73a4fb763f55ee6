"""Models of images and of texts, at many sizes: eager's results, with few captures."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
import torch.nn.functional as F
from dynamlir.capture import graphs_by_size
from torch import nn


class Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(inner, outer, 3, stride, 1), nn.Conv2d(outer, outer, 3, 1, 1)
        self.beside, self.norm = nn.Conv2d(inner, outer, 1, stride), nn.BatchNorm2d(outer)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.norm(self.second(F.relu(self.first(x)))) + self.beside(x))


def residual() -> nn.Module:
    layers = [nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Residual(8, 8, 1), Residual(8, 16, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


class Patches(nn.Module):
    """A transformer over the patches of an image, whose position embeddings are resized to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, 16, 4, 4), nn.Linear(16, 5)
        self.places, self.first = nn.Parameter(torch.randn(1, 16, 8, 8)), nn.Parameter(torch.randn(1, 1, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x)
        x = x + F.interpolate(self.places, size=x.shape[-2:], mode="bicubic", align_corners=False)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        return self.head(self.layer(x)[:, 0])


class Text(nn.Module):
    """BERT from transformers, with or without a mask."""

    def __init__(self) -> None:
        transformers = pytest.importorskip("transformers")
        super().__init__()
        sizes = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
        self.bert = transformers.BertModel(transformers.BertConfig(vocab_size=100, **sizes))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return self.bert(ids, attention_mask=mask).last_hidden_state


Calls = Callable[[random.Random], tuple[Any, ...]]


def image(sizes: random.Random) -> tuple[Any, ...]:
    return (torch.randn(sizes.randint(2, 4), 3, sizes.randint(20, 50), sizes.randint(20, 50)),)


def words(sizes: random.Random) -> tuple[Any, ...]:
    return (torch.randint(0, 100, (sizes.randint(2, 6), sizes.randint(3, 100))),)


def masked(sizes: random.Random) -> tuple[Any, ...]:
    (ids,) = words(sizes)
    mask = torch.ones_like(ids)
    mask[0, ids.shape[1] // 2 :] = 0
    return ids, mask


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    dynamlir.reset()
    torch.manual_seed(0)
    # This tests captures, so graphs with constant sizes are built for only a few sizes.
    monkeypatch.setattr(graphs_by_size, "AT_ONCE", 1)
    with dynamlir.config.patch(on_plain="ignore"):
        yield
    dynamlir.reset()


MODELS: dict[str, tuple[Callable[[], nn.Module], Calls, int]] = {
    "residual": (residual, image, 10),
    "patches": (Patches, image, 10),
    "text": (Text, words, 12),
    "masked text": (Text, masked, 12),
}


@pytest.mark.parametrize("trains", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", MODELS)
def test_few_captures_for_many_sizes(name: str, trains: bool) -> None:
    make, call, count = MODELS[name]
    # Dropout would draw different random numbers.
    model = make().train(trains and name in ("residual", "patches"))
    other, sizes = copy.deepcopy(model), random.Random(0)
    compiled = dynamlir.compile(model)
    for _ in range(count // 2 if trains else count):
        given = call(sizes)
        with torch.set_grad_enabled(trains):
            found, expected = compiled(*given), other(*given)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.stride() == expected.stride()
        if trains:
            losses = (found.square().mean(), expected.square().mean())
            pairs = [torch.autograd.grad(*each, allow_unused=True) for each in _with_weights(losses, model, other)]
            for left, right in zip(*pairs):
                torch.testing.assert_close(left, right, rtol=1e-3, atol=1e-5)
    assert len(compiled._cache) <= 3
    assert set(dynamlir.counters()["fallbacks"]) <= {"new-size"}


def _with_weights(losses: tuple[torch.Tensor, torch.Tensor], *models: nn.Module) -> Iterator[tuple[Any, Any]]:
    return ((loss, list(model.parameters())) for loss, model in zip(losses, models))
