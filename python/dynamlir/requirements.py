"""Imported before the rest of the package: a Python or a torch that does not fit is an error that says so."""

from __future__ import annotations

import platform
import sys
import warnings

PYTHONS = ((3, 11), (3, 15))
"""The first and the last CPython that dynamlir is tested with."""
TORCH = "torch>=2.11,<2.16"


def check() -> None:
    """Raises `ImportError`, with what to install, without torch or on a Python that is too old. Warns on one that is
    newer than those which are tested, and on another implementation than CPython."""
    oldest, newest = (".".join(map(str, version)) for version in PYTHONS)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info[:2] < PYTHONS[0]:
        raise ImportError(f"dynamlir needs CPython {oldest} to {newest}, and this is {python}")
    if sys.version_info[:2] > PYTHONS[1] or sys.implementation.name != "cpython":
        warnings.warn(
            f"dynamlir is tested on CPython {oldest} to {newest}, and this is {python}: "
            "torch.compile(backend='dynamlir') may work here, dynamlir.compile runs plain Python",
            RuntimeWarning,
            stacklevel=4,  # the import of dynamlir
        )
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        # The missing dependencies of a broken torch are for torch to report.
        if error.name != "torch":
            raise
        raise ImportError(f"dynamlir needs torch, which is not installed: pip install '{TORCH}'") from error


check()
