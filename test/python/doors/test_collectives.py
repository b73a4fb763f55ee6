"""Programs whose processes exchange tensors over gloo: plain Python's results, and compiled code around exchanges."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import collective_programs
import pytest
import torch.distributed
from sampled import one_in

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo"),
]

HERE = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("count", one_in(2, [2, 4]))
def test_exchanges_are_those_of_plain_python(count: int, tmp_path: Path) -> None:
    path = os.pathsep.join([str(HERE.parents[1] / "python"), str(HERE)])
    environment = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", collective_programs.__file__]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(count), str(tmp_path / "met")],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, said) in zip(started, ended):
        assert process.returncode == 0, said[-3000:]
    answers = [json.loads(line) for out, _ in ended for line in out.splitlines() if line.startswith('{"case"')]
    assert not [answer for answer in answers if not answer["same"]]
    assert len(answers) >= 2 * count and {answer["door"] for answer in answers} == set(collective_programs.DOORS)
    for answer in answers:
        _check_what_was_compiled(answer)


def _check_what_was_compiled(answer: dict[str, Any]) -> None:
    """The code before an exchange is a graph; with `torch.compile` the code after it is another one."""
    if answer["case"] == "a process has left":
        return
    assert answer["graphs"] >= (1 if answer["door"] == "own" else 2), answer
    if answer["door"] == "torch" and answer["case"] != "asynchronous":
        assert "collective" in answer["why"] and set(answer["why"]) <= {"collective", "run-error"}, answer
