"""Real models through our own front door: one graph each, eager's results, a hit on the second call.

The networks are small, but all of the libraries' code around them is the real one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch

Inputs = dict[str, torch.Tensor]

WIDTHS = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def timm_model(name: str, **sizes: Any) -> Callable[[], tuple[torch.nn.Module, Inputs]]:
    def make() -> tuple[torch.nn.Module, Inputs]:
        timm = pytest.importorskip("timm")
        return timm.create_model(name, pretrained=False, **sizes), {"x": torch.randn(2, 3, 64, 64)}

    return make


def transformer(name: str, *, decoder: bool = False, **sizes: Any) -> Callable[[], tuple[torch.nn.Module, Inputs]]:
    def make() -> tuple[torch.nn.Module, Inputs]:
        transformers = pytest.importorskip("transformers")
        kind = getattr(transformers, name)
        tokens = torch.randint(3, WIDTHS["vocab_size"], (2, 12))
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if decoder:
            inputs["decoder_input_ids"] = tokens[:, :7].clone()
        return kind(kind.config_class(**{**WIDTHS, **sizes})), inputs

    return make


def torch_encoder() -> tuple[torch.nn.Module, Inputs]:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2), {"src": torch.randn(2, 5, 32)}


def torch_mlp() -> tuple[torch.nn.Module, Inputs]:
    parts = [
        torch.nn.Linear(8, 16),
        torch.nn.LayerNorm(16),
        torch.nn.GELU(),
        torch.nn.Dropout(),
        torch.nn.Linear(16, 4),
    ]
    return torch.nn.Sequential(*parts), {"input": torch.randn(3, 8)}


MODELS = {
    "resnet18": timm_model("resnet18"),
    "mobilenetv3": timm_model("mobilenetv3_small_050"),
    "vit-tiny": timm_model("vit_tiny_patch16_224", img_size=64, depth=2),
    "convnext-atto": timm_model("convnext_atto", depths=(1, 1, 1, 1)),
    "bert": transformer("BertForMaskedLM", intermediate_size=64),
    "gpt2": transformer("GPT2LMHeadModel"),
    "distilbert": transformer("DistilBertForMaskedLM", hidden_dim=64),
    "albert": transformer("AlbertForMaskedLM", embedding_size=16, intermediate_size=64),
    "llama": transformer("LlamaForCausalLM", intermediate_size=64),
    "mistral": transformer("MistralForCausalLM", intermediate_size=64, num_key_value_heads=2),
    "t5": transformer("T5ForConditionalGeneration", decoder=True, d_kv=8, d_ff=64),
    "nn.TransformerEncoder": torch_encoder,
    "mlp": torch_mlp,
}


@pytest.fixture(autouse=True)
def inference_on_one_thread() -> Iterator[None]:
    """Networks this small gain nothing from threads, and lose where the cores are busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def assert_same(seen: Any, expected: Any) -> None:
    """Equal in type and structure all the way down, caches of keys and values included; tensors close."""
    assert type(seen) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(seen, expected, rtol=1e-3, atol=1e-4)
    elif isinstance(expected, dict):
        assert list(seen) == list(expected)
        assert_same(list(seen.values()), list(expected.values()))
    elif isinstance(expected, (list, tuple)):
        assert len(seen) == len(expected)
        for left, right in zip(seen, expected):
            assert_same(left, right)
    elif hasattr(expected, "__dict__") and not isinstance(expected, type):
        assert_same(vars(seen), vars(expected))
    else:
        assert seen == expected


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_a_model_is_one_graph(make: Callable[[], tuple[torch.nn.Module, Inputs]]) -> None:
    module, inputs = make()
    module.eval()
    before = copy.deepcopy(module.state_dict())
    compiled = dynamlir.compile(module, fullgraph=True)
    other = {name: value.flip(0).clone() for name, value in inputs.items()}
    for given in (inputs, inputs, other):
        assert_same(compiled(**given), module(**given))
        assert len(compiled._cache) == 1
    assert [report.eager for report in dynamlir.compiles()] == [None] and not dynamlir.fallbacks()
    assert_same(module.state_dict(), before)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_inputs_of_another_shape_are_another_graph(make: Callable[[], tuple[torch.nn.Module, Inputs]]) -> None:
    module, inputs = make()
    module.eval()
    compiled = dynamlir.compile(module, backend="eager", fullgraph=True)
    fewer = {name: value[:1].clone() for name, value in inputs.items()}
    for given, entries in ((inputs, 1), (fewer, 2), (inputs, 2), (fewer, 2)):
        assert_same(compiled(**given), module(**given))
        assert len(compiled._cache) == entries
