"""All of torch's functions with edge-case numbers among their arguments, against eager; `edge_sweep` lists the numbers.

A run takes a third of the functions, with one sample of each; with ``--long`` it takes all, with six samples.
"""

from __future__ import annotations

import zlib
from collections import Counter
from typing import Any

import dynamlir
import edge_sweep
import opinfo_runner
import pytest
import sampled
import torch

PARTS = 12
SAMPLES = sampled.examples(1, 6)


def operators() -> list[Any]:
    return opinfo_runner.forward_ops(opinfo_runner.Samples())


@pytest.mark.parametrize("part", sampled.one_in(3, range(PARTS)))
@pytest.mark.filterwarnings("ignore")
def test_functions(part: int, quiet: None) -> None:
    wrong: list[str] = []
    for op in operators():
        if zlib.crc32(opinfo_runner.op_name(op).encode()) % PARTS == part:
            wrong += edge_sweep.sweep(op, SAMPLES)
    assert not wrong, "\n".join(wrong)


def test_exceptions_name_functions_and_say_why() -> None:
    names = {opinfo_runner.op_name(op) for op in operators()}
    for (name, kind), reason in edge_sweep.exceptions().items():
        assert kind in edge_sweep.NUMBERS
        assert reason
        if torch.__version__.startswith(f"{opinfo_runner.data()['torch']}."):
            assert name in names


def test_what_is_swept_is_compiled(quiet: None) -> None:
    """Checks that functions are compiled, since plain Python agrees with eager for all numbers."""
    compiled = Counter[bool]()
    for op in operators()[::40]:
        edge_sweep.sweep(op, 1)
        compiled[not dynamlir.fallbacks()] += 1
    assert compiled[True] > 2 * compiled[False]


@pytest.mark.parametrize("put", edge_sweep.NUMBERS)
def test_a_difference_is_found(put: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that is wrong at an edge-case number, in one element only, and in its gradient only."""
    from torch.testing._internal import common_methods_invocations as invocations

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, tangent: torch.Tensor) -> torch.Tensor:
            return tangent.index_fill(0, torch.tensor([1]), 0.25)

    sin = next(op for op in invocations.op_db if op.name == "sin")
    case = next(edge_sweep.cases(sin, 1))
    assert not case.differences(case.call, put)
    assert case.differences(lambda x: Wrong.apply(x).sin(), put)
    assert case.differences(lambda x: (x + 0.25 * (torch.arange(len(x)) == 1)).sin(), put)
