"""The settings by which a program can choose among torch's kernels: for each, its getter and its setter."""

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
"""The permitted attention kernels, and their priority."""


def deciding() -> list[Callable[[], Any]]:
    """Returns the getters of the settings that decide on an attention kernel here: without a GPU, two of them."""
    getters = [get for get, _ in CHOICES]
    if torch.cuda.is_available():
        return getters
    return [get for get in getters if get in (torch._C._get_flash_sdp_enabled, torch._C._get_math_sdp_enabled)]
