"""Six models picked by a rule, compiled and compared with eager.

timm: every 40th name of the sorted ``timm.list_models()``, in order, the first three with at most 12 million
parameters. transformers: every 40th key of the sorted ``MODEL_MAPPING_NAMES``, in order, the first three that
``AutoModel`` builds from the default configuration overridden by `SMALL`, within the same limit, and that eager runs on
token IDs or on an image.

Prints per model: graphs, generated operators and extern calls (names and routes), worst relative error, and the reasons
for plain eager. Exits 1 when a result differs.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import dynamlir
import torch
from suite.agree import TOLERANCE, worst_error

STEP = 40
COUNT = 3
MAX_PARAMETERS = 12_000_000

SMALL: dict[str, Any] = {
    "vocab_size": 1000,
    "hidden_size": 128,
    "d_model": 128,
    "n_embd": 128,
    "embed_dim": 128,
    "head_dim": 32,
    "rotary_dim": 32,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "encoder_ffn_dim": 256,
    "decoder_ffn_dim": 256,
    "num_hidden_layers": 2,
    "n_layer": 2,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_head": 4,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "layer_types": None,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "image_size": 64,
}
"""Sizes for any configuration that has a setting of this name."""

Model = tuple[str, torch.nn.Module, dict[str, Any]]


def parameters(module: torch.nn.Module) -> int:
    """Returns the number of the model's parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def from_timm() -> Iterator[Model]:
    """Yields timm's candidates that are small enough."""
    import timm

    for name in sorted(timm.list_models())[::STEP]:
        with torch.device("meta"):
            small = parameters(timm.create_model(name, pretrained=False)) <= MAX_PARAMETERS
        if small:
            torch.manual_seed(0)
            module = timm.create_model(name, pretrained=False).eval()
            yield f"timm {name}", module, {"x": torch.randn(2, *module.default_cfg["input_size"])}


def shrink(config: Any) -> Any:
    """Returns the configuration, and nested ones, with the sizes of `SMALL`."""
    for name in config.sub_configs:
        if getattr(config, name, None) is not None:
            shrink(getattr(config, name))
    known = {name for name in SMALL if getattr(config, name, None) is not None}
    changed = {**config.to_dict(), **{name: SMALL[name] for name in known}}
    for name in config.sub_configs:
        changed[name] = getattr(config, name, None)
    return type(config)(**changed)


def inputs_for(config: Any) -> Iterator[dict[str, Any]]:
    """Yields possible arguments of a model."""
    tokens = {"input_ids": torch.randint(3, SMALL["vocab_size"], (2, 16))}
    decoder = {"decoder_input_ids": tokens["input_ids"]} if config.is_encoder_decoder else {}
    yield {**tokens, **decoder}
    size = getattr(config, "image_size", None) or SMALL["image_size"]
    yield {
        "pixel_values": torch.randn(
            2, getattr(config, "num_channels", 3), *([size] * 2 if isinstance(size, int) else size)
        )
    }


def small_transformer(name: str) -> Model | None:
    """Returns a small transformers model, with inputs that eager accepts; None, printing the reason, if impossible."""
    from transformers import AutoConfig, AutoModel

    torch.manual_seed(0)
    try:
        config = shrink(AutoConfig.for_model(name))
        with torch.device("meta"):
            if parameters(AutoModel.from_config(config)) > MAX_PARAMETERS:
                raise ValueError("too large")
        module = AutoModel.from_config(config).eval()
    except Exception as error:
        print(f"transformers {name} does not build small: {str(error).splitlines()[0][:120]}")
        return None
    for inputs in inputs_for(config):
        try:
            with torch.no_grad():
                module(**inputs)
        except Exception as error:
            print(f"transformers {name} does not run on {', '.join(inputs)}: {str(error).splitlines()[:1]}"[:200])
            continue
        return f"transformers {name}", module, inputs
    return None


def from_transformers() -> Iterator[Model]:
    """Yields transformers' candidates that can be built small and run in eager."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    for name in sorted(MODEL_MAPPING_NAMES)[::STEP]:
        made = small_transformer(name)
        if made is not None:
            yield made


def run(name: str, module: torch.nn.Module, inputs: dict[str, Any]) -> bool:
    """Runs one model; returns True if its results agree."""
    torch._dynamo.reset()
    dynamlir.reset()
    with torch.no_grad():
        torch.manual_seed(1)
        wanted = module(**inputs)
        compiled = torch.compile(module, backend="dynamlir")
        errors = []
        for _ in range(2):
            torch.manual_seed(1)
            errors.append(worst_error(compiled(**inputs), wanted))
    reports = dynamlir.compiles()
    made = [report for report in reports if report.eager is None]
    print(
        f"\n{name}: {parameters(module) / 1e6:.1f} M parameters, "
        f"{len(reports)} graph(s), {len(reports) - len(made)} eager, "
        f"{sum(r.ops_recorded for r in made)} operators recorded, {sum(r.ops_generated for r in made)} generated in "
        f"{sum(r.kernels for r in made)} kernels, {sum(r.ops_extern for r in made)} extern; "
        f"backend {sum(r.seconds for r in made):.2f} s; worst relative error {max(errors):.1e}"
    )
    routes = collections.Counter((extern.schema, extern.route) for report in made for extern in report.externs)
    for (schema, route), calls in routes.most_common():
        print(f"    extern {schema} by {route}: {calls}")
    for event in dynamlir.fallbacks():
        print(f"    plain eager: {event}")
    return max(errors) <= TOLERANCE


def main() -> int:
    """Runs all six, or those whose name contains a command-line argument."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the model's name")
    only = parser.parse_args().only
    warnings.simplefilter("ignore")
    chosen = itertools.chain(itertools.islice(from_timm(), COUNT), itertools.islice(from_transformers(), COUNT))
    wrong = [name for name, module, inputs in chosen if only in name and not run(name, module, inputs)]
    print("\ndiffer from eager: " + ", ".join(wrong) if wrong else "\nall results agree with eager")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
