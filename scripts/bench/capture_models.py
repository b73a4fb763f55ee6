"""Twelve models picked by a rule, captured by `dynamlir.compile` and compared with eager.

timm: the sorted ``timm.list_models()`` cut into six equal parts, and the fourth name of each. If that has more than 60
million parameters, the smallest model of the same family (the name up to its first underscore) instead. transformers:
the sorted keys of ``MODEL_MAPPING_NAMES`` cut into six equal parts, and the fourth name of each, or the next one that
`AutoModel` builds from the default configuration shrunk to two layers of width 64 and that eager runs on token IDs or
on an image.

Prints per model: graphs, the reasons for plain Python (reason and line), nodes, guards, seconds of the first call,
worst relative error, and whether a second call was a hit. Exits 1 when a result differs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import compile_models
import dynamlir
import torch
from suite.agree import TOLERANCE, worst_error

PARTS = 6
OFFSET = 3
MAX_PARAMETERS = 60_000_000

NARROW: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "embedding_size"), 64),
    **dict.fromkeys(("intermediate_size", "encoder_ffn_dim", "decoder_ffn_dim", "d_ff", "hidden_dim"), 128),
    **dict.fromkeys(("num_layers", "n_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_heads", "n_heads"), 4),
    **dict.fromkeys(("head_dim", "rotary_dim", "d_kv"), 16),
}
"""Overrides `compile_models.SMALL`."""


def parts(names: list[str]) -> list[list[str]]:
    """Returns each part of the list, from its fourth name on."""
    step = len(names) // PARTS
    return [names[at * step + OFFSET : (at + 1) * step] for at in range(PARTS)]


def size(name: str) -> int:
    """Returns the number of parameters of a timm model, without allocating them."""
    import timm

    with torch.device("meta"):
        return compile_models.parameters(timm.create_model(name, pretrained=False))


def from_timm() -> Iterator[compile_models.Model]:
    """Yields timm's six."""
    import timm

    for name, *_ in parts(sorted(timm.list_models())):
        chosen = name
        if size(name) > MAX_PARAMETERS:
            family = name.split("_")[0]
            chosen = min((other for other in sorted(timm.list_models()) if other.split("_")[0] == family), key=size)
        torch.manual_seed(0)
        module = timm.create_model(chosen, pretrained=False).eval()
        yield f"timm {chosen}", module, {"x": torch.randn(1, *module.default_cfg["input_size"])}


def from_transformers() -> Iterator[compile_models.Model]:
    """Yields transformers' six."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    compile_models.SMALL.update(NARROW)
    for names in parts(sorted(MODEL_MAPPING_NAMES)):
        for name in names:
            made = compile_models.small_transformer(name)
            if made is not None:
                yield made
                break


def run(name: str, module: torch.nn.Module, inputs: dict[str, Any]) -> bool:
    """Runs one model; returns True if its results agree."""
    torch._dynamo.reset()
    dynamlir.reset()
    compiled = dynamlir.compile(module)
    errors = []
    with torch.no_grad():
        torch.manual_seed(1)
        wanted = module(**inputs)
        started = time.perf_counter()
        for _ in range(2):
            torch.manual_seed(1)
            errors.append(worst_error(compiled(**inputs), wanted))
            seconds = time.perf_counter() - started
    reports = dynamlir.compiles()
    made = [report for report in reports if report.eager is None]
    guards = sum(len(entry[0].code_parts) for entry in compiled._cache)
    print(
        f"\n{name}: {compile_models.parameters(module) / 1e6:.1f} M parameters, {len(made)} graph(s), "
        f"{sum(r.ops_recorded for r in made)} operators, {sum(r.ops_generated for r in made)} generated in "
        f"{sum(r.kernels for r in made)} kernels, {guards} guards; two calls {seconds:.1f} s; "
        f"worst relative error {max(errors):.1e}"
    )
    for event in dynamlir.fallbacks():
        print(f"    plain Python: {event}")
        for file, line, function, _ in event.location[1:4]:
            print(f"        {file}:{line} in {function}")
    return max(errors) <= TOLERANCE


def main() -> int:
    """Runs all twelve, or those whose name contains a command-line argument."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the model's name")
    parser.add_argument("--from", dest="source", choices=("timm", "transformers"), help="only this library's")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sources = {"timm": from_timm, "transformers": from_transformers}
    wrong, whole, seen = [], 0, 0
    for source, models in sources.items():
        if options.source not in (None, source):
            continue
        for name, module, inputs in models():
            if options.only not in name:
                continue
            seen += 1
            if not run(name, module, inputs):
                wrong.append(name)
            whole += not dynamlir.fallbacks()
            sys.stdout.flush()
    print(f"\n{whole} of {seen} captured whole")
    print("differ from eager: " + ", ".join(wrong) if wrong else "all results agree with eager")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
