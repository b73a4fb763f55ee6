"""The suite's 24 models: twelve of transformers, twelve of timm, with random weights.

The rule: architectures in wide use, chosen before anything was measured, none excluded for its result. For
transformers, one per family, in one small configuration for all: four layers of width 256 with four heads, 1,000 words,
lines of 128 tokens (images of 224 by 224 for ViT). For timm, the customary small variant of each family, unchanged, on
its own 224 by 224 images.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch

Made = tuple[torch.nn.Module, dict[str, Any]]
"""A module in evaluation mode, and the arguments of a call."""

WORDS, TOKENS, WIDTH, LAYERS, HEADS, IMAGE = 1000, 128, 256, 4, 4, 224

USUAL: dict[str, Any] = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "intermediate_size": 4 * WIDTH,
}
"""These sizes, under the names that most configurations use."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """One model of the list."""

    library: str
    build: Callable[[dict[str, Any]], torch.nn.Module]
    inputs: Callable[[int], dict[str, Any]]
    sizes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def make(self, batch: int = 1, **sizes: Any) -> Made:
        """Returns the same model and inputs each time; ``sizes`` override the configuration."""
        torch.manual_seed(0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = self.build({**self.sizes, **sizes}).eval()
        draw_constants(module)
        return module, self.inputs(batch)


def draw_constants(module: torch.nn.Module) -> None:
    """Replaces initial zeros and ones by varied values, as after training.

    A branch that ends in a zero, as in fresh residual networks, or a head of zeros would hide errors before it.
    """
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.randn_like(tensor), alpha=0.1)


def tokens(batch: int) -> dict[str, Any]:
    """Returns lines of a text."""
    return {"input_ids": torch.randint(3, WORDS, (batch, TOKENS))}


def prompt(batch: int) -> dict[str, Any]:
    """Returns lines that a decoder reads at once, without a cache for a next token."""
    return {**tokens(batch), "use_cache": False}


def both_sides(batch: int) -> dict[str, Any]:
    """Returns lines for an encoder and for its decoder."""
    return {**prompt(batch), "decoder_input_ids": torch.randint(3, WORDS, (batch, TOKENS))}


def pixels(batch: int) -> dict[str, Any]:
    """Returns images, in transformers' form."""
    return {"pixel_values": torch.randn(batch, 3, IMAGE, IMAGE)}


def images(batch: int) -> dict[str, Any]:
    """Returns images, in timm's form."""
    return {"x": torch.randn(batch, 3, IMAGE, IMAGE)}


def transformer(kind: str, inputs: Callable[[int], dict[str, Any]], **sizes: Any) -> Entry:
    """Returns a class of transformers, small."""

    def build(sizes: dict[str, Any]) -> torch.nn.Module:
        import transformers

        made = getattr(transformers, kind)
        return made(made.config_class(**sizes))

    return Entry("transformers", build, inputs, sizes)


def network(name: str) -> Entry:
    """Returns a model of timm."""

    def build(sizes: dict[str, Any]) -> torch.nn.Module:
        import timm

        return timm.create_model(name, pretrained=False, **sizes)

    return Entry("timm", build, images)


MODELS: dict[str, Entry] = {
    "bert": transformer("BertForMaskedLM", tokens, **USUAL),
    "roberta": transformer("RobertaForMaskedLM", tokens, **USUAL),
    "distilbert": transformer(
        "DistilBertForMaskedLM",
        tokens,
        vocab_size=WORDS,
        dim=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        hidden_dim=4 * WIDTH,
    ),
    "albert": transformer("AlbertForMaskedLM", tokens, **USUAL, embedding_size=128),
    "electra": transformer("ElectraForMaskedLM", tokens, **USUAL, embedding_size=128),
    "gpt2": transformer(
        "GPT2LMHeadModel",
        prompt,
        vocab_size=WORDS,
        n_embd=WIDTH,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=1,
        eos_token_id=2,
    ),
    "opt": transformer(
        "OPTForCausalLM",
        prompt,
        vocab_size=WORDS,
        hidden_size=WIDTH,
        word_embed_proj_dim=WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        ffn_dim=4 * WIDTH,
    ),
    "llama": transformer("LlamaForCausalLM", prompt, **USUAL),
    "mistral": transformer("MistralForCausalLM", prompt, **USUAL, num_key_value_heads=2),
    "qwen2": transformer("Qwen2ForCausalLM", prompt, **USUAL, num_key_value_heads=2),
    "t5": transformer(
        "T5ForConditionalGeneration",
        both_sides,
        vocab_size=WORDS,
        d_model=WIDTH,
        d_kv=WIDTH // HEADS,
        d_ff=4 * WIDTH,
        num_layers=LAYERS,
        num_heads=HEADS,
    ),
    "vit": transformer("ViTForImageClassification", pixels, **{k: v for k, v in USUAL.items() if k != "vocab_size"}),
    **{
        name: network(name)
        for name in (
            "resnet18",
            "resnet50",
            "mobilenetv3_large_100",
            "efficientnet_b0",
            "regnety_004",
            "densenet121",
            "ghostnet_100",
            "convnext_atto",
            "vit_tiny_patch16_224",
            "deit_tiny_distilled_patch16_224",
            "mixer_s32_224",
            "swin_tiny_patch4_window7_224",
        )
    },
}
"""The models by name, transformers' first."""


DEMO = ("bert", "gpt2", "resnet18")
"""The three models of the demo."""
