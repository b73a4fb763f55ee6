"""Checks that compiling kernels on several threads gives the same code, and the same report except for its times."""

from __future__ import annotations

import dynamlir
import pytest
import torch
from dynamlir import config, options


def several_kernels(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Kernels that cannot be fused, since a matrix product lies between them; two of them are equal."""
    a = torch.softmax(x @ x, -1)
    b = torch.nn.functional.layer_norm(a @ x, x.shape[-1:])
    c = torch.softmax(b @ x, -1)
    return a, b, c, (c @ x).cumsum(0), (c @ a).amax(0)


def compile_on(threads: int | None) -> tuple[tuple[torch.Tensor, ...], dynamlir.CompileReport]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    compiled = torch.compile(
        several_kernels, backend="dynamlir", fullgraph=True, options={"threads": threads, "no_cache": True}
    )
    with torch.no_grad():
        made = compiled(torch.randn(24, 24))
    report = dynamlir.last_compile()
    assert report is not None and report.eager is None
    return made, report


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    alone, together = compile_on(1), compile_on(3)
    for one, other in zip(alone[0], together[0], strict=True):
        assert torch.equal(one, other)
    assert (alone[1].threads, together[1].threads) == (1, 3)
    assert alone[1].kernels == together[1].kernels
    assert set(alone[1].passes) == set(together[1].passes)


def test_there_are_no_more_threads_than_kernels() -> None:
    _, report = compile_on(64)
    assert 1 < report.threads <= report.kernels


def test_the_report_says_what_passes_take() -> None:
    _, report = compile_on(2)
    assert {"dynamo-fuse", "dynamo-schedule", "canonicalize", "dynamo-alias-scopes"} <= set(report.passes)
    assert all(seconds >= 0 for seconds in report.passes.values())
    assert "slowest passes on 2 threads, in milliseconds: " in str(report)


def test_a_dump_shows_all_kernels_in_one_file(tmp_path) -> None:
    torch._dynamo.reset()
    options = {"dump": str(tmp_path), "threads": 4}
    with torch.no_grad():
        torch.compile(several_kernels, backend="dynamlir", options=options)(torch.randn(24, 24))
    report = dynamlir.last_compile()
    assert report is not None and report.threads == 1
    assert (tmp_path / "09-kernels.ll").read_text().count("__packed(") == report.kernels


@pytest.mark.parametrize("threads", [0, -1, 1.5, True, "2"])
def test_a_number_of_threads_that_is_none_is_refused(threads: object) -> None:
    with pytest.raises(ValueError, match="threads"):
        options.resolve(options={"threads": threads})


def test_the_environment_may_say_how_many_threads() -> None:
    assert config.read("threads", {"DYNAMLIR_COMPILE_THREADS": "3"}) == 3
    assert config.read("threads", {}) is None
    with pytest.raises(ValueError, match="DYNAMLIR_COMPILE_THREADS"):
        config.read("threads", {"DYNAMLIR_COMPILE_THREADS": "many"})
