"""Generated products: programs of one, what their dumps show, and how exact they have to be."""

from __future__ import annotations

import functools
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynamlir
import torch
from torch import Tensor
from torch.nn import functional as F

SCHEDULE = re.compile(r"dynamo\.matmul = \{[^}]*\}")


def close(got: Tensor, want: Tensor, terms: int) -> None:
    """Checks that the error is within the rounding of a sum of ``terms`` products."""
    assert got.shape == want.shape and got.stride() == want.stride() and got.dtype == want.dtype
    error = (got.double() - want.double()).abs().max().item()
    assert error <= 1e-6 * (4 + terms**0.5) * max(1.0, want.abs().max().item() / 8), error


def exact(fn: Callable[..., Tensor], *args: Tensor) -> Tensor:
    """The result computed in double precision, as float."""
    return fn(*(arg.double() for arg in args)).to(args[0].dtype)


def generated(folder: Path) -> bool:
    """Returns true if the dump has a generated product, and none that was given up."""
    text = (folder / "06-scheduled.mlir").read_text() if (folder / "06-scheduled.mlir").exists() else ""
    assert "dynamo.unscheduled" not in text
    return "dynamo.matmul" in text


def program(fn: Callable[..., Any], folder: Path) -> Callable[..., Tensor]:
    """The function, recompiled with a dump at its first call."""
    torch._dynamo.reset()
    dynamlir.reset()
    made = torch.compile(fn, backend="dynamlir", options={"dump": str(folder), "no_cache": True})

    def run(*args: Tensor) -> Tensor:
        with torch.no_grad():
            result = made(*args)
        assert not dynamlir.fallbacks()
        return result

    return run


def compiled(fn: Callable[..., Any], folder: Path, *args: Tensor) -> Tensor:
    """The result of the function, recompiled with a dump."""
    return program(fn, folder)(*args)


@functools.cache
def wide_vectors() -> bool:
    """Returns true if this processor has vectors that products are generated for."""
    random = torch.get_rng_state()
    with tempfile.TemporaryDirectory() as folder:
        compiled(F.linear, Path(folder), torch.randn(4, 64), torch.randn(64, 64))
        found = generated(Path(folder))
    torch.set_rng_state(random)
    return found
