"""Counts the instructions of a cached call, and of a capture: the same numbers on any machine, however busy.

    scripts/bench/call_instructions.py [--write FILE] [--compare FILE] [--tolerance 0.05]

Each subject is called some thousands of times while valgrind's callgrind counts; the count of an empty loop is
subtracted. `--write` records the counts, `--compare` fails if a count has grown by more than the tolerance. `empty` is
`torch.empty`: the minimum cost of a call's result, its deallocation included. `a capture` is one of an encoder of six
layers, without its compilation; `of it, the ledger` is the part that checks used values against the guards, and more
than 3% of a capture fails. Counts depend on the build of torch and of Python, so only those of one environment are
comparable. Takes three minutes; valgrind is not installed by `scripts/setup`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

TIMES = 4000
WARM = 200
CAPTURE, LEDGER = "a capture", "of it, the ledger"
LARGEST_SHARE = 0.03
"""The maximum share of the ledger in a capture."""
LEDGER_FUNCTIONS = re.compile(r"Capture>::(uses|uses_sameness|unproven)(?!')\b")


def control(*arguments: str) -> None:
    """Sends a command to callgrind."""
    command = ["callgrind_control", *arguments, str(os.getpid())]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    if "OK" not in done.stdout:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout}{done.stderr}")


def subjects() -> dict[str, Callable[[int], None]]:
    """Returns the subjects: functions that run a loop of this many calls."""
    import dynamlir
    import torch
    from suite import calls
    from torch import nn

    x, ten = torch.randn(8), tuple(torch.randn(8) for _ in range(10))
    module = nn.Sequential(nn.ReLU(), nn.Tanh()).eval()
    return {
        "nothing": calls.repeat(lambda: None, ()),
        "empty": calls.repeat(torch.empty, (8,)),
        "x + 1, eager": calls.repeat(calls.add_one, (x,)),
        "x + 1": calls.repeat(dynamlir.compile(calls.add_one), (x,)),
        "10 inputs": calls.repeat(dynamlir.compile(calls.ten), ten),
        "a module": calls.repeat(dynamlir.compile(module), (x,)),
        "guards of 1 Linear": calls.guard_set(calls.linears(1), x.reshape(2, 4)),
        "guards of 100 Linear": calls.guard_set(calls.linears(100), x.reshape(2, 4)),
    }


def capture() -> Callable[[], None]:
    """Returns a function that captures an encoder anew each time, without compiling."""
    import dynamlir
    import torch
    from torch import nn

    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    model = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False).eval()
    x = torch.randn(2, 8, 64)

    def run() -> None:
        dynamlir.reset()
        dynamlir.compile(model, backend="eager")(x)

    return run


def count() -> None:
    """Runs under valgrind: writes one dump per subject."""
    import torch

    torch.set_num_threads(1)
    with torch.no_grad():
        runs = subjects()
        for run in runs.values():
            run(WARM)
        gc.collect()
        gc.disable()
        for name, run in runs.items():
            control("--instr=on")
            run(TIMES)
            control("--instr=off")
            control(f"--dump={name}")
        once = capture()
        # The first calls import modules.
        once()
        once()
        control("--instr=on")
        once()
        control("--instr=off")
        control(f"--dump={CAPTURE}")


def counted(folder: Path) -> dict[str, float]:
    """Returns the instructions per call from the dumps."""
    totals: dict[str, float] = {}
    captured = {}
    for dump in sorted(folder.glob("out.*")):
        text = dump.read_text()
        name = re.search(r"^desc: Trigger: dump (.+)$", text, re.M)
        total = re.search(r"^totals: (\d+)", text, re.M)
        if not name or not total:
            continue
        if name[1] == CAPTURE:
            captured = {CAPTURE: float(total[1]), LEDGER: float(ledger(dump))}
        else:
            totals[name[1]] = float(total[1]) / TIMES
    nothing = totals.pop("nothing", 0.0)
    return {name: total - nothing for name, total in totals.items()} | captured


def ledger(dump: Path) -> int:
    """Returns the instructions of the ledger's functions and their callees. They do not call each other."""
    command = ["callgrind_annotate", "--auto=no", "--inclusive=yes", "--threshold=100", str(dump)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    costs: dict[str, int] = {}
    for line in listed.splitlines():
        count, function = re.match(r"\s*([\d,]+) \(", line), LEDGER_FUNCTIONS.search(line)
        if count and function:
            # A function is listed once for each file from which something was inlined; the largest is the total.
            costs[function[1]] = max(costs.get(function[1], 0), int(count[1].replace(",", "")))
    return sum(costs.values())


def main() -> int:
    """Counts, prints, compares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="record the counts in this file")
    parser.add_argument("--compare", type=Path, help="fail where a count is larger than in this file")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--counting", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counting:
        count()
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is missing: apt-get install valgrind", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out"]
        done = subprocess.run([*tool, sys.executable, __file__, "--counting"], capture_output=True, text=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        counts = counted(Path(folder))
    before = json.loads(options.compare.read_text()) if options.compare else {}
    grown = []
    for name, value in counts.items():
        ratio = value / before[name] if name in before else None
        print(f"{name:24} {value:9.0f}", f"{ratio:6.3f} x" if ratio else "")
        if ratio and ratio > 1 + options.tolerance:
            grown.append(name)
    if options.write:
        options.write.write_text(json.dumps({name: round(value) for name, value in counts.items()}, indent=1) + "\n")
    share = counts.get(LEDGER, 0) / counts.get(CAPTURE, 1)
    print(f"{'share of the ledger':24} {share:9.2%}")
    if grown:
        print("grown:", ", ".join(grown), file=sys.stderr)
    return 1 if grown or not 0 < share <= LARGEST_SHARE else 0


if __name__ == "__main__":
    sys.exit(main())
