"""The three models of the demo, small, with random weights: (name, module, inputs)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch


def bert() -> tuple[torch.nn.Module, dict[str, Any]]:
    """BERT for masked LM: 4 layers, hidden 256."""
    import transformers

    config = transformers.BertConfig(
        vocab_size=1000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024
    )
    return transformers.BertForMaskedLM(config).eval(), {"input_ids": torch.randint(0, 1000, (2, 64))}


def gpt2() -> tuple[torch.nn.Module, dict[str, Any]]:
    """GPT-2: 4 layers, hidden 256."""
    import transformers

    config = transformers.GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4)
    model = transformers.GPT2LMHeadModel(config).eval()
    return model, {"input_ids": torch.randint(0, 1000, (2, 64)), "use_cache": False}


def resnet18() -> tuple[torch.nn.Module, dict[str, Any]]:
    """timm's ResNet-18."""
    import timm

    return timm.create_model("resnet18", pretrained=False).eval(), {"x": torch.randn(2, 3, 224, 224)}


def all_models() -> Iterator[tuple[str, torch.nn.Module, dict[str, Any]]]:
    """The demo's models, in order."""
    for name, make in (("bert", bert), ("gpt2", gpt2), ("resnet18", resnet18)):
        torch.manual_seed(0)
        module, inputs = make()
        yield name, module, inputs
