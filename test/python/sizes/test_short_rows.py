"""Sums of rows of dynamic length: float32 for short rows; once one is long, an entry for rows of any length."""

from __future__ import annotations

from collections.abc import Callable

import dynamlir
import forked
import pytest
import torch
import torch.nn.functional as F
from dynamlir.aten.row_lengths import SHORT
from torch import Tensor

pytestmark = [pytest.mark.usefixtures("quiet")]

SUMS: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(-1),
    "mean of all": lambda x: x[0].mean(),
    "softmax": lambda x: x.softmax(-1),
    "norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "root of squares": lambda x: F.rms_norm(x, x.shape[-1:]),
    "product": lambda x: x @ x[0],
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None, :, :1, None], x[None, :, :, None], x[None, :, :, None]
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_two_entries_for_short_and_long_rows(name: str) -> None:
    compiled = dynamlir.compile(SUMS[name], dynamic=True)
    for length, entries in ((100, 1), (7, 1), (SHORT, 1), (SHORT + 1, 2), (70_000, 2), (513, 2), (SHORT + 7, 2)):
        x = torch.randn(3, length)
        torch.testing.assert_close(compiled(x), SUMS[name](x), rtol=1e-4, atol=1e-5)
        assert len(compiled._cache) == entries, length
    assert not dynamlir.counters()["fallbacks"]


def test_nothing_is_assumed_of_rows_that_are_long_already() -> None:
    compiled = dynamlir.compile(SUMS["sum"], dynamic=True)
    for length in (SHORT + 1, 100, 50_000, 3):
        x = torch.randn(3, length)
        torch.testing.assert_close(compiled(x), x.sum(-1), rtol=1e-4, atol=1e-4)
    assert len(compiled._cache) == 1


@pytest.mark.parametrize("name", ["columns", "doubles", "elements"])
def test_what_is_no_sum_of_single_floats_along_rows_is_one_entry(name: str) -> None:
    function = {"columns": lambda x: x.sum(0), "doubles": lambda x: x.double().sum(-1), "elements": lambda x: x * 2}[
        name
    ]
    compiled = dynamlir.compile(function, dynamic=True)
    for length in (100, SHORT + 1):
        x = torch.randn(3, length)
        torch.testing.assert_close(compiled(x), function(x))
    assert len(compiled._cache) == 1


def test_nothing_is_assumed_of_a_declared_length() -> None:
    x = torch.randn(3, 100)
    torch._dynamo.mark_dynamic(x, 1, min=2, max=1 << 20)
    compiled = dynamlir.compile(SUMS["sum"])
    compiled(x)
    compiled(torch.randn(3, SHORT + 1))
    assert len(compiled._cache) == 1
    length = dynamlir.Dim("length", max=1 << 20)
    program = dynamlir.export(lambda x: x.softmax(-1), x.clone(), dynamic_shapes=({1: length},))
    long = torch.randn(3, SHORT + 1)
    torch.testing.assert_close(program(long), long.softmax(-1))


def test_gradients_assume_no_more() -> None:
    compiled = dynamlir.compile(lambda x: x.softmax(-1).log(), dynamic=True)
    for length in (5, 100, SHORT + 1):
        ours, theirs = (torch.linspace(0, 1, 2 * length).view(2, length).requires_grad_() for _ in range(2))
        compiled(ours).square().sum().backward()
        theirs.softmax(-1).log().square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-3, atol=1e-3)
    assert len(compiled._cache) == 2


def test_behind_torch_compile() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(SUMS["softmax"], backend="dynamlir", dynamic=True)
    for length in (100, 7, SHORT + 1):
        x = torch.randn(3, length)
        torch.testing.assert_close(compiled(x), x.softmax(-1))
    assert not dynamlir.counters()["fallbacks"]


SILENT = """
import dynamlir, torch
scale = torch.tensor([0.5, 2.0])
compiled = dynamlir.compile(lambda x: (x / scale).sum())
for count in (6, 7, 8):
    compiled(torch.randn(count, 2))
"""


def test_llvm_says_nothing_to_the_user() -> None:
    """LLVM warns about loops that it is told to vectorize and cannot, for example if a row has two elements."""
    done = forked.python(SILENT)
    assert (done.returncode, done.stderr) == (0, "")
