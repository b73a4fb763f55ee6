"""The commands, the parsing of their arguments, and the errors that all of them report alike."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from ..version import __version__
from . import bench, completion, doctor, env, explain, run
from .failures import Failure

COMMANDS: tuple[ModuleType, ...] = (env, doctor, run, explain, bench, completion)

EXAMPLES = """\
examples:
  python -m dynamlir doctor
  python -m dynamlir run --logs recompiles train.py
  python -m dynamlir explain train.py
  python -m dynamlir bench model.py:Net --inputs 'torch.randn(8, 64)'

python -m dynamlir COMMAND --help has more."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors begin as those of other messages do."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(2, f"dynamlir: error: {message}\n")


class _Help(argparse.HelpFormatter):
    """Wraps descriptions to the terminal's width, paragraph by paragraph, and leaves examples as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return "\n\n".join(super(_Help, self)._fill_text(part, width, indent) for part in text.split("\n\n"))


def parser() -> argparse.ArgumentParser:
    """Returns the parser for all commands."""
    made = Parser(
        prog="python -m dynamlir",
        description="Tools around dynamlir's compiler for PyTorch.",
        epilog=EXAMPLES,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"dynamlir {__version__}")
    words: dict[str, tuple[str, dict[str, str]]] = {}
    commands = made.add_subparsers(dest="command", metavar="COMMAND", title="commands", parser_class=Parser)
    for command in COMMANDS:
        own = commands.add_parser(
            command.__name__.rpartition(".")[2],
            help=command.HELP,
            description=command.DESCRIPTION,
            epilog=f"examples:\n{command.EXAMPLES}",
            formatter_class=_Help,
            allow_abbrev=False,
            **({"usage": command.USAGE} if hasattr(command, "USAGE") else {}),
        )
        own.set_defaults(its=command)
        command.add_arguments(own)
        words[own.prog.rpartition(" ")[2]] = command.HELP, completion.words_of(own)
    made.set_defaults(words=words)
    return made


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Returns the parsed arguments; ends the process for ``--help``, ``--version`` and what cannot be parsed."""
    made = parser()
    own, program = _without_program(list(arguments))
    parsed = made.parse_args(own)
    if parsed.command is None:
        made.print_help()
        made.exit()
    parsed.program = program
    return parsed


def _without_program(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Splits the arguments of a command that runs a program: before the program, and from it on."""
    command = next((command for command in COMMANDS if arguments[:1] == [command.__name__.rpartition(".")[2]]), None)
    values: tuple[str, ...] | None = getattr(command, "WITH_VALUE", None)
    if values is None:
        return arguments, []
    at = 1
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return arguments[:at], arguments[at + 1 :]
        if not word.startswith("-") or word == "-" or (word.startswith("-m") and not word.startswith("--")):
            return arguments[:at], arguments[at:]
        at += 2 if word in values else 1
    return arguments, []


def before_import(arguments: Sequence[str]) -> int | None:
    """Runs a command that does not need the imported package, and returns its exit status; None for another one."""
    parsed = parse(arguments)
    return _status(parsed) if parsed.its.before_import(parsed) else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command, and returns its exit status."""
    return _status(parse(sys.argv[1:] if arguments is None else arguments))


def _status(parsed: argparse.Namespace) -> int:
    try:
        status: int = parsed.its.main(parsed)
        sys.stdout.flush()
        return status
    except Failure as failure:
        print(f"dynamlir: error: {failure}", file=sys.stderr)
        return failure.status
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has left, as `| head` does. Python would complain when it flushes stdout at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
