"""`gpu`: single kernels on a CUDA device, and the share of its bandwidth that they reach.

All of them move more than they compute. The attainable rate is measured in the same rounds: a copy, which reads and
writes at the full memory rate. `of copy` is the copy's time for the bytes that a kernel has to move at least – each
operand and each result once – divided by the kernel's time. The operands are larger than the caches of known devices.
The clock waits for the device, which costs some microseconds per sample.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import contestants, kernels, measure, record

TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Largest accepted error relative to the output's largest element."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A measured kernel."""

    function: Callable[..., Tensor]
    shapes: Sequence[tuple[int, ...]]
    dtype: torch.dtype = torch.float32

    def operands(self, device: str) -> list[Tensor]:
        """Returns the same numbers each time."""
        torch.manual_seed(0)
        return [torch.randn(shape).to(device, self.dtype) for shape in self.shapes]


def _each(side: int) -> dict[str, Kernel]:
    rows = (side, side)
    made: dict[str, Kernel] = {}
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        made |= {
            f"chain {name}": Kernel(kernels.chain, [rows] * 2, dtype),
            f"softmax {name}": Kernel(kernels.softmax, [rows], dtype),
            f"layer norm {name}": Kernel(kernels.layer_norm, [rows, (side,), (side,)], dtype),
        }
    return made


KERNELS = _each(8192)
"""The kernels by name, with 256 MiB per operand in f32."""


def share(operands: Sequence[Tensor], result: Tensor, copied: float, taken: float) -> float:
    """Returns the share of the copy's rate that a kernel reaches; the copy was of the first operand."""
    moved = sum(tensor.numel() * tensor.element_size() for tensor in (*operands, result))
    return moved / (2 * operands[0].numel() * operands[0].element_size()) * copied / taken


def run(output: record.Record, field: contestants.Field, only: str, seconds: float) -> None:
    """Prints and records the table; prints only a note if there is no device."""
    if not torch.cuda.is_available():
        print("\ngpu: there is no CUDA device")
        return
    heads = "".join(f"{name:>10}" for name in ["copy", "eager", *field.compilers])
    shares = "".join(f"{name:>10}" for name in ["eager", *field.compilers])
    output.part(
        "gpu",
        f"gpu: microseconds per call on {torch.cuda.get_device_name()}, dynamlir through {field.door}; medians, 95 % "
        "intervals of the ratios",
        f"{'':18}{heads}  {'  '.join(pair.ljust(22) for pair in field.pairs)} {'error':>8}  of copy:{shares}",
    )
    for name, kernel in KERNELS.items():
        if only in name:
            output.add(*one(field, name, kernel, "cuda", seconds))


def one(field: contestants.Field, name: str, kernel: Kernel, device: str, seconds: float) -> tuple[record.Line, str]:
    """Returns one line."""

    def now() -> float:
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    with torch.no_grad():
        operands = kernel.operands(device)
        entered = contestants.enter(field, kernel.function, operands, tolerance=TOLERANCE[kernel.dtype])
        target = torch.empty_like(operands[0])
        calls: dict[str, Callable[[], Any]] = {
            "copy": partial(target.copy_, operands[0]),
            **{who: partial(function, *operands) for who, function in entered.functions.items()},
        }
        samples = measure.sample(calls, seconds, now)
        result = kernel.function(*operands)
    line = record.timed(name, {"device": device}, samples, field.pairs, unit="us")
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    median = {who: measure.median(seen) for who, seen in samples.items()}
    line.figures = {who: share(operands, result, median["copy"], median[who]) for who in entered.functions}
    times = "".join(f"{line.times[who]:10.1f}" for who in samples)
    shares = "".join(f"{line.figures[who]:10.2f}" for who in entered.functions)
    return line, f"{name:18}{times}  {line.compared()} {max(line.errors.values()):8.1e}  {'':8}{shares}"
