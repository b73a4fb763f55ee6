"""DistributedDataParallel over gloo with two processes: gradients are eager's, regardless of what is compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import distributed_steps
import pytest
import torch.distributed

pytestmark = [
    pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="torch has no gloo"),
]

HERE = Path(__file__).resolve().parents[1]
PROCESSES = 2


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The output of the processes, by case. They run all cases, since each process takes long to start."""
    met = tmp_path_factory.mktemp("gloo") / "met"
    path = os.pathsep.join([str(HERE.parents[1] / "python"), str(HERE)])
    environment = {**os.environ, "PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", distributed_steps.__file__]
    started = [
        subprocess.Popen(
            [*command, str(rank), str(PROCESSES), str(met)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(PROCESSES)
    ]
    try:
        ended = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, said) in zip(started, ended):
        assert process.returncode == 0, said[-3000:]
    found: dict[str, list[dict[str, Any]]] = {}
    for printed, _ in ended:
        for line in printed.splitlines():
            if line.startswith('{"case"'):
                answer = json.loads(line)
                found.setdefault(answer["case"], []).append(answer)
    return found


@pytest.mark.parametrize("case", distributed_steps.CASES)
def test_gradients_are_those_of_eagers(case: str, answers: dict[str, list[dict[str, Any]]]) -> None:
    assert len(answers[case]) == PROCESSES
    for found in answers[case]:
        assert found["worst"] < 1e-4 and found["same"], found
        assert found["alone"] > 1e-2, "nothing was exchanged"
        assert found["compiled"] and not found["fallbacks"] and found["node"] == "DynamlirBackward", found
        # Dynamo splits graphs at the bounds of buckets, so that gradients are sent while others are computed.
        assert (len(found["compiled"]) > 1) == (case == "torch.compile(ddp)" or case == "ddp(torch.compile)"), found
