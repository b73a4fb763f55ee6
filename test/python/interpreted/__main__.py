"""Runs all cases both ways; prints the outcomes that differ, and the interpreter's counts, as JSON."""

import importlib.util
import json
import operator
import sys

from . import calling, flow, generating, later, names, operations, raising, surroundings  # noqa: F401
from .support import CASES, HARNESS, outcome

HARNESS.add(__file__)


def main(path):
    # The extension alone, without the package and without torch.
    spec = importlib.util.spec_from_file_location("dynamlir._native", path)
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    differences = {}
    for name, function in CASES.items():
        plain = outcome(operator.call, function)
        ours = outcome(native.interpret, function)
        if plain != ours:
            differences[name] = {"plain": plain, "ours": ours}
    print(json.dumps({"cases": sorted(CASES), "differences": differences, "counts": native.interpreter_counts()}))


main(sys.argv[1])
