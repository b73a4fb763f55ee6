"""Functions generated from a grammar, against CPython. `scripts/fuzz functions` and `… tensors` generate more."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dynamlir
import pytest
import torch
from dynamlir import _native, reasons
from grown import run, tensors
from interpreters import SUPPORTED
from test_interpreter import interpreters

HERE = Path(__file__).resolve().parents[1]
# The time limit for another interpreter's programs, in seconds; the number that run depends on the machine.
SECONDS = 5


@pytest.mark.parametrize("version", SUPPORTED)
def test_concrete_mode(version: str) -> None:
    python = interpreters().get(version)
    if python is None:
        pytest.skip(f"no CPython {version} here")
    command = [python, "-m", "grown", _native.__file__, "--seconds", str(SECONDS)]
    environment = {**os.environ, "PYTHONPATH": str(HERE), "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.stdout, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["differences"] == {}
    assert done.returncode == 0
    assert report["counts"]["left"] == {}
    # The programs neither all fail nor all succeed.
    ran = report["seeds"][1] - report["seeds"][0]
    assert 0 < report["ended"]["returned"] < ran


def test_tensors(seeds: Iterator[int]) -> None:
    whole = 0
    with torch.no_grad():
        for seed in seeds:
            reasons.reset()
            found = tensors.captured(seed)
            assert found is None, f"seed {seed}\n{run.text(seed, tensors=True)}\nplain {found[0]}\nours  {found[1]}"
            whole += not dynamlir.counters()["fallbacks"]
    assert whole


def test_a_seed_is_a_function() -> None:
    assert run.text(3) == run.text(3) != run.text(4)
    assert run.text(3, tensors=True) == run.text(3, tensors=True)
