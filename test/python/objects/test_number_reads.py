"""All ways of reading a number, from all kinds of containers, while it changes: `python -m reading.run` tests more."""

from __future__ import annotations

import dynamlir
import pytest
from reading import run
from reading.kinds import KINDS

KNOWN = frozenset(run.KNOWN.read_text().splitlines())


def check(programs: list[run.Program]) -> int:
    """Runs programs; returns the number of those captured whole. Checks that a correct one is not on the list of known
    errors.
    """
    wrong, right, whole = [], [], 0
    for program in programs:
        found = run.differs(program)
        whole += not dynamlir.fallbacks()
        if found is not None and str(program) not in KNOWN:
            wrong.append(found)
        if found is None and str(program) in KNOWN:
            right.append(str(program))
    assert not wrong, "\n".join([f"{len(wrong)} differ, the first:", wrong[0]])
    assert not right, "\n".join([f"no longer wrong, to be taken off {run.KNOWN.name}:", *right])
    return whole


def test_sample() -> None:
    programs = [program for kind in KINDS for program in run.sample(kind)]
    # Programs that run as plain Python are trivially correct.
    assert check(programs) > len(programs) * 0.6


def test_known_programs_exist() -> None:
    assert {str(program) for program in run.programs()} >= KNOWN


def test_an_old_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A faulty compiler that repeats the second answer at the third call is detected."""

    def careless(function: object, **_options: object) -> object:
        answers: list[object] = []

        def call(*args: object, **named: object) -> object:
            if len(answers) < 2:
                answers.append(function(*args, **named))
            return answers[-1]

        return call

    monkeypatch.setattr(dynamlir, "compile", careless)
    assert run.differs(run.programs((KINDS[0],))[0])
