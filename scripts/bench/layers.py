"""A BERT of 4 and of 48 equal layers: kernel counts and code generation seconds, each in a fresh process.

Code generation is what comes after the kernels are known: scheduling, bufferization, LLVM, linking. Equal layers share
their kernels, so it should not grow with their number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

import dynamlir
import torch

COUNTS = (4, 48)


def model(layers: int, hidden: int = 256) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A BERT of this many layers, and its inputs."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=1000,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * hidden,
    )
    return transformers.BertModel(config).eval(), {"input_ids": torch.randint(0, 1000, (2, 64))}


def compile_model(layers: int, hidden: int = 256) -> dynamlir.CompileReport:
    """Compile the model of this many layers, call it once, and say what became of it."""
    module, inputs = model(layers, hidden)
    with torch.no_grad():
        torch.compile(module, backend="dynamlir")(**inputs)
    (report,) = dynamlir.compiles()
    return report


def code_generation(report: dynamlir.CompileReport) -> float:
    """Seconds from the stage scheduled on."""
    names = list(report.stages)
    return sum(report.stages[name] for name in names[names.index("scheduled") :])


def in_fresh_process(layers: int) -> dict[str, float]:
    """Kernels and seconds of one compilation."""
    command = [sys.executable, __file__, "--child", str(layers)]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(made.stdout.splitlines()[-1])


def main() -> int:
    """Prints the table; exits 1 when the kernel counts differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="processes per model; medians are shown")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        report = compile_model(arguments.child)
        print(json.dumps({"kernels": report.kernels, "code": code_generation(report), "all": report.seconds}))
        return 0
    seen = [{layers: in_fresh_process(layers) for layers in COUNTS} for _ in range(arguments.rounds)]
    code = {layers: statistics.median(once[layers]["code"] for once in seen) for layers in COUNTS}
    whole = {layers: statistics.median(once[layers]["all"] for once in seen) for layers in COUNTS}
    kernels = {layers: int(seen[0][layers]["kernels"]) for layers in COUNTS}
    for layers in COUNTS:
        seconds = f"code generation {code[layers]:.3f} s, backend {whole[layers]:.3f} s"
        print(f"{layers:3} layers: {kernels[layers]} kernels, {seconds}")
    print(f"ratio of code generation: {code[48] / code[4]:.2f}, of the whole backend: {whole[48] / whole[4]:.2f}")
    return 0 if len(set(kernels.values())) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
