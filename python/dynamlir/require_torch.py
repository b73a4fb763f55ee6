"""Imported before the rest of the package: without torch there is nothing to compile, and the error should say so."""

from __future__ import annotations

TORCH = "torch>=2.11,<2.16"


def check() -> None:
    """Raises `ImportError`, with installation instructions, if torch is not installed."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        # The missing dependencies of a broken torch are for torch to report.
        if error.name != "torch":
            raise
        raise ImportError(f"dynamlir needs torch, which is not installed: pip install '{TORCH}'") from error


check()
