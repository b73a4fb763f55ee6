"""Five kernels on one thread: eager, inductor and dynamlir in turn, so that a busy machine slows them alike.

Prints per kernel the median microseconds of each, the median of the ratios round by round with its 95 % interval, and
what part of the memory bandwidth dynamlir reaches: each operand read or written once, against a plain copy in the same
rounds. Calls include what Dynamo adds to each. Exits 1 when a result differs from eager's.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


def chain(x: Tensor, y: Tensor) -> Tensor:
    """Eleven elementwise operations and more, with a root, divisions and an exponential among them."""
    scaled = torch.relu((x + y) * 0.5)
    root = (((scaled - x) * y).abs() + 1.0).sqrt()
    return torch.sigmoid(root / (y * y + 2.0))


def softmax(x: Tensor) -> Tensor:
    """Along rows."""
    return torch.softmax(x, -1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Along rows."""
    return F.layer_norm(x, x.shape[-1:], weight, bias)


KERNELS: dict[str, tuple[Callable[..., Tensor], Sequence[tuple[int, ...]]]] = {
    "chain 256x256": (chain, [(256, 256), (256, 256)]),
    "chain 1024x1024": (chain, [(1024, 1024), (1024, 1024)]),
    "softmax 4096x1024": (softmax, [(4096, 1024)]),
    "layer norm 4096x1024": (layer_norm, [(4096, 1024), (1024,), (1024,)]),
    "gelu 1024x1024": (F.gelu, [(1024, 1024)]),
}
"""By name: the function and the shapes of its operands."""


def rounds(functions: Sequence[Callable[[], object]], seconds: float) -> list[list[float]]:
    """Microseconds of each function, all run in turn for about ``seconds``, after three rounds to warm up."""
    for _ in range(3):
        for function in functions:
            function()
    times: list[list[float]] = [[] for _ in functions]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[0]) < 20:
        for function, seen in zip(functions, times, strict=True):
            start = time.perf_counter()
            function()
            seen.append((time.perf_counter() - start) * 1e6)
    return times


def ratio(times: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """The median of the ratios round by round, and the ends of its 95 % interval by rank."""
    ratios = sorted(a / b for a, b in zip(times, base, strict=True))
    middle, reach = len(ratios) / 2, 0.98 * math.sqrt(len(ratios))
    low, high = math.floor(middle - reach), math.ceil(middle + reach)
    return statistics.median(ratios), ratios[max(low, 0)], ratios[min(high, len(ratios) - 1)]


def measure(name: str, seconds: float, *, inductor: bool) -> bool:
    """One kernel; True when the compiled results agree with eager's."""
    function, shapes = KERNELS[name]
    torch.manual_seed(0)
    operands = [torch.randn(shape) for shape in shapes]
    torch._dynamo.reset()
    backends = ["dynamlir", *(["inductor"] if inductor else [])]
    compiled = {backend: torch.compile(function, backend=backend) for backend in backends}
    wanted = function(*operands)
    target = torch.empty_like(wanted)
    right = all(torch.allclose(call(*operands), wanted, rtol=1.3e-6, atol=1e-5) for call in compiled.values())

    calls: list[Callable[[], object]] = [
        lambda: target.copy_(operands[0]),
        lambda: function(*operands),
        *(lambda call=call: call(*operands) for call in compiled.values()),
    ]
    copy, eager, ours, *theirs = rounds(calls, seconds)
    bytes_moved = sum(tensor.numel() * tensor.element_size() for tensor in (*operands, wanted))
    copied = 2 * target.numel() * target.element_size()
    share = bytes_moved / copied / ratio(ours, copy)[0]

    columns = [f"{statistics.median(seen):10.1f}" for seen in (eager, *theirs, ours)]
    compared = ["{:6.3f} [{:.3f}, {:.3f}]".format(*ratio(ours, base)) for base in (eager, *theirs)]
    flag = "" if right else "  DIFFERS FROM EAGER"
    print(f"{name:22}{''.join(columns)}  {'  '.join(compared)}  {share:6.2f}{flag}", flush=True)
    return right


def main() -> int:
    """Prints the table; 1 if a result is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--seconds", type=float, default=5.0, help="time per kernel")
    parser.add_argument("--no-inductor", action="store_true", help="leave inductor out: it needs a C++ compiler")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = ["eager", *([] if arguments.no_inductor else ["inductor"]), "dynamlir"]
    ratios = [f"dynamlir/{name}".ljust(22) for name in names[:-1]]
    print(f"{'microseconds':22}{''.join(name.rjust(10) for name in names)}  {'  '.join(ratios)}  of copy")
    right = True
    with torch.no_grad():
        for name in KERNELS:
            if arguments.only in name:
                right &= measure(name, arguments.seconds, inductor=not arguments.no_inductor)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
