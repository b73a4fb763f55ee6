"""Compares what two builds of dynamlir make of the models: the programs at stage 00, entries, guards, graph breaks.

    scripts/bench/same.py BEFORE AFTER [--models bert,resnet18] [--rename dynamo.old=dynamo.new …] [--keep FOLDER]

BEFORE and AFTER are folders containing a package `dynamlir`, as for `builds.py`. Each model is compiled for inference
and for a training step, in a separate process for each build. A change of form must not change a line: what differs is
printed, and the exit code is 1. ``--rename`` replaces a word in the texts of BEFORE; ``--keep`` keeps all texts.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent

LINES = 12
"""The number of differing lines shown for a program."""


def made(name: str, trains: bool, folder: Path) -> dict[str, Any]:
    """Returns the counts of a model's first call, and writes its programs into a folder."""
    import dynamlir
    import torch
    from suite import catalog

    dynamlir.reset()
    torch.manual_seed(0)
    model, inputs = catalog.MODELS[name].make()
    model.train(trains)
    compiled = dynamlir.compile(model, options={"dump": str(folder)})
    with torch.set_grad_enabled(trains):
        compiled(**inputs)
    entries = list(compiled._cache)
    counters = dynamlir.counters()
    return {
        "entries": len(entries),
        "guards": [len(entry.guards.code_parts) for entry in entries],
        "graphs": counters["graphs"],
        "fallbacks": dict(counters["fallbacks"]),
    }


def ask(build: str, name: str, trains: bool, folder: Path) -> dict[str, Any]:
    """Returns the counts for a build, in a process of its own."""
    settings = {"PYTHONPATH": os.pathsep.join([build, str(HERE)]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--child", name, str(int(trains)), str(folder), build, build]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings})
    if done.returncode:
        raise RuntimeError(f"{build}, {name}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def texts(folder: Path, renames: list[tuple[str, str]]) -> list[str]:
    """Returns the programs in a folder, in the order in which they were compiled."""
    found = []
    for path in sorted(folder.rglob("00-aten.mlir"), key=lambda path: path.stat().st_mtime_ns):
        text = path.read_text()
        for old, new in renames:
            text = text.replace(old, new)
        found.append(text)
    return found


def differences(before: Path, after: Path, renames: list[tuple[str, str]]) -> list[str]:
    """Returns the lines by which the programs of two builds differ."""
    first, second = texts(before, renames), texts(after, [])
    if len(first) != len(second):
        return [f"{len(first)} programs before, {len(second)} after"]
    lines: list[str] = []
    for one, other in zip(first, second):
        lines += list(difflib.unified_diff(one.splitlines(), other.splitlines(), "before", "after", lineterm="", n=0))
    return lines


def main() -> None:
    """Compares all models; exits with 1 if something differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--models")
    parser.add_argument("--rename", action="append", default=[])
    parser.add_argument("--keep")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, trains, folder = options.child
        print(json.dumps(made(name, trains == "1", Path(folder))))
        return
    sys.path.insert(0, str(HERE))
    from suite import catalog

    renames = [tuple(rename.split("=", 1)) for rename in options.rename]
    kept = Path(options.keep or tempfile.mkdtemp(prefix="dynamlir-same-"))
    programs = differing = 0
    for name in options.models.split(",") if options.models else catalog.MODELS:
        for trains in (False, True):
            mode = "training" if trains else "inference"
            folders = {who: kept / f"{name}-{mode}-{who}" for who in ("before", "after")}
            for folder in folders.values():
                folder.mkdir(parents=True, exist_ok=True)
            before = ask(options.before, name, trains, folders["before"])
            after = ask(options.after, name, trains, folders["after"])
            lines = differences(folders["before"], folders["after"], renames)
            counts = [] if before == after else [f"counts: {before} before, {after} after"]
            programs += len(texts(folders["after"], []))
            differing += bool(lines or counts)
            print(f"{name}, {mode}: {after if not (lines or counts) else 'DIFFERS'}")
            for line in [*counts, *lines[:LINES]]:
                print(f"    {line}")
    print(f"{programs} programs; {differing} calls differ")
    sys.exit(bool(differing))


if __name__ == "__main__":
    main()
