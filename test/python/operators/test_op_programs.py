"""Random programs of torch's operations agree with eager through both front doors, in everything that a program can
see.

`scripts/fuzz ops` runs more of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import dynamlir
import op_programs
import pytest


@pytest.mark.parametrize("door", ["dynamlir.compile", "torch.compile"])
def test_programs(door: str, seeds: Iterator[int]) -> None:
    compiled = ran = 0
    for seed in seeds:
        dynamlir.reset()
        program = op_programs.make(seed)
        found = op_programs.wrong(program, door)
        assert not found, f"seed {seed}\n{program.text()}\n" + "\n".join(found) + "\n" + dynamlir.explain_last()
        compiled += not dynamlir.counters()["fallbacks"]
        ran += 1
    assert compiled > ran // 2


def test_a_seed_is_a_program() -> None:
    assert op_programs.make(3).source == op_programs.make(3).source != op_programs.make(4).source


def test_what_is_drawn() -> None:
    """Sizes at the thresholds, all layouts, results that are unused, lines that write and lines that raise."""
    programs = [op_programs.make(seed) for seed in range(150)]
    tensors = [tensor for program in programs for tensor in program.inputs]
    assert sum(any(size in (4095, 4096, 4097) for size in tensor.shape) for tensor in tensors) > 5
    assert sum(not tensor.is_contiguous() for tensor in tensors) > 30
    assert any("dead = " in program.source for program in programs)
    assert any("add_(" in program.source or "zero_(" in program.source for program in programs)
