"""The workspace of a graph: as small as the tensors that are live at the same time, and listed in the report."""

from __future__ import annotations

import dynamlir
import pytest
import torch


def compile_report(fn, *args: torch.Tensor) -> dynamlir.CompileReport:
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="dynamlir", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(*args), fn(*args))
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None
    return report


def chain(length: int):
    def run(x: torch.Tensor) -> torch.Tensor:
        for _ in range(length):
            x = torch.softmax(x @ x, -1)
        return x

    return run


def test_a_chain_needs_the_same_memory_however_long_it_is() -> None:
    reports = [compile_report(chain(length), torch.randn(32, 32)) for length in (4, 12)]
    for report in reports:
        # A step's operand and result, and perhaps space for a product's packed operand.
        assert 2 * 32 * 32 * 4 <= report.workspace_bytes <= 3 * 32 * 32 * 4
        assert report.live_bytes == report.workspace_bytes == reports[0].workspace_bytes
        assert f"workspace {report.workspace_bytes} bytes, {report.live_bytes} live at once" in str(report)


@pytest.mark.parametrize("seed", range(3))
def test_grown_graphs_are_packed_tightly(seed: int) -> None:
    """Products of matrices of random shapes, each of two earlier values."""
    generator = torch.Generator().manual_seed(seed)
    picks = torch.randint(0, 1 << 20, (20,), generator=generator).tolist()

    def grown(x: torch.Tensor) -> list[torch.Tensor]:
        values = [x]
        for pick in picks:
            a, b = values[pick % len(values)], values[pick // 7 % len(values)]
            rows = 8 + pick // 49 % 32
            made = torch.softmax(a @ b.t(), -1) @ b
            values.append(torch.tanh(torch.cat([made, a])[:rows]))
        return values[-3:]

    report = compile_report(grown, torch.randn(48, 16))
    assert 0 < report.live_bytes <= report.workspace_bytes <= 1.25 * report.live_bytes
