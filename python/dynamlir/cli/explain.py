"""``explain``: runs a program, or one call of a function, and says what was compiled, and what was not and why."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from . import callables, printing, programs, summary
from .failures import Failure, of_program

HELP = "say what of a program is compiled, and what is not and why"
USAGE = """\
python -m dynamlir explain [options] [--] script.py [argument ...]
       python -m dynamlir explain [options] -m module [argument ...]
       python -m dynamlir explain [--inputs ARGUMENTS] module:function"""
DESCRIPTION = """\
Runs a program as python runs it and, at its end, prints for each compiled
function its graphs and recompilations, and each place that ran as plain
Python, with the reason, the line and a hint. For module:function or
file.py:function, one call is captured, and the result of dynamlir.explain
is printed."""
EXAMPLES = """\
  python -m dynamlir explain train.py --epochs 1
  python -m dynamlir explain model.py:Net --inputs 'torch.randn(8, 64)'"""
WITH_VALUE = ("--inputs",)
"""The options that the next argument belongs to."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments, without the program."""
    callables.add_inputs(parser)


def before_import(arguments: argparse.Namespace) -> bool:
    """Returns true for a program, which imports what it needs."""
    return not _is_callable(arguments.program)


def _is_callable(program: list[str]) -> bool:
    return bool(program) and not program[0].startswith("-") and ":" in program[0] and not os.path.exists(program[0])


def main(arguments: argparse.Namespace) -> int:
    """Prints the explanation, and returns the exit status."""
    if _is_callable(arguments.program):
        name, *rest = arguments.program
        return _call(name, callables.with_inputs_after(rest, arguments.inputs))
    if arguments.inputs is not None:
        raise Failure("--inputs is for module:function; a program takes its own arguments after its name")
    outcome = programs.run(arguments.program, {})
    if outcome.silent:
        print(
            f"dynamlir: {summary.count(outcome.silent, 'process')} ended without exit handlers, so what was compiled "
            "there is not known",
            file=sys.stderr,
        )
    compiled, plain = summary.compiled(outcome.parts), summary.plain_runs(outcome.parts)
    print("\n" + printing.wrapped(f"dynamlir: {_result(outcome.parts, compiled)}"))
    if compiled:
        print("\n" + "\n".join(compiled))
    if plain:
        print("\n" + printing.wrapped("What ran as plain Python:") + "\n")
        print("\n\n".join(plain))
    elif compiled:
        print("\n" + printing.wrapped("Nothing that was to be compiled ran as plain Python."))
    return programs.end_as(outcome.status)


def _result(parts: list[dict[str, Any]], compiled: list[str]) -> str:
    if not parts:
        return "the program did not import dynamlir"
    if not compiled:
        return "nothing was compiled"
    graphs = sum(report["eager"] is None for part in parts for report in part["reports"])
    return f"{summary.count(graphs, 'graph')} compiled"


def _call(name: str, inputs: str | None) -> int:
    """Prints the explanation of one call."""
    import dynamlir  # complete by now

    found = callables.find(name, inputs)
    try:
        explanation = dynamlir.explain(found.function)(*found.arguments, **found.named)
    except Exception as error:
        print(of_program(error), file=sys.stderr)
        return 1
    print(explanation)
    if explanation.compiled is not None:
        print(explanation.compiled)
    return 0
