"""Runs grown functions in concrete mode, even on a CPython without torch: `python -m grown EXTENSION [--seconds S]`.

Prints, as JSON, the range of seeds that ran, the numbers of each outcome, and the seeds that differ.
"""

import argparse
import collections
import faulthandler
import importlib.util
import json
import resource
import sys
import time

from . import run

ROOM = 4 << 30
"""The limit on the process's address space, in bytes."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("extension")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--limit", type=int, default=10, help="stop after this number of programs that differ")
    parser.add_argument("--verbose", action="store_true", help="say each seed before it runs")
    options = parser.parse_args()
    faulthandler.enable()
    # Lists that are nested in one another many times are small, but their reprs are not.
    resource.setrlimit(resource.RLIMIT_AS, (ROOM, ROOM))
    spec = importlib.util.spec_from_file_location("dynamlir._native", options.extension)
    native = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(native)
    differences = {}
    ended = collections.Counter()
    stop = time.monotonic() + options.seconds
    seed = options.first
    while time.monotonic() < stop and len(differences) < options.limit:
        if options.verbose:
            print("seed", seed, flush=True)
        try:
            plain, ours = run.concrete(native, seed)
        except MemoryError:
            ended["too large"] += 1
            seed += 1
            continue
        if plain != ours:
            differences[seed] = {"plain": plain, "ours": ours}
        error = plain[0]["error"]
        ended[error["type"] if error else "returned"] += 1
        seed += 1
    print(
        json.dumps(
            {
                "seeds": [options.first, seed],
                "ended": ended,
                "differences": differences,
                "counts": native.interpreter_counts(),
            }
        )
    )
    return 1 if differences else 0


sys.exit(main())
