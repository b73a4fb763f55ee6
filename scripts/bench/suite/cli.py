"""The command line: which parts to run, on what, and where the results go.

Offline: nothing is downloaded, weights are random. Exits 1 when a result is not eager's. Compile figures start with
empty caches; for other parts inductor keeps its code in a separate folder between runs, because it takes half a minute
per model.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

PARTS = {
    "models": "time per call of 24 models",
    "profile": "how much of that torch's operators take",
    "kernels": "single kernels, and the machine's limits",
    "functions": "single operations on operands of all layouts, types and sizes, against eager",
    "gemm": "matrix products",
    "compile": "cold compilation in fresh processes",
    "layers": "compilation of 4 and of 48 equal layers",
    "memory": "most memory resident in fresh processes",
    "calls": "what a call costs that does almost nothing",
    "chain": "eleven elementwise operations by each backend, and what each layer costs",
    "training": "time per training step",
    "whole": "time of whole training steps, optimizer included, as one function",
    "steps": "errors of gradients over 20 steps of training 24 models, or with --dropout losses of four",
    "second-order": "time of losses with derivatives of a network in them",
    "optimizers": "time per step of an optimizer",
    "generate": "tokens per second of models of transformers, with a cache that grows and a static one",
    "plain": "what of small models is not compiled, by reason",
    "pieces": "models that run in several pieces: detection, codecs, mixtures of experts",
    "sizes": "kernels of one size against kernels of all sizes, and what a new size costs",
    "gpu": "single kernels on a CUDA device, and its bandwidth",
}


def numbers(text: str) -> list[int]:
    """Parses `1,2`."""
    return [int(part) for part in text.split(",")]


def parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parts = "; ".join(f"{name}: {about}" for name, about in PARTS.items())
    kind = argparse.RawDescriptionHelpFormatter
    made = argparse.ArgumentParser(prog="scripts/bench/run", description=__doc__, formatter_class=kind)
    made.add_argument("part", choices=(*PARTS, "all"), nargs="+", help=parts)
    made.add_argument("--model", action="append", help="only this one; may be repeated")
    made.add_argument("--only", default="", help="kernels, products, steps and programs whose name contains this")
    made.add_argument("--batch", type=numbers, default=[1, 4], help="such as 1,4")
    made.add_argument(
        "--threads", type=numbers, default=[1, 2], help="such as 1,2; processes and profile use the first"
    )
    made.add_argument("--seconds", type=float, default=5.0, help="time per line")
    made.add_argument("--within", type=float, default=1800.0, help="functions: seconds in all")
    made.add_argument("--rounds", type=int, default=3, help="fresh processes per figure")
    made.add_argument("--door", choices=("dynamlir.compile", "torch.compile"), default="dynamlir.compile")
    made.add_argument("--no-inductor", action="store_true", help="leave inductor out: it needs a C++ compiler")
    made.add_argument("--gradients", action="store_true", help="compile and memory: of a step of training")
    made.add_argument("--dropout", action="store_true", help="train with dropout; then gradients are not compared")
    made.add_argument("--cache", type=Path, default=ROOT / "target" / "bench-cache", help="inductor's")
    made.add_argument("--json", type=Path, help="write the results here, line by line")
    made.add_argument("--plot", type=Path, help="write a picture of the ratios here (SVG)")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the parts."""
    made = parser()
    options = made.parse_args(arguments)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(options.cache.resolve())
    from . import (
        calls,
        catalog,
        chain,
        contestants,
        fresh,
        functions,
        gemm,
        generate,
        gpu,
        kernels,
        models,
        optimizers,
        pieces,
        plain,
        plot,
        profile,
        record,
        second_order,
        sizes,
        steps,
        targets,
        training,
        whole_step,
    )

    unknown = set(options.model or ()) - set(catalog.MODELS)
    if unknown:
        made.error(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(catalog.MODELS)}")
    contestants.quiet()
    chosen = options.model or list(training.EIGHT if options.gradients else catalog.MODELS)
    field = contestants.Field(options.door, not options.no_inductor)
    first, seconds, rounds = options.threads[0], options.seconds, options.rounds
    output = record.Record({name: str(value) for name, value in vars(options).items()}, options.json)
    runs = {
        "models": lambda: models.run(output, field, chosen, options.batch, options.threads, seconds),
        "profile": lambda: profile.run(output, field, chosen, options.batch, seconds),
        "kernels": lambda: kernels.run(output, field, options.only, options.threads, seconds),
        "functions": lambda: functions.run(output, field, options.only, options.within),
        "gemm": lambda: gemm.run(output, field, options.only, options.threads, seconds),
        "compile": lambda: fresh.compile_(output, field, chosen, rounds, first, options.gradients),
        "layers": lambda: fresh.layers(output, field, rounds),
        "memory": lambda: fresh.memory(output, field, chosen, options.batch, first, options.gradients),
        "calls": lambda: calls.run(output, field, chosen, seconds),
        "chain": lambda: chain.run(output, field, seconds),
        "training": lambda: training.run(
            output, field, options.model or training.EIGHT, options.batch, options.threads, seconds, options.dropout
        ),
        "whole": lambda: whole_step.run(
            output, field, options.model or whole_step.MODELS, options.batch, options.threads, seconds
        ),
        "steps": lambda: steps.run(output, field, options.only, options.dropout),
        "second-order": lambda: second_order.run(output, field, options.only, options.threads, seconds),
        "optimizers": lambda: optimizers.run(
            output, field, options.model or optimizers.MODELS, options.threads, seconds
        ),
        "generate": lambda: generate.run(output, field, options.only, seconds),
        "plain": lambda: plain.run(output, options.only),
        "pieces": lambda: pieces.run(output, field, options.only, seconds),
        "sizes": lambda: sizes.run(output, options.only, options.threads, seconds),
        "gpu": lambda: gpu.run(output, field, options.only, seconds),
    }
    for part in runs if "all" in options.part else options.part:
        runs[part]()
        if options.plot:
            options.plot.write_text(plot.svg(output.document))
    print(f"\n{targets.table(output.document)}")
    print("\nall results agree with eager" if output.right else "\nSOME RESULTS DIFFER FROM EAGER", file=sys.stderr)
    return 0 if output.right else 1
