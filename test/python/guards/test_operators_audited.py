"""Captures every OpInfo's first samples, calls them again under audits, and checks that no second call gets a stale
answer.
"""

from __future__ import annotations

import itertools
from typing import Any

import dynamlir
import harness
import opinfo_runner
import pytest
import sampled
import torch
from gradients import run_with_gradients

pytestmark = [pytest.mark.long]

SAMPLES = 3
# Listing the OpInfos takes seconds, in each process that collects tests.
ORDERS = range(sampled.examples(0, 2))
CASES = [(op, order) for order in ORDERS for op in opinfo_runner.forward_ops(opinfo_runner.Samples(order=order))]


def named(case: Any) -> str:
    op, order = case
    return f"{opinfo_runner.op_name(op)}-{'trained' if order else 'plain'}"


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("case", CASES, ids=named)
def test_the_second_call_is_the_same_program(case: Any) -> None:
    op, order = case
    target = op.op

    def call(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    runner = run_with_gradients if order else harness.run
    samples = op.sample_inputs("cpu", torch.float32, requires_grad=bool(order))
    with dynamlir.config.patch(audit=True, on_audit="warn"), torch.set_grad_enabled(bool(order)):
        for sample in itertools.islice(samples, SAMPLES):
            # Audits compare the captured graphs, so nothing needs to be compiled.
            compiled = dynamlir.compile(call, backend="eager")
            for _ in range(2):
                args, kwargs = harness.clone_tree(((sample.input, *sample.args), sample.kwargs))
                runner(compiled, args, kwargs)
    assert dynamlir.audits().differences == []
