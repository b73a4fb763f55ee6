"""The conditions of a measurement besides its problem: it is valid where all of these are equal."""

from __future__ import annotations

import functools
import platform

import torch

from .. import native
from ..version import __version__


def describe() -> dict[str, str | int | bool]:
    """Describes this machine as it is now: threads and torch's settings may change between two compilations."""
    name, features = _processor()
    return {
        "processor": name,
        "features": features,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dynamlir": __version__,
        # Both affect the library's behaviour.
        "precision": torch.get_float32_matmul_precision(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
    }


@functools.lru_cache(maxsize=1)
def _processor() -> tuple[str, str]:
    """Returns the processor's name, as the system and the compiler give it, and its features."""
    known, features = native.module().processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            named = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        named = platform.processor()
    present = sorted(feature[1:] for feature in features.split(",") if feature.startswith("+"))
    return f"{named} ({known})", " ".join(present)
