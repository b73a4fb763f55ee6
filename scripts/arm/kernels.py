"""Compiles some functions for 64-bit Arm, runs their kernels by emulation, and compares with code for plain x86-64.

Called by `scripts/cross kernels`, which passes the paths. The kernels' texts are those that the driver creates on Arm.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import torch
import torch.nn.functional as F

HERE = Path(__file__).resolve().parent
# Each target's name for LLVM, for QEMU, and for dynamlir. The first is the reference, without own vectors.
INTEL = '"x86_64-unknown-linux-gnu", "x86-64", ""'
ARM = '"aarch64-unknown-linux-gnu", "%s", "%s", vector_bits = %d, library_vector_bits = 128'
TARGETS = {
    "x86": ("x86-64", "", INTEL),
    "neon": ("neoverse-n1", "neoverse-n1", ARM % ("neoverse-n1", "+neon", 128)),
    "sve": ("neoverse-v2", "max", ARM % ("neoverse-v2", "+neon,+sve,+sve2", 128)),
    # Exactly 256 bits wide.
    "sve-256": ("neoverse-v1", "max,sve-default-vector-length=32", ARM % ("neoverse-v1", "+neon,+sve", 256)),
}


def programs() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Returns functions with many kinds of kernels, and their arguments."""
    x, y, w = torch.randn(64, 100), torch.randn(64, 100), torch.randn(100)
    whole, image = torch.randint(-50, 50, (64, 100)), torch.randn(2, 4, 16, 16)
    return {
        "plus": (lambda a: a + 1, (x,)),
        "chain": (lambda a, c: (a * c).exp().sub(1).clamp(-3, 3).tanh() + c.sigmoid(), (x, y)),
        "gelu": (lambda a: (F.gelu(a), F.gelu(a, approximate="tanh")), (x,)),
        "softmax": (lambda a: (a.softmax(-1), a.log_softmax(0)), (x,)),
        "norm": (lambda a, w: F.layer_norm(a, (100,), w, w), (x, w)),
        "sums": (lambda a: (a.sum(), a.sum(0), a.mean(1), a.amax(1), a.argmax(1), a.var(0)), (x,)),
        "functions": (
            lambda a: (
                a.sin(),
                a.cos(),
                a.tan(),
                a.atan(),
                a.erf(),
                a.abs().log(),
                a.abs().log1p(),
                a.expm1(),
                a.sinh(),
            ),
            (x,),
        ),
        "double": (
            lambda a: (a.sin(), a.exp(), a.tanh(), a.erf(), a.abs().log(), a.abs().sqrt(), a.pow(3)),
            (torch.randn(33, 65, dtype=torch.float64),),
        ),
        "whole": (
            lambda a: (a // 7, a % 5, a << 2, a ^ 3, a > 3, a.sum(1), a.cumsum(1), a.to(torch.int8), a.float()),
            (whole,),
        ),
        "half": (lambda a: (a + 1, a.exp(), a.softmax(-1), a.sum(1), a.float()), (x.half(),)),
        "brain": (lambda a: (a * 2, a.tanh(), a.softmax(-1), a.sum(1), a.float()), (x.bfloat16(),)),
        "moves": (lambda a: (a.t().contiguous(), a[:, ::2] * 2, a.flip(1), torch.cat([a, a], 1), a.roll(3, 1)), (x,)),
        "scans": (lambda a: (a.cumsum(0), a.cumsum(1), a.cumprod(1)), (x,)),
        "windows": (lambda a: (F.max_pool2d(a, 2), F.avg_pool2d(a, 3, 1), F.interpolate(a, scale_factor=2)), (image,)),
        "batch": (lambda a: F.batch_norm(a, None, None, training=True), (image,)),
        "places": (lambda a, i: (a.gather(1, i.abs()), torch.where(i > 0, a, -a), a[i[0].abs()]), (x, whole)),
    }


def write(folder: Path) -> None:
    """Writes the stages of each program for each target."""
    for name, (function, given) in programs().items():
        torch._dynamo.reset()
        torch.compile(function, backend="dynamlir", dynamic=False, options={"dump": str(folder / name)})(*given)
        text = (folder / name / "00-aten.mlir").read_text()
        for target, (_, _, attribute) in TARGETS.items():
            made = folder / name / target
            path = made.with_suffix(".mlir")
            path.write_text(re.sub(r"#dynamo\.target<[^>]*>", f"#dynamo.target<{attribute}>", text))
            try:
                dynamlir.load(path, dump=str(made))
            except ValueError:
                # This machine cannot run it, but the stages exist.
                if not (made / "09-kernels.ll").exists():
                    raise


def build(folder: Path, target: str, tools: Path, compiler: Path) -> None:
    """Builds a library of each program's kernels for a target."""
    processor = f"-mcpu={TARGETS[target][0]}"
    for text in sorted(folder.glob(f"*/{target}/09-kernels.ll")):
        better, code, library = (text.with_name(f"kernels.{ending}") for ending in ("bc", "o", "so"))
        for command in (
            [tools / "opt", processor, "-passes=default<O2>", text, "-o", better],
            [tools / "llc", processor, "-O2", "-relocation-model=pic", "-filetype=obj", better, "-o", code],
            [compiler, "-O1", "-shared", "-fPIC", code, HERE / "openmp.c", "-lm", "-o", library],
        ):
            subprocess.run(command, check=True)


def error(found: list[Any], expected: list[Any]) -> float:
    """Returns the largest error, relative for numbers above 1."""
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        if one == other or (one != one and other != other):
            continue
        finite = math.isfinite(one) and math.isfinite(other) and isinstance(one, float)
        worst = max(worst, abs(one - other) / max(abs(other), 1) if finite else math.inf)
    return worst


def main() -> int:
    """Compares; argv: LLVM's programs here, the compiler for Arm, QEMU and its arguments, CPython for Arm."""
    tools, compiler, *emulated = sys.argv[1:]
    torch.manual_seed(0)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        results = {}
        for target, (_, machine, _) in TARGETS.items():
            is_here = target == "x86"
            build(folder, target, Path(tools), Path(tools) / "clang" if is_here else Path(compiler))
            runner = [sys.executable] if is_here else [emulated[0], "-cpu", machine, *emulated[1:]]
            out = folder / f"{target}.json"
            subprocess.run([*runner, HERE / "run_kernels.py", folder, target, out], check=True, env=os.environ)
            results[target] = json.loads(out.read_text())
        for target in list(TARGETS)[1:]:
            # Targets that generate products have kernels that the reference leaves to the library.
            both = sorted(results[target].keys() & results["x86"].keys())
            errors = [
                (error(found, expected), kernel)
                for kernel in both
                for found, expected in zip(results[target][kernel], results["x86"][kernel], strict=True)
            ]
            same = sum(distance == 0 for distance, _ in errors)
            print(f"{target}: {len(both)} kernels; of {len(errors)} arguments {same} are equal, ", end="")
            print(f"the others within {max(errors)[0]:.1e}")
            far = sorted({kernel for distance, kernel in errors if distance > 1e-5})
            print("".join(f"    {kernel} differs\n" for kernel in far), end="")
            wrong += len(far)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
