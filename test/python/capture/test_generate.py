"""`generate` of transformers with its forward compiled: eager's tokens; each forward is one graph, cache included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from sampled import one_in_product

transformers = pytest.importorskip("transformers")

TOKENS = 6
SIZES: dict[str, Any] = dict(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=2)
HEADS: dict[str, Any] = dict(num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128)


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, **HEADS))


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=128)
    )


def qwen3() -> Any:
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES, **HEADS, head_dim=8))


def t5() -> Any:
    """Encoder and decoder: the encoder's result comes back as an object with attributes, keys and positions."""
    config = transformers.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def mixtral() -> Any:
    """Experts: their products are one of transformers' own operators, which is called after the cache was written."""
    return transformers.MixtralForCausalLM(transformers.MixtralConfig(**SIZES, **HEADS, num_local_experts=4))


MODELS = [llama, gpt2, qwen3, t5, mixtral]


@pytest.mark.parametrize(("make", "cache", "sample"), one_in_product(3, MODELS, ["dynamic", "static"], [False, True]))
def test_the_tokens_are_those_of_eager(make: Callable[[], Any], cache: str, sample: bool) -> None:
    dynamlir.reset()
    torch.manual_seed(0)
    model, ids = make().eval(), torch.randint(0, 100, (1, 5))
    given: dict[str, Any] = dict(max_new_tokens=TOKENS, do_sample=sample, pad_token_id=0, eos_token_id=None)
    if cache == "static":
        given["cache_implementation"] = "static"
    torch.manual_seed(3)
    expected = model.generate(ids, **given)
    model.forward = dynamlir.compile(model.forward, fullgraph=True)
    torch.manual_seed(3)
    assert model.generate(ids, **given).tolist() == expected.tolist()
    # One for the prompt's length and one for length one; a growing cache has a first length and then any length.
    assert len(model.forward._cache) <= (2 if cache == "static" else 3)
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
