"""``env``: what a bug report needs to say about the machine, the installation and the settings."""

from __future__ import annotations

import argparse
import json
import sys

from . import facts, printing

HELP = "print what a bug report needs: versions, machine, settings"
DESCRIPTION = """\
Prints the versions of dynamlir and of what it uses, how it was installed,
the machine, and the settings that differ from their defaults. Values of
variables whose names look like secrets are left out, and your home folder
is written as ~."""
EXAMPLES = """\
  python -m dynamlir env
  python -m dynamlir env --json > env.json"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--json", action="store_true", help="print a JSON object")


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns true: a broken installation must be described too."""
    return True


def main(arguments: argparse.Namespace) -> int:
    """Prints the facts."""
    found = facts.all_facts()
    if arguments.json:
        json.dump(found, sys.stdout, indent=1, ensure_ascii=False)
        print()
    else:
        print(printing.pairs((name, _text(value)) for name, value in found.items()))
    return 0


def _text(value: object) -> str:
    """Returns a value as lines of text."""
    if isinstance(value, dict):
        return "\n".join(f"{name}={one}" for name, one in value.items()) or "none"
    if isinstance(value, list):
        return "\n".join(map(_text, value)) or "none"
    return str(value)
