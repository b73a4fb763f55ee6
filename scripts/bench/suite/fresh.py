"""Measurements in fresh processes: `compile`, `memory` and `layers`. `child` is what runs there.

`compile`: seconds from requesting a compiled model to its first result, less a later call; the contestants alternate,
each with empty caches. `memory`: the peak resident memory of a process that only loads torch and the model, compiles
and calls it; inductor finds its code in the cache, so that it is not charged for a compiler. With ``--gradients`` both
are for a training step without an optimizer. `layers`: the same model with 4 and with 48 equal layers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import agree, contestants, measure, record

LAYERS = (4, 48)

HERE = Path(__file__).resolve().parent


@contextmanager
def empty_caches() -> Iterator[dict[str, str]]:
    """Yields settings with empty caches."""
    with tempfile.TemporaryDirectory() as folder:
        yield {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TMPDIR": folder}


def ask(given: dict[str, Any], settings: dict[str, str]) -> dict[str, Any]:
    """Returns one answer of a fresh process."""
    task: dict[str, Any] = {
        "batch": 1,
        "threads": 1,
        "sizes": {},
        "warm": True,
        "door": contestants.DOORS[0],
        "gradients": False,
    }
    task |= given
    command = [sys.executable, "-m", f"{__package__}.child", json.dumps(task)]
    path = os.pathsep.join([str(HERE.parent), str(HERE.parents[2] / "python"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **settings, "PYTHONPATH": path})
    if done.returncode:
        raise RuntimeError(f"{task}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def check(line: record.Line, answers: dict[str, list[dict[str, Any]]]) -> None:
    """Notes errors, and graphs that were not compiled whole."""
    for who, list_ in answers.items():
        line.errors[who] = max(answer["error"] for answer in list_)
        line.notes += list_[0].get("notes", [])
        if not line.errors[who] <= agree.TOLERANCE:
            line.right = False
            line.notes.append(f"{who} DIFFERS FROM EAGER by {line.errors[who]:.1e}")


def compile_(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    rounds: int,
    threads: int,
    gradients: bool = False,
) -> None:
    """Prints and records the table of cold compilations."""
    columns = "".join(f"{who:>10}{'backend':>9}" for who in field.compilers)
    pairs = field.pairs[1:]
    output.part(
        "compile",
        f"compile: seconds to the first result less a call, of that the backend's; {field.door}, empty caches",
        f"{'':30}{columns}  {'  '.join(pairs)}",
    )
    samples: dict[str, measure.Samples] = {}
    for name in chosen:
        answers: dict[str, list[dict[str, Any]]] = {who: [] for who in field.compilers}
        for _ in range(rounds):
            for who, list_ in answers.items():
                with empty_caches() as settings:
                    task = {"model": name, "contestant": who, "door": field.door, "threads": threads}
                    task["gradients"] = gradients
                    list_.append(ask(task, settings))
        samples[name] = {who: [answer["seconds"] for answer in list_] for who, list_ in answers.items()}
        line = record.timed(name, {"batch": 1, "threads": threads}, samples[name], pairs, unit="s")
        line.figures = {
            f"{who} {what}": measure.median([answer[what] for answer in list_])
            for who, list_ in answers.items()
            for what in ("backend", "peak")
        }
        check(line, answers)
        cells = "".join(f"{line.times[who]:10.2f}{line.figures[f'{who} backend']:9.2f}" for who in answers)
        output.add(line, f"{name:30}{cells}  {line.compared()}")
    for pair in pairs:
        mean = measure.mean_ratio([measure.ratios(seen, *pair.split("/")) for seen in samples.values()])
        output.summary(pair, mean, f"geometric mean of {len(samples)}: {pair}: {mean}")


def memory(
    output: record.Record,
    field: contestants.Field,
    chosen: Sequence[str],
    batches: Sequence[int],
    threads: int,
    gradients: bool = False,
) -> None:
    """Prints and records the table of peak resident memory."""
    everyone = ["eager", *field.compilers]
    columns = "".join(f"{who:>10}{'in calls':>10}" for who in everyone)
    output.part(
        "memory",
        "memory: MiB resident at most in a fresh process, and how far later calls go above what is resident between",
        f"{'':30}{'batch':>6}{columns}  {'  '.join(field.pairs)}",
    )
    for name in chosen:
        for batch in batches:
            answers: dict[str, list[dict[str, Any]]] = {}
            for who in everyone:
                task = {"model": name, "contestant": who, "door": field.door, "threads": threads, "batch": batch}
                task["gradients"] = gradients
                if who == "inductor":
                    ask(task, {})
                answers[who] = [ask({**task, "warm": False}, {})]
            line = record.Line(name, {"batch": batch, "threads": threads}, "MiB")
            line.times = {who: list_[0]["peak"] for who, list_ in answers.items()}
            line.figures = {f"{who} in calls": list_[0]["call peak"] for who, list_ in answers.items()}
            samples = {who: [peak] for who, peak in line.times.items()}
            line.ratios = {pair: measure.ratio(samples, *pair.split("/")).json() for pair in field.pairs}
            check(line, answers)
            cells = "".join(f"{line.times[who]:10.0f}{line.figures[f'{who} in calls']:10.1f}" for who in everyone)
            shown = "  ".join(f"{value['value']:{len(pair)}.3f}" for pair, value in line.ratios.items())
            output.add(line, f"{name:30}{batch:6}{cells}  {shown}")


def layers(output: record.Record, field: contestants.Field, rounds: int) -> None:
    """Prints and records the cost of compiling 4 and 48 equal layers; wrong if their kernels differ."""
    output.part(
        "layers",
        f"layers: seconds to compile a BERT of N equal layers; {field.door}, fresh processes",
        f"{'':12}{'kernels':>8}{'first call':>12}{'backend':>9}{'code':>8}",
    )
    answers: dict[int, list[dict[str, Any]]] = {count: [] for count in LAYERS}
    for _ in range(rounds):
        for count, list_ in answers.items():
            task = {"model": "bert", "contestant": "dynamlir", "door": field.door}
            list_.append(ask({**task, "sizes": {"num_hidden_layers": count}}, {}))
    for count, list_ in answers.items():
        line = record.Line(f"{count} layers", {"batch": 1, "threads": 1}, "s")
        line.times = {
            what: measure.median([answer[what] for answer in list_]) for what in ("seconds", "backend", "code")
        }
        line.figures = {"kernels": list_[0]["kernels"]}
        check(line, {"dynamlir": list_})
        line.right &= list_[0]["kernels"] == answers[LAYERS[0]][0]["kernels"]
        cells = f"{list_[0]['kernels']:8}{line.times['seconds']:12.3f}{line.times['backend']:9.3f}"
        output.add(line, f"{line.name:12}{cells}{line.times['code']:8.3f}")
    few, many = answers.values()
    for what, label in (("seconds", "of the whole"), ("backend", "of the backend"), ("code", "of code generation")):
        samples = {"many": [answer[what] for answer in many], "few": [answer[what] for answer in few]}
        mean = measure.ratio(samples, "many", "few")
        output.summary(what, mean, f"{LAYERS[1]} layers over {LAYERS[0]}, {label}: {mean}")
