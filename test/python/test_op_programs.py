"""Random programs of torch's operations agree with eager through both front doors, in all that a program can see.

`scripts/fuzz ops` runs more of them.
"""

from __future__ import annotations

import time

import dynamlir
import op_programs
import pytest

# The time that the programs of one door may take, in seconds.
SECONDS = {"dynamlir.compile": 25, "torch.compile": 15}


@pytest.mark.parametrize("door", SECONDS)
def test_programs(door: str) -> None:
    stop = time.monotonic() + SECONDS[door]
    compiled = seed = 0
    while time.monotonic() < stop:
        dynamlir.reset()
        program = op_programs.make(seed)
        found = op_programs.wrong(program, door)
        assert not found, f"seed {seed}\n{program.text()}\n" + "\n".join(found) + "\n" + dynamlir.explain_last()
        compiled += not dynamlir.counters()["fallbacks"]
        seed += 1
    assert compiled > seed // 2


def test_a_seed_is_a_program() -> None:
    assert op_programs.make(3).source == op_programs.make(3).source != op_programs.make(4).source


def test_what_is_drawn() -> None:
    """Sizes at the thresholds, all layouts, results that nothing uses, lines that write and lines that raise."""
    programs = [op_programs.make(seed) for seed in range(150)]
    tensors = [tensor for program in programs for tensor in program.inputs]
    assert sum(any(size in (4095, 4096, 4097) for size in tensor.shape) for tensor in tensors) > 5
    assert sum(not tensor.is_contiguous() for tensor in tensors) > 30
    assert any("dead = " in program.source for program in programs)
    assert any("add_(" in program.source or "zero_(" in program.source for program in programs)
