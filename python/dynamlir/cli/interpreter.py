"""The command that started Python: programs are run by the same interpreter, with the same options."""

from __future__ import annotations

import sys


def command() -> list[str] | None:
    """Returns the command that started Python, up to the options before ``-m dynamlir``; None if another did.

    While Python looks for the module to run, ``sys.argv[0]`` is ``-m``.
    """
    if sys.argv[:1] != ["-m"] or len(sys.orig_argv) <= len(sys.argv):
        return None
    at = len(sys.orig_argv) - len(sys.argv)
    name, before = sys.orig_argv[at], sys.orig_argv[1:at]
    if name == "dynamlir" and before and before[-1].endswith("m"):
        # The module's name follows ``-m``, or a group of options such as ``-Im``.
        last = before.pop().removesuffix("m")
        return [sys.executable, *before, *([last] if last != "-" else [])]
    if name.startswith("-") and not name.startswith("--") and name.endswith("mdynamlir"):
        last = name.removesuffix("mdynamlir")
        return [sys.executable, *before, *([last] if last != "-" else [])]
    return None
