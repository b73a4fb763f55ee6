"""``doctor``: tries out the installation step by step, and says what is wrong with it and what to do.

Most steps are in `probe`, which another process runs: an installation may be so broken that it ends the process.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from . import facts, interpreter, printing

HELP = "try out this installation, and say what is wrong with it"
DESCRIPTION = """\
Imports torch and dynamlir, compiles small programs by both front doors,
compares them with eager, and looks at threads, GPUs, folders and variables
in the environment. Each line is OK, a warning, or a problem with its cure.
The exit status is 1 if there is a problem. Takes some seconds."""
EXAMPLES = """\
  python -m dynamlir doctor
  python -m dynamlir doctor --json"""

PROBE = Path(__file__).with_name("probe.py")
LIMIT = 300
"""The number of seconds after which the steps are taken to hang."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print a JSON object for each line")


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns true: the import is one of the steps."""
    return True


def main(arguments: argparse.Namespace) -> int:
    """Prints the result of each step; returns 1 if one of them found a problem."""
    count = {"OK": 0, "warning": 0, "problem": 0}

    def tell(level: str, name: str, text: str, cure: str = "") -> None:
        count[level] += 1
        if arguments.json:
            print(json.dumps({"level": level, "step": name, "text": text, "cure": cure}), flush=True)
            return
        mark = printing.colour(level.ljust(7), printing.COLOURS[level])
        print(printing.wrapped(f"{name}: {text}", f"{mark}  ", " " * 9, len(mark) - 7))
        if cure:
            print(printing.wrapped(cure, " " * 9, " " * 9))
        sys.stdout.flush()

    step = "start"
    out, into = os.pipe()
    command = [
        *(interpreter.command() or [sys.executable]),
        "-c",
        "import runpy, sys; runpy.run_path(sys.argv[1], run_name='__main__')",
    ]
    environment = {**os.environ, "DYNAMLIR_PROGRESS": "0"}
    probe = subprocess.Popen(
        [*command, str(PROBE), str(into)],
        pass_fds=[into],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        env=environment,
    )
    os.close(into)
    with open(out, encoding="utf-8") as lines:
        for line in lines:
            said = json.loads(line)
            step = said["step"]
            if "level" in said:
                tell(said["level"], step, facts.shown(said["text"]), said["cure"])
                step = f"what follows {step}"
    try:
        # The steps are over; what the process wrote to stderr is shown only if it did not end well.
        _, err = probe.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        probe.kill()
        err = probe.communicate()[1]
    if probe.returncode:
        last = (err.strip().splitlines() or ["it wrote nothing to stderr"])[-1]
        text = f"the process {_end(probe.returncode)} during this step: {last}"
        tell("problem", step, text, "Run it under `python -X faulthandler`, and report the output.")
    if not arguments.json:
        print(f"\n{_number(count['problem'], 'problem')}, {_number(count['warning'], 'warning')}")
    return 1 if count["problem"] else 0


def _number(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _end(status: int) -> str:
    """Returns how a process ended."""
    if status >= 0:
        return f"ended with the status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by the signal {-status}"
