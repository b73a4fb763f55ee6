"""Runs graphs as GPU kernels without a GPU: on the mock driver, which interprets PTX on the CPU's memory.

Tensors stay on the CPU, and library calls run there; every generated kernel becomes PTX for the named chip, and is
launched through the CUDA driver's interface. ``DYNAMLIR_TEST_CHIP=sm_80 python -m pytest …`` does so for a whole run,
`kernels_for` for one test.
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
    """The newest build of the mock driver; None if it has not been built."""
    root = Path(__file__).resolve().parents[2]
    folders = [os.environ["DYNAMLIR_BIN"]] if "DYNAMLIR_BIN" in os.environ else ["target/debug", "target/release"]
    found = [root / folder / LIBRARY for folder in folders if (root / folder / LIBRARY).is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def make_kernels_for(chip: str | None) -> Callable[[], None]:
    """Makes kernels compile for a chip, or for the CPU if None. Returns the function that undoes this."""
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
    """Like `make_kernels_for`, for the duration of a `with` block."""
    undo = make_kernels_for(chip)
    try:
        yield
    finally:
        undo()


def install(chip: str) -> None:
    """Compiles all kernels of this process for a chip, and runs them on the mock."""
    library = mock()
    if library is None:
        sys.exit(f"{LIBRARY} has not been built")
    os.environ["DYNAMLIR_CUDA_LIBRARY"] = str(library)
    make_kernels_for(chip)
