"""Starts the user's program in a process of its own, exactly as ``python script.py`` would, and waits for it.

Settings reach it by the environment. What it compiled comes back by `hand_over`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import hand_over, interpreter
from .failures import Failure


@dataclasses.dataclass
class Outcome:
    """The end of a program."""

    status: int
    """The exit status, or the negative number of the signal that ended it."""
    parts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """The data that each of its processes handed over, if it had imported dynamlir."""
    silent: int = 0
    """The number of processes that imported dynamlir and handed nothing over."""


def command(program: Sequence[str]) -> list[str]:
    """Returns the command line for a program: a script with its arguments, or ``-m``, a module and its arguments.

    Raises `Failure` if there is no such script or module.
    """
    if not program:
        raise Failure("nothing to run: name a script, or -m and a module")
    first, *rest = program
    if first.startswith("-m"):
        module = first[2:] or (rest[0] if rest else "")
        if not module:
            raise Failure("-m needs the name of a module")
        _check_module(module)
    elif first == "-":
        raise Failure("a program from standard input cannot be run: give the name of a script")
    elif not os.path.exists(first):
        raise Failure(f"there is no script {first}")
    return [*(interpreter.command() or [sys.executable]), *program]


def _check_module(name: str) -> None:
    """Raises `Failure` if the top package of a module does not exist. Python itself reports the rest."""
    top = name.partition(".")[0]
    if top in sys.modules:
        return
    try:
        found = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise Failure(f"there is no module {name}", 1)


def replace(program: Sequence[str], settings: Mapping[str, str]) -> int:
    """Continues this process as the program; does not return."""
    line = command(program)
    sys.stdout.flush()
    sys.stderr.flush()
    os.environ.update(settings)
    os.execv(line[0], line)


def run(program: Sequence[str], settings: Mapping[str, str]) -> Outcome:
    """Runs a program to its end."""
    line = command(program)
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="dynamlir-") as folder:
        environment = {**os.environ, **settings, hand_over.VARIABLE: folder}
        with _signals_passed_on() as children:
            child = subprocess.Popen(line, env=environment)
            children.append(child)
            status = child.wait()
        outcome = Outcome(status)
        for began in sorted(Path(folder).glob("*.began")):
            ended = began.with_suffix(".ended")
            try:
                outcome.parts.append(json.loads(ended.read_text()))
            except (OSError, ValueError):
                outcome.silent += 1
        return outcome


@contextlib.contextmanager
def _signals_passed_on() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Passes signals on to the program. A terminal's Ctrl-C reaches both, and the program decides what it means."""
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: object) -> None:
        for child in children:
            child.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGHUP)}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield children
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_as(status: int) -> int:
    """Returns the exit status to end with, or ends by the signal that ended the program."""
    if status >= 0:
        return status
    number = -status
    sys.stdout.flush()
    # A core dump would be the second one of the same crash.
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
