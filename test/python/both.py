"""Compares functions with eager through both front doors: `torch.compile(backend="dynamlir")`, `dynamlir.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch
from gradients import run_with_gradients
from harness import Tolerance, clone_tree, differences, run

DOORS: dict[str, Callable[..., Any]] = {
    "torch.compile": lambda fn: torch.compile(fn, backend="dynamlir", dynamic=False),
    "dynamlir.compile": dynamlir.compile,
}


def each_door(**options: Any) -> pytest.MarkDecorator:
    """Runs a test with each front door as ``door``; the options are those of `torch.compile`."""
    doors = [dynamlir.compile, lambda function: torch.compile(function, backend="dynamlir", **options)]
    return pytest.mark.parametrize("door", doors, ids=["dynamlir.compile", "torch.compile"])


def check_both(
    fn: Callable[..., Any],
    *args: Any,
    expect: str | None = "compiled",
    calls: int = 2,
    values: bool = True,
    tolerance: Tolerance | None = None,
    gradients: bool = False,
    doors: tuple[str, ...] = tuple(DOORS),
) -> None:
    """Asserts that ``fn`` returns, raises and writes the same through both doors as in eager, metadata included; with
    ``gradients``, those too. ``expect``: "compiled" if nothing may run as plain Python, a reason that must be among
    those counted, or None.
    """
    for door in doors:
        torch._dynamo.reset()
        dynamlir.reset()
        runner = run_with_gradients if gradients else run
        with torch.set_grad_enabled(gradients):
            compiled = DOORS[door](fn)
            for call in range(calls):
                eager = runner(fn, clone_tree(args), {})
                ours = runner(compiled, clone_tree(args), {})
                found = differences(eager, ours, values=values, tolerance=tolerance)
                assert not found, f"{door}, call {call}: " + "; ".join(found) + "\n" + dynamlir.explain_last()
        reasons = dynamlir.counters()["fallbacks"]
        if expect == "compiled":
            assert not reasons, f"{door}: {reasons}"
        elif expect is not None:
            assert expect in reasons, f"{door}: expected {expect}, met {reasons}"


def run_seeded(fn: Callable[..., Any], make: Callable[[], Any], seed: int = 5) -> tuple[Any, torch.Tensor]:
    """The result of ``fn`` on new inputs with the random generator at ``seed``, and the generator's state after it."""
    inputs = make()
    torch.manual_seed(seed)
    return fn(inputs), torch.get_rng_state()
