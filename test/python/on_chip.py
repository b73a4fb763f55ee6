"""Runs graphs as GPU kernels where there is no GPU: on the mock driver, which interprets PTX on the CPU's memory.

Tensors stay on the CPU, and so do calls of the library; every generated kernel becomes PTX for the chip that is named,
and is launched through the CUDA driver's interface. ``DYNAMLIR_TEST_CHIP=sm_80 python -m pytest …`` does so for a whole
run, `kernels_for` for a test.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LIBRARY = "libdynamlir_cuda_mock.so"


def mock() -> Path | None:
    """The mock driver, the newer of the builds; None where it has not been built."""
    root = Path(__file__).resolve().parents[2]
    folders = [os.environ["DYNAMLIR_BIN"]] if "DYNAMLIR_BIN" in os.environ else ["target/debug", "target/release"]
    found = [root / folder / LIBRARY for folder in folders if (root / folder / LIBRARY).is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def make_kernels_for(chip: str | None) -> Callable[[], None]:
    """Have kernels made for a chip; None for the CPU. What is returned undoes it."""
    from dynamlir.options import Options

    before = Options.native

    def native(self: Options) -> dict[str, Any]:
        return {**before(self), "chip": chip}

    def undo() -> None:
        Options.native = before  # type: ignore[method-assign]

    Options.native = native  # type: ignore[method-assign]
    return undo


@contextlib.contextmanager
def kernels_for(chip: str | None) -> Iterator[None]:
    """As `make_kernels_for`, for a while."""
    undo = make_kernels_for(chip)
    try:
        yield
    finally:
        undo()


def install(chip: str) -> None:
    """Have all kernels of this process made for a chip, and run by the mock."""
    library = mock()
    if library is None:
        sys.exit(f"{LIBRARY} has not been built")
    os.environ["DYNAMLIR_CUDA_LIBRARY"] = str(library)
    make_kernels_for(chip)
