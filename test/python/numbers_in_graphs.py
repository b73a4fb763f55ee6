"""Functions of a tensor and two floats that may become inputs of a graph, one for each use of numbers by operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

NUMBERS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x, a, b: x * (1 - a * b) + (a + b) - 2 * a,
    "quotients": lambda x, a, b: x / (a / b) + b / 3,
    "powers": lambda x, a, b: x * (1 - 0.9**a) + b**0.5 * x,
    "alpha": lambda x, a, b: torch.add(x, x, alpha=a).sub(x, alpha=-b),
    "addcmul": lambda x, a, b: torch.addcmul(x, x, x, value=a).addcdiv(x, x.exp(), value=b),
    "lerp": lambda x, a, b: x.lerp(x + 1, a) * b,
    "reflected": lambda x, a, b: a - x + b / (x.abs() + 1) + a ** x.abs(),
    "numbers of rank 0": lambda x, a, b: x.sum() * a + x.sum() / b,
    "foreach": lambda x, a, b: torch._foreach_add(torch._foreach_mul([x, x + 1], a), [x, x], alpha=b),
    "scalar lists": lambda x, a, b: torch._foreach_addcdiv([x, x], [x, x], [x.exp(), x.exp()], [a, b * 2]),
}
