"""Dumps of stages, and the `dynamlir-opt` that reads them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import torch

ROOT = Path(__file__).resolve().parents[2]


def dynamlir_opt() -> Path:
    """The newest build of `dynamlir-opt`, or the one in the folder that ``DYNAMLIR_BIN`` names."""
    if chosen := os.environ.get("DYNAMLIR_BIN"):
        return Path(chosen) / "dynamlir-opt"
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for profile in ("debug", "release") if (path := target / profile / "dynamlir-opt").is_file()]
    assert built, "no dynamlir-opt: run `cargo build -p dynamlir-opt`"
    return max(built, key=lambda path: path.stat().st_mtime)


def stages() -> list[tuple[str, str | None]]:
    """Label and pipeline of every stage, in order."""
    from dynamlir import _native

    return _native.stages()


def dump(fn: Callable[..., Any], folder: Path, *args: Any, **kwargs: Any) -> dynamlir.CompileReport:
    """Compiles ``fn`` with a dump into ``folder``."""
    compiled = torch.compile(fn, backend="dynamlir", options={"dump": str(folder)})
    with torch.no_grad():
        compiled(*args, **kwargs)
    (report,) = dynamlir.compiles()
    assert report.eager is None, report
    return report
