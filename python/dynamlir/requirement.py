"""Imported before the rest of the package: without torch there is nothing to compile, and the error should say so."""

from __future__ import annotations

TORCH = "torch>=2.11,<2.16"


def check() -> None:
    """`ImportError`, with what to install, where torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        # What a broken torch lacks is for torch to say.
        if error.name != "torch":
            raise
        raise ImportError(f"dynamlir needs torch, which is not installed: pip install '{TORCH}'") from error


check()
