"""`dynamlir.report`: one HTML file about all that was compiled in this process."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

from .. import config


def report(path: str | os.PathLike[str]) -> Path:
    """Writes an HTML report of what this process has compiled so far, and returns its path.

    ``path`` is the file, or an existing folder, which receives a file named after the program and the process. The
    file is complete: it loads nothing. It contains the source that was compiled. Pictures of graphs need no
    preparation; the texts of kernels are in the report if stages were dumped (`config.dump`), and times if graphs ran
    under `dynamlir.profile`. Raises `OSError` if the file cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str) or not os.fspath(path):
        raise TypeError(f"dynamlir.report takes the path of a file or folder, not {path!r}")
    file = Path(path)
    if file.is_dir():
        file = file / file_name()
    # A report takes jinja2, which other programs need not import.
    from . import document, process

    return _write(file, document.render(process.of_now()))


def file_name() -> str:
    """Returns a name for the report of this process: the program's, with the number of the process."""
    given = sys.argv[0] if sys.argv else ""
    program = "python" if given in ("", "-c", "-m") else os.path.splitext(os.path.basename(given))[0]
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', program)}-{os.getpid()}.html"


def _write(file: Path, text: str) -> Path:
    """Writes a file as a whole or not at all."""
    unfinished = None
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=file.parent, prefix=".report-", suffix=".tmp", delete=False, encoding="utf-8", errors="replace"
        ) as opened:
            unfinished = opened.name
            opened.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(unfinished, 0o666 & ~mask)  # temporary files are private
        os.replace(unfinished, file)
    except OSError as error:
        if unfinished is not None:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
        message = f"dynamlir: the report cannot be written to {file}: {error.strerror or error}"
        raise OSError(error.errno, message) from error
    return file


@atexit.register
def _at_exit() -> None:
    """Writes the report that `config.report` asks for. A failure is a warning, since the program has done its work."""
    try:
        folder = config.read("report")
        if folder is not None:
            report(Path(folder) / file_name())
    except Exception as error:
        text = error.strerror if isinstance(error, OSError) and error.strerror else f"{type(error).__name__}: {error}"
        told = text if text.startswith("dynamlir: ") else f"dynamlir: no report of this process was written: {text}"
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.warn(told, RuntimeWarning, stacklevel=1)
