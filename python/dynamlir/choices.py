"""What a program may choose of torch's kernels: of each setting what tells it and what sets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_OF_ATTENTION = ("flash", "math", "mem_efficient", "cudnn", "overrideable")
_NAMES = (
    *((f"_get_{name}_sdp_enabled", f"_set_sdp_use_{name}") for name in _OF_ATTENTION),
    ("_get_sdp_priority_order", "_set_sdp_priority_order"),
)

CHOICES: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [
    (getattr(torch._C, get), getattr(torch._C, put)) for get, put in _NAMES if hasattr(torch._C, put)
]
"""The kernels of attention that may be called, and which of them comes first."""


def deciding() -> list[Callable[[], Any]]:
    """What tells the settings that decide on a kernel of attention here: without a GPU, two of them."""
    getters = [get for get, _ in CHOICES]
    if torch.cuda.is_available():
        return getters
    return [get for get in getters if get in (torch._C._get_flash_sdp_enabled, torch._C._get_math_sdp_enabled)]
