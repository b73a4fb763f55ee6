"""The models trained by `steps`: the eight of the study, and sixteen picked by a rule.

The rule was fixed before any of them was tried. Three sorted lists of names: the architectures for which transformers
has a causal, a masked or a sequence-to-sequence language model; the modules of timm; the networks of torchvision. Eight
are taken from the first list, six from the second, two from the third, at equal distances (the middles of as many equal
parts). A module of timm contributes the first of its sorted models. A name counts if the library can build it from the
small configuration below, with at most twelve million parameters, and eager can train it: a step gives finite,
reproducible gradients within a hundredth of those of doubles. Otherwise the next name of the list is tried, wrapping
around at its end.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import small_networks
import torch

from . import training

Made = tuple[torch.nn.Module, dict[str, Any]]

EIGHT = ("bert", "gpt2", "llama", "t5", "vit-tiny", "resnet18", "mobilenetv3", "convnext-atto")
"""Names of `small_networks.MODELS`."""

PARAMETERS = 12_000_000
IMAGE = 64

SMALL: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "d_model": 32,
    "n_embd": 32,
    "embedding_size": 32,
    "num_hidden_layers": 2,
    "num_layers": 2,
    "n_layer": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "num_heads": 4,
    "n_head": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "d_kv": 8,
    "intermediate_size": 64,
    "d_ff": 64,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
"""The values set in a configuration, for names that it has."""


def languages() -> dict[str, Callable[[], Made]]:
    """Returns the first list."""
    from transformers.models.auto import modeling_auto

    kinds: dict[str, tuple[str, bool]] = {}
    for table, two_sided in (("SEQ_TO_SEQ_CAUSAL_LM", True), ("CAUSAL_LM", False), ("MASKED_LM", False)):
        for name, kind in getattr(modeling_auto, f"MODEL_FOR_{table}_MAPPING_NAMES").items():
            kinds[name] = (kind if isinstance(kind, str) else kind[0], two_sided)
    return {name: _language(*kinds[name]) for name in sorted(kinds)}


def _language(kind: str, two_sided: bool) -> Callable[[], Made]:
    def make() -> Made:
        import transformers

        model = getattr(transformers, kind)
        known = vars(model.config_class()).keys() | model.config_class.attribute_map.keys()
        sizes = {name: value for name, value in SMALL.items() if name in known}
        tokens = torch.randint(3, SMALL["vocab_size"], (2, 12))
        inputs: dict[str, Any] = {"input_ids": tokens}
        if two_sided:
            inputs["decoder_input_ids"] = tokens[:, :7].clone()
        return model(model.config_class(**sizes)), inputs

    return make


def images() -> dict[str, Callable[[], Made]]:
    """Returns the second list."""
    import timm

    return {module: _image(module) for module in sorted(timm.list_modules())}


def _image(module: str) -> Callable[[], Made]:
    def make() -> Made:
        import timm

        name = sorted(timm.list_models(module=module))[0]
        try:
            made = timm.create_model(name, pretrained=False, img_size=IMAGE)
        except TypeError:
            made = timm.create_model(name, pretrained=False)
        return made, {"x": torch.randn(2, 3, IMAGE, IMAGE)}

    return make


def networks() -> dict[str, Callable[[], Made]]:
    """Returns the third list."""
    import torchvision

    names = sorted(torchvision.models.list_models(module=torchvision.models))
    return {
        name: lambda name=name: (torchvision.models.get_model(name), {"x": torch.randn(2, 3, IMAGE, IMAGE)})
        for name in names
    }


def middles(names: Sequence[str], count: int) -> list[int]:
    """Returns the positions at which the rule begins."""
    return [int((at + 0.5) * len(names) / count) for at in range(count)]


def trains(make: Callable[[], Made]) -> bool:
    """Returns true if eager is a usable reference."""
    try:
        # A configuration that does not have the names above may have billions of parameters.
        with torch.device("meta"):
            sizes = [parameter.numel() for parameter in make()[0].parameters()]
        if sum(sizes) > PARAMETERS:
            return False
        module, inputs = made(make)
        once, again = (training.gradients(module, module, inputs) for _ in range(2))
        exact = training.exact_gradients(copy.deepcopy(module), inputs)
    except Exception:
        return False
    finite = all(bool(tensor.isfinite().all()) for tensor in once)
    return finite and all(map(torch.equal, once, again)) and training.worst_error(once, exact) < 1e-2


def made(make: Callable[[], Made], dropout: bool = False) -> Made:
    """Returns the same model each time, in training mode, with inputs under the libraries' own names."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module, inputs = make()
    module = module.train() if dropout else training.without_dropout(module)
    if getattr(getattr(module, "config", None), "use_cache", None):
        module.config.use_cache = False
    return module, inputs


def sixteen() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yields the models picked by the rule."""
    for listed, count in ((languages(), 8), (images(), 6), (networks(), 2)):
        names, taken = list(listed), set()
        for start in middles(names, count):
            for at in (*range(start, len(names)), *range(start)):
                if at not in taken and trains(listed[names[at]]):
                    taken.add(at)
                    yield names[at], listed[names[at]]
                    break


def all_of_them() -> Iterator[tuple[str, Callable[[], Made]]]:
    """Yields the twenty-four."""
    for name in EIGHT:
        yield name, small_networks.MODELS[name]
    yield from sixteen()
