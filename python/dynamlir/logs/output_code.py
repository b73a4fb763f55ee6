"""The topic ``output_code``: the kernels of each graph as text, and with ``+`` their machine code as well.

The compiler writes texts to a folder only, so a graph that has none gets a temporary one.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import logs

_KERNELS = "*-kernels.mlir"
_MACHINE_CODE = ("*-kernels.s", "*-kernels.ptx")


@contextlib.contextmanager
def logged(options: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yields the native options for a compilation in the block, and logs its code afterwards, if the topic is on."""
    log = logs.logger("output_code")
    if not log.isEnabledFor(logging.INFO):
        yield options
        return
    with contextlib.ExitStack() as stack:
        folder = options["dump"]
        if folder is None:
            # Without a place to write to there is no text, but the compilation goes on.
            with contextlib.suppress(OSError):
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="dynamlir-code-"))
        yield {**options, "dump": folder}
        if folder is not None:
            _log(log, Path(folder), name)


def _log(log: logging.Logger, folder: Path, name: str) -> None:
    wanted = [(logging.INFO, _KERNELS), *((logging.DEBUG, pattern) for pattern in _MACHINE_CODE)]
    for level, pattern in wanted:
        for file in sorted(folder.glob(pattern)) if log.isEnabledFor(level) else ():
            with contextlib.suppress(OSError):
                log.log(level, "%s, %s:\n%s", name, file.name, file.read_text(encoding="utf-8").rstrip())
