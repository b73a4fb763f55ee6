"""`generate` of transformers with a growing cache and its forward compiled: few captures, regardless of the lengths."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from test_generate import gpt2, llama, mixtral, qwen3, t5


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    dynamlir.reset()
    torch.manual_seed(0)
    with dynamlir.config.patch(on_plain="ignore"):
        yield
    dynamlir.reset()


def generated(model: Any, prompt: torch.Tensor, tokens: int, **given: Any) -> list[list[int]]:
    return model.generate(
        prompt, max_new_tokens=tokens, do_sample=False, pad_token_id=0, eos_token_id=None, **given
    ).tolist()


@pytest.mark.parametrize("make", [llama, gpt2, qwen3, t5, mixtral])
def test_nothing_is_captured_once_the_cache_has_grown(make: Callable[[], Any]) -> None:
    model, prompt = make().eval(), torch.randint(3, 100, (1, 5))
    expected = generated(model, prompt, 64)
    model.forward = dynamlir.compile(model.forward)
    generated(model, prompt, 4)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert generated(model, prompt, 64) == expected
    # One for the prompt, one for a cache of the first length, one for a cache of any length.
    assert len(model.forward._cache) <= 3
    assert not dynamlir.counters()["fallbacks"]


@pytest.mark.parametrize("make", [llama, gpt2])
def test_prompts_of_any_number_and_length(make: Callable[[], Any]) -> None:
    model, plain = make().eval(), make().eval()
    plain.load_state_dict(model.state_dict())
    model.forward = dynamlir.compile(model.forward)

    def agree(shape: tuple[int, int]) -> bool:
        prompt = torch.randint(3, 100, shape)
        mask = torch.ones_like(prompt)
        mask[0, : shape[1] // 3] = 0
        given = {"attention_mask": mask}
        return generated(model, prompt, 5, **given) == generated(plain, prompt, 5, **given)

    assert agree((3, 6)) and agree((4, 9))
    captured = len(model.forward._cache)
    assert captured <= 5
    with torch.compiler.set_stance("fail_on_recompile"):
        for shape in [(2, 3), (5, 17), (4, 4), (7, 11), (2, 40), (3, 30), (6, 8)]:
            assert agree(shape), shape
    assert not dynamlir.counters()["fallbacks"]


def test_all_sizes_at_once() -> None:
    model, plain = llama().eval(), llama().eval()
    plain.load_state_dict(model.state_dict())
    model.forward = dynamlir.compile(model.forward, dynamic=True)
    for shape in [(3, 6), (5, 9), (2, 31), (7, 5)]:
        prompt = torch.randint(3, 100, shape)
        assert generated(model, prompt, 4) == generated(plain, prompt, 4)
    # One for prompts, and one for the tokens that follow.
    assert len(model.forward._cache) == 2


@pytest.mark.parametrize("make", [llama, gpt2])
def test_fifty_prompts_are_never_plain(make: Callable[[], Any]) -> None:
    """Texts and single words, alone or together, with or without a mask: each is a separate kind of call."""
    model, plain = make().eval(), make().eval()
    plain.load_state_dict(model.state_dict())
    model.forward = dynamlir.compile(model.forward)
    rng = random.Random(1)
    for _ in range(50):
        prompt = torch.randint(3, 100, (rng.randint(1, 4), rng.choice([1, *range(1, 41)])))
        given = {}
        if rng.random() < 0.5:
            given["attention_mask"] = mask = torch.ones_like(prompt)
            mask[0, : prompt.shape[1] // 3] = 0
        assert generated(model, prompt, 3, **given) == generated(plain, prompt, 3, **given)
    assert not dynamlir.counters()["fallbacks"]
    assert len(model.forward._cache) <= 20
