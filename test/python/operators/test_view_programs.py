"""Random programs of views, mutations and reads over aliasing inputs. ``scripts/fuzz views`` tries more of them."""

from __future__ import annotations

import dynamlir
import programs
import pytest


@pytest.mark.parametrize("block", range(6))
def test_programs_given_to_the_backend(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        program = programs.make(seed, steps=8)
        found = programs.wrong(program)
        assert not found, f"seed {seed}\n{program.text()}\n{found}\n{dynamlir.explain_last()}"
    counts = dynamlir.counters()
    assert counts["graphs_compiled"] >= 10, counts
    assert not {"internal-error", "run-error", "unknown-tensor"} & counts["fallbacks"].keys(), dynamlir.fallbacks()


def test_programs_through_torch_compile() -> None:
    for seed in range(1000, 1012):
        program = programs.make(seed, steps=8)
        found = programs.wrong(program, through="compile")
        assert not found, f"seed {seed}\n{program.text()}\n{found}\n{dynamlir.explain_last()}"


def test_a_seed_is_a_program() -> None:
    assert programs.make(5).module.code == programs.make(5).module.code != programs.make(6).module.code
