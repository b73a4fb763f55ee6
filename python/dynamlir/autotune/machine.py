"""What a measurement depends on besides its problem: it holds where all of this is the same."""

from __future__ import annotations

import functools
import platform

import torch

from .. import native


def describe() -> dict[str, str | int | bool]:
    """This machine, as it is now: threads and torch's settings may change between two compilations."""
    from .. import __version__

    name, features = _processor()
    return {
        "processor": name,
        "features": features,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "dynamlir": __version__,
        # Both decide what the library does.
        "precision": torch.get_float32_matmul_precision(),
        "mkldnn": bool(torch.backends.mkldnn.enabled),
    }


@functools.lru_cache(maxsize=1)
def _processor() -> tuple[str, str]:
    """Its name, as the system has it and as the compiler has it; its features."""
    known, features = native.module().processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            named = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        named = platform.processor()
    present = sorted(feature[1:] for feature in features.split(",") if feature.startswith("+"))
    return f"{named} ({known})", " ".join(present)
