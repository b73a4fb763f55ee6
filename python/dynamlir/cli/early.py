"""Runs a command of ``python -m dynamlir`` before the package, and so torch, is imported, if the command permits.

Python imports a package before its ``__main__``. An import of torch takes seconds, which ``--help`` does not need;
`doctor` and `env` are for installations where this import fails; and a script that `run` starts imports torch itself.
"""

from __future__ import annotations

import sys

from . import interpreter


def begin() -> None:
    """Runs the command, if this process is for one that needs no import of the package, and ends the process."""
    if interpreter.command() is None:
        return
    from . import command_line  # for this process only: others do not need argparse

    if (status := command_line.before_import(sys.argv[1:])) is not None:
        sys.exit(status)


begin()
