"""Finds out why a function is compiled in parts, and shows the cure.

python examples/find_graph_breaks.py
"""

from __future__ import annotations

import dynamlir
import torch
from torch import Tensor


def clipped(x: Tensor, limit: float) -> Tensor:
    """Scales a vector down if it is too long. The branch needs the number: a graph ends before it."""
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x.sin()


def cured(x: Tensor, limit: float) -> Tensor:
    """The same without a branch."""
    norm = x.norm()
    return (x * torch.where(norm > limit, limit / norm, 1.0)).sin()


def main() -> None:
    x = torch.linspace(-2, 2, 1000)
    for function in (clipped, cured):
        found = dynamlir.explain(function)(x, 3.0)
        print(f"{function.__name__}: {found.graph_count} graphs, {found.graph_break_count} breaks")
        for reason, _ in found.break_reasons:
            print(f"  {reason}")
    fast = dynamlir.compile(cured, fullgraph=True)  # raises if there is a break after all
    print("equal" if torch.allclose(fast(x, 3.0), clipped(x, 3.0), atol=1e-6) else "different")


if __name__ == "__main__":
    main()
