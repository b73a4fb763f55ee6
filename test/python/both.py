"""The same comparison with eager through both front doors: `torch.compile(backend="dynamlir")` and
`dynamlir.compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dynamlir
import torch
from harness import Tolerance, clone_tree, differences, run

DOORS: dict[str, Callable[..., Any]] = {
    "torch.compile": lambda fn: torch.compile(fn, backend="dynamlir", dynamic=False),
    "dynamlir.compile": dynamlir.compile,
}


def check_both(
    fn: Callable[..., Any],
    *args: Any,
    expect: str | None = "compiled",
    calls: int = 2,
    values: bool = True,
    tolerance: Tolerance | None = None,
    doors: tuple[str, ...] = tuple(DOORS),
) -> None:
    """Assert that ``fn`` gives, raises and writes through both doors what it does in eager, metadata included.
    ``expect``: "compiled" if nothing may run as plain Python, a reason that has to be among those counted, or None."""
    for door in doors:
        torch._dynamo.reset()
        dynamlir.reset()
        with torch.no_grad():
            compiled = DOORS[door](fn)
            for call in range(calls):
                eager = run(fn, clone_tree(args), {})
                ours = run(compiled, clone_tree(args), {})
                found = differences(eager, ours, values=values, tolerance=tolerance)
                assert not found, f"{door}, call {call}: " + "; ".join(found) + "\n" + dynamlir.explain_last()
        reasons = dynamlir.counters()["fallbacks"]
        if expect == "compiled":
            assert not reasons, f"{door}: {reasons}"
        elif expect is not None:
            assert expect in reasons, f"{door}: expected {expect}, met {reasons}"


def run_seeded(fn: Callable[..., Any], make: Callable[[], Any], seed: int = 5) -> tuple[Any, torch.Tensor]:
    """What ``fn`` gives on new inputs with the random generator at ``seed``, and its state afterwards."""
    inputs = make()
    torch.manual_seed(seed)
    return fn(inputs), torch.get_rng_state()
