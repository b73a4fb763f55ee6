"""``run``: runs a program as ``python`` would, with logs or a report, or fails if something ran uncompiled."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

from . import programs, summary
from .failures import Failure

HELP = "run a script or module, with logs, a report, or a check"
USAGE = """\
python -m dynamlir run [options] [--] script.py [argument ...]
       python -m dynamlir run [options] -m module [argument ...]"""
DESCRIPTION = """\
Runs a program exactly as python runs it; what it compiles with dynamlir is
logged, reported or checked. The exit status is the program's."""
EXAMPLES = """\
  python -m dynamlir run --logs recompiles,+graph_breaks train.py --epochs 3
  python -m dynamlir run --report report train.py
  python -m dynamlir run --error-on-plain -m pytest tests"""
WITH_VALUE = ("--report", "--logs")
"""The options that the next argument belongs to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments, without the program."""
    parser.add_argument("--report", metavar="DIR", help="write a report of all that is compiled to this folder")
    parser.add_argument(
        "--logs", metavar="TOPICS", help="log these topics, as DYNAMLIR_LOGS does; 'help' lists the topics"
    )
    parser.add_argument(
        "--error-on-plain",
        action="store_true",
        help="if anything that was to be compiled ran as plain Python, print the reasons and exit with status 1",
    )


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns true: the program imports what it needs."""
    return True


def main(arguments: argparse.Namespace) -> int:
    """Runs the program, and returns the exit status."""
    settings = {}
    if arguments.logs is not None:
        from .. import logs  # only for this option

        if arguments.logs == "help":
            print(logs.help_text())
            return 0
        if unknown := logs.unknown(arguments.logs):
            raise Failure(f"--logs: {unknown}")
        settings["DYNAMLIR_LOGS"] = arguments.logs
    if arguments.report is not None:
        settings["DYNAMLIR_REPORT"] = _writable(arguments.report)
    if not arguments.error_on_plain:
        return programs.replace(arguments.program, settings)
    outcome = programs.run(arguments.program, settings)
    plain = summary.plain_runs(outcome.parts)
    if plain:
        print(f"\ndynamlir: {summary.count(len(plain), 'place')} ran as plain Python:", file=sys.stderr)
        for line in plain:
            print(line, file=sys.stderr)
    if outcome.silent:
        print(
            f"\ndynamlir: {summary.count(outcome.silent, 'process')} ended without exit handlers, so it is not known "
            "what ran as plain Python there",
            file=sys.stderr,
        )
    return programs.end_as(outcome.status) or (1 if plain or outcome.silent else 0)


def _writable(folder: str) -> str:
    """Creates the folder for a report, and returns its whole path; raises `Failure` if nothing can be written there."""
    folder = os.path.abspath(folder)
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Failure(f"--report: nothing can be written to {folder}: {error.strerror}") from error
    return folder
