"""`kernels`: single kernels, and the share of the machine's limits that they reach.

The limits are measured in the same rounds: a copy for the bandwidth, torch's matrix product for the arithmetic. A
kernel cannot be faster than moving each operand and each result once at the copy's rate, nor than its arithmetic at the
product's; `of limit` is the larger of these two times divided by the kernel's. Arithmetic is counted in the minimum
number of vector instructions per element, each worth a multiplication and an addition of the product: one for a simple
operation, eight for a division or root, 16 for an exponential, 32 for erf. Freed memory is retained meanwhile, so that
kernels are timed, and not the system's page faults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from . import contestants, measure, record

TOLERANCE = 1e-5
"""Largest accepted error relative to the output's largest element."""

SIDE = 512
"""The side of the matrix product that determines the rate of arithmetic."""


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Runs eleven or more elementwise operations, with a root, divisions and an exponential among them."""
    scaled = torch.relu((x + y) * 0.5)
    root = (((scaled - x) * y).abs() + 1.0).sqrt()
    return torch.sigmoid(root / (y * y + 2.0))


def softmax(x: Tensor) -> Tensor:
    """Softmax along rows."""
    return torch.softmax(x, -1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Layer norm along rows."""
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def gelu(x: Tensor) -> Tensor:
    """GELU by erf."""
    return F.gelu(x)


def cross_entropy(x: Tensor, target: Tensor) -> Tensor:
    """Returns the mean over the rows."""
    return F.cross_entropy(x, target)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A measured kernel. A shape in ``classes`` adds one more operand, of column numbers of the first."""

    function: Callable[..., Tensor]
    shapes: Sequence[tuple[int, ...]]
    instructions: int
    classes: Sequence[tuple[int, ...]] = ()

    def operands(self) -> list[Tensor]:
        """Returns the same numbers each time."""
        torch.manual_seed(0)
        numbers = [torch.randn(shape) for shape in self.shapes]
        return [*numbers, *(torch.randint(self.shapes[0][-1], shape) for shape in self.classes)]


KERNELS: dict[str, Kernel] = {
    "chain 256x256": Kernel(chain, [(256, 256)] * 2, 51),
    "chain 1024x1024": Kernel(chain, [(1024, 1024)] * 2, 51),
    "softmax 4096x1024": Kernel(softmax, [(4096, 1024)], 20),
    "layer norm 4096x1024": Kernel(layer_norm, [(4096, 1024), (1024,), (1024,)], 7),
    "gelu 1024x1024": Kernel(gelu, [(1024, 1024)], 36),
    "cross entropy 4096x1024": Kernel(cross_entropy, [(4096, 1024)], 19, [(4096,)]),
}
"""By name."""


def limit(kernel: Kernel, operands: Sequence[Tensor], result: Tensor, times: dict[str, float]) -> tuple[float, str]:
    """Returns the minimum seconds of the kernel, and the limiting resource; ``times`` has those of copy and product."""
    moved = sum(tensor.numel() * tensor.element_size() for tensor in (*operands, result))
    copied = 2 * operands[0].numel() * operands[0].element_size()
    memory = moved / copied * times["copy"]
    arithmetic = kernel.instructions * operands[0].numel() / SIDE**3 * times["product"]
    return (memory, "memory") if memory >= arithmetic else (arithmetic, "arithmetic")


def run(output: record.Record, field: contestants.Field, only: str, threads: Sequence[int], seconds: float) -> None:
    """Prints and records the table."""
    heads = "".join(f"{name:>10}" for name in ["eager", *field.compilers])
    output.part(
        "kernels",
        f"kernels: microseconds per call, dynamlir through {field.door}; medians, 95 % intervals of the ratios",
        f"{'':26}{'threads':>8}{heads}  {'  '.join(pair.ljust(22) for pair in field.pairs)} {'error':>8}"
        f"{'of limit':>9}  limit",
    )
    measure.keep_memory()
    for count in threads:
        torch.set_num_threads(count)
        for name, kernel in KERNELS.items():
            if only in name:
                output.add(*one(field, name, kernel, count, seconds))


def one(field: contestants.Field, name: str, kernel: Kernel, threads: int, seconds: float) -> tuple[record.Line, str]:
    """Returns one line; the caller has set the number of threads."""
    with torch.no_grad():
        operands = kernel.operands()
        entered = contestants.enter(field, kernel.function, operands, tolerance=TOLERANCE)
        target, square = torch.empty_like(operands[0]), torch.randn(SIDE, SIDE)
        calls: dict[str, Callable[[], Any]] = {
            "copy": partial(target.copy_, operands[0]),
            "product": partial(torch.mm, square, square),
            **{who: partial(function, *operands) for who, function in entered.functions.items()},
        }
        samples = measure.sample(calls, seconds, measure.clock(threads))
        least, reason = limit(
            kernel, operands, kernel.function(*operands), {who: measure.median(samples[who]) for who in samples}
        )
    line = record.timed(name, {"threads": threads}, samples, field.pairs, unit="us")
    line.errors, line.notes, line.right = entered.errors, entered.notes, entered.right
    line.figures = {who: least / measure.median(samples[who]) for who in entered.functions}
    times = "".join(f"{line.times[who]:10.1f}" for who in ["eager", *field.compilers])
    shares = f"{line.figures['dynamlir']:9.2f}  {reason}"
    return line, f"{name:26}{threads:8}{times}  {line.compared()} {max(line.errors.values()):8.1e}{shares}"
