"""Thirteen small networks of torch, timm and transformers: small models, within all of the libraries' code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Made = tuple[torch.nn.Module, dict[str, torch.Tensor]]

WIDTHS = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def timm_model(name: str, **sizes: Any) -> Callable[[], Made]:
    """Returns one of timm's, with two images of 64 by 64."""

    def make() -> Made:
        import timm

        return timm.create_model(name, pretrained=False, **sizes), {"x": torch.randn(2, 3, 64, 64)}

    return make


def transformer(name: str, *, decoder: bool = False, **sizes: Any) -> Callable[[], Made]:
    """Returns one of transformers', with two lines of twelve tokens."""

    def make() -> Made:
        import transformers

        kind = getattr(transformers, name)
        tokens = torch.randint(3, WIDTHS["vocab_size"], (2, 12))
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        if decoder:
            inputs["decoder_input_ids"] = tokens[:, :7].clone()
        return kind(kind.config_class(**{**WIDTHS, **sizes})), inputs

    return make


def torch_encoder() -> Made:
    """Returns torch's own encoder."""
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2), {"src": torch.randn(2, 5, 32)}


def torch_mlp() -> Made:
    """Returns a stack of layers."""
    parts = [
        torch.nn.Linear(8, 16),
        torch.nn.LayerNorm(16),
        torch.nn.GELU(),
        torch.nn.Dropout(),
        torch.nn.Linear(16, 4),
    ]
    return torch.nn.Sequential(*parts), {"input": torch.randn(3, 8)}


MODELS: dict[str, Callable[[], Made]] = {
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
"""Functions, by name, that create the network and the inputs of a call."""
